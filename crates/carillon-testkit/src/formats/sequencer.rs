//! Packets of `sequencer` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::sequencer::{Body, Packet, Report, Status};

use super::reformation;
use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::sequencer::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with mostly small views and sequence numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let view = number(input) >> 3;
    let (a, b, c) = (number(input), number(input), number(input));
    let source = input.byte() % 6;
    let wanted = input.byte();
    let wanted = (0..8).filter(|bit| wanted >> bit & 1 == 1).collect();
    let len = input.below(12);
    let payload = input.bytes(len);
    let body = match form % 16 {
        0 | 1 => Body::Request { ack: a, message: b, broadcast: form & 16 != 0, payload },
        2..=4 => {
            Body::Ordered { order: a, accepted: b, purge: c, source, message: c, payload: Some(payload) }
        }
        5 => Body::Ordered { order: a, accepted: b, purge: c, source, message: c, payload: None },
        6 => Body::Retrans { ack: a, order: b },
        7 | 8 => {
            let kinds = [Report::Ack, Report::Dummy, Report::AckCommit, Report::AckPhase2, Report::AliveReq];
            Body::Report { kind: kinds[usize::from(source) % 5], ack: a }
        }
        9 | 10 => {
            let kinds = [Status::Accept, Status::Alive, Status::Phase1, Status::Phase2];
            Body::Status { kind: kinds[usize::from(source) % 4], next: a, accepted: b, purge: c, wanted }
        }
        11 => Body::Fetch { order: a },
        12 => Body::Fetched { order: a, source, message: b, payload },
        13 => Body::Gone { order: a, state: &[0; 40] },
        _ => {
            let mut state = Vec::new();
            let packet = reformation::fuzzed(form >> 4, input, &mut state);
            return Packet::Reformation(packet).emit(association, buf);
        }
    };
    Packet::Normal { view, body }.emit(association, buf);
}

/// Draws a small number, or any number.
fn number(input: &mut Input<'_>) -> u32 {
    match input.byte() {
        255 => input.u32(),
        byte => u32::from(byte & 15),
    }
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "sequencer accept view 0 next 8 accepted 10 purge 2570973760 wanted {1 5 6}",
        hex: "ca010420 00000007 00000000 00000008 0000000a 993df240 0162",
    },
    Golden { line: "sequencer ack view 1 ack 1388287516", hex: "ca010410 00000007 00000001 52bf961c" },
    Golden { line: "sequencer ack_commit view 1 ack 3482078895", hex: "ca010412 00000007 00000001 cf8c4eaf" },
    Golden { line: "sequencer ack_phase2 view 93355023 ack 10", hex: "ca010413 00000007 05907c0f 0000000a" },
    Golden { line: "sequencer active 6.5", hex: "ca010445 00000007 00000006 0005" },
    Golden {
        line: "sequencer alive view 1 next 4239947367 accepted 1413522938 purge 12 wanted {0 2 3 5 7}",
        hex: "ca010421 00000007 00000001 fcb87667 5440a5fa 0000000c 01ad",
    },
    Golden { line: "sequencer alivereq view 92021860 ack 10", hex: "ca010414 00000007 057c2464 0000000a" },
    Golden {
        line: "sequencer broadcast view 497910738 ack 12 message 13 len 9",
        hex: "ca010402 00000007 1dad83d2 0000000c 0000000d a0bd10b5 aaec2077 9f",
    },
    Golden { line: "sequencer dummy view 415379780 ack 0", hex: "ca010411 00000007 18c23144 00000000" },
    Golden { line: "sequencer fetch view 281088962 order 2", hex: "ca010430 00000007 10c113c2 00000002" },
    Golden {
        line: "sequencer fetched view 1 order 1340066736 source 2 message 8 len 10",
        hex: "ca010431 00000007 00000001 4fdfcbb0 00020000 0008ab9a 87282f82 b2993766",
    },
    Golden {
        line: "sequencer gone view 413347889 order 8 state 40",
        hex: "ca010432 00000007 18a33031 00000008 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
    },
    Golden { line: "sequencer installed 5.2", hex: "ca010446 00000007 00000005 0002" },
    Golden { line: "sequencer invite 2.5", hex: "ca010440 00000007 00000002 0005" },
    Golden { line: "sequencer join", hex: "ca010447 00000007 00" },
    Golden {
        line: "sequencer ordered view 268663575 order 11 accepted 1 purge 10 source 2 message 10 len 11",
        hex: "ca010403 00000007 10037b17 0000000b 00000001 0000000a 00020000 000adf6b 5a4da5b2 4c4b8348 6a",
    },
    Golden {
        line: "sequencer phase1 view 0 next 2 accepted 3097367165 purge 9 wanted {1 3 7}",
        hex: "ca010422 00000007 00000000 00000002 b89e127d 00000009 018a",
    },
    Golden {
        line: "sequencer phase2 view 111523667 next 5 accepted 0 purge 12 wanted {0 4 6 7}",
        hex: "ca010423 00000007 06a5b753 00000005 00000000 0000000c 01d1",
    },
    Golden { line: "sequencer ready 6.3", hex: "ca010444 00000007 00000006 0003" },
    Golden { line: "sequencer refuse 5.3 promised 6.2", hex: "ca010442 00000007 00000005 00030000 00060002" },
    Golden {
        line: "sequencer request view 1 ack 8 message 3199959845 len 11",
        hex: "ca010401 00000007 00000001 00000008 bebb8325 e28e8458 9c115c36 530f3b",
    },
    Golden {
        line: "sequencer retrans view 225388115 ack 9 order 13",
        hex: "ca010405 00000007 0d6f2653 00000009 0000000d",
    },
    Golden {
        line: "sequencer short view 396689218 order 14 accepted 4 purge 13 source 5 message 13",
        hex: "ca010404 00000007 17a4ff42 0000000e 00000004 0000000d 00050000 000d",
    },
    Golden {
        line: "sequencer start 2.1 base 3 length 226 members {5 7} joiners {7} state 0",
        hex: "ca010443 00000007 00000002 00010000 00030000 00000000 00e201a0 0180",
    },
    Golden {
        line: "sequencer vote 6.3 accepted 2 length 144 members {1 3 4 5 6} joiners {5 6}",
        hex: "ca010441 00000007 00000006 00030000 00020000 00000000 0090017a 0160",
    },
];
