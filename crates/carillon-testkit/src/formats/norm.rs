//! Packets of `norm` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::norm::{
    Body, Command, Congestion, Extensions, Form, Item, Nodes, Object, Packet, Position, Request, Requests,
    Response, SenderState, Stamp, StreamHeader, Transmission,
};

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::norm::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields and mostly small numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session).0);
    let number = |input: &mut Input<'_>| match form >> 5 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 6),
    };
    let instance = (association ^ association >> 16) as u16;
    let sender = SenderState { instance, grtt: input.byte(), backoff: form >> 4 & 15, group_size: form & 7 };
    let of_session = association.clamp(1, u32::MAX - 1);
    let source = if input.byte().is_multiple_of(8) { 1 + u32::from(input.byte() % 6) } else { of_session };
    let block = number(input);
    let position = fuzzed_position(input, block);
    let object = Object { id: number(input) as u16, flags: Object::STREAM | (input.byte() & 3) };
    let echo = Stamp { seconds: number(input), microseconds: number(input) };
    let response = Response { sender: of_session, instance, echo };
    let (mut nodes, mut list, mut content, mut extensions) = (vec![], vec![], vec![], vec![]);
    nodes.extend((0..input.below(3)).flat_map(|node| (2 + node as u32).to_be_bytes()));
    for _ in 0..input.below(3) {
        let form = input.pick(&[Form::Items, Form::Ranges, Form::Erasures]);
        let items: Vec<Item> = (0..2 * (1 + input.below(2)))
            .map(|_| {
                let block = u32::from(input.byte() % 4);
                Item { object: object.id, position: fuzzed_position(input, block) }
            })
            .collect();
        Requests::push(&mut list, form, input.pick(&[Request::SEGMENT, Request::BLOCK, 0x0c]), items);
    }
    let length = input.below(12);
    let header = StreamHeader { length: length as u16, message_start: 1, offset: number(input) };
    header.emit(&mut content);
    content.extend_from_slice(input.bytes(length));
    if form & 0x10 != 0 {
        let transmission = Transmission { size: 1 << 20, segment: 1400, block: 8, parity: 2, bits: 8 };
        Extensions::push_rs8(&mut extensions, transmission);
    }
    // Lists as this function has just written them are valid.
    let (Ok(nodes), Ok(requests)) = (Nodes::new(&nodes), Requests::new(&list)) else { return };
    let command = |command| Body::Command { sender, command };
    let body = match form & 15 {
        0..=4 => Body::Data { sender, object, position, payload: &content },
        5 => Body::Info { sender, object, fec_id: 5, payload: &content },
        6 | 7 => command(Command::Flush { object: object.id, position, nodes }),
        8 => command(Command::Squelch { object: object.id, position, invalid: &[] }),
        9 => command(Command::Probe { sequence: number(input) as u16, sent: echo, nodes: &[] }),
        10 => command(Command::RepairAdvertisement { limited: input.byte() % 2 == 1, requests }),
        11 => command(Command::AckRequest { kind: 2, id: input.byte(), nodes }),
        12 => command(if input.byte().is_multiple_of(4) {
            Command::End
        } else {
            Command::Application(&content)
        }),
        13 => Body::Ack { response, kind: 2, id: 0, payload: &content },
        _ => Body::Nack { response, requests },
    };
    if matches!(body, Body::Nack { .. }) {
        let state = Congestion { sequence: 1, flags: 4, rtt: 100, loss: number(input) as u16, rate: 0x51f4 };
        Extensions::push_congestion(&mut extensions, state);
    }
    let Ok(extensions) = Extensions::new(&extensions) else { return };
    Packet { sequence: number(input) as u16, source, body, extensions }.emit(buf);
}

fn fuzzed_position(input: &mut Input<'_>, block: u32) -> Position {
    let symbol = input.byte() % 80;
    match input.below(16) {
        0 => Position::Rs { both: block << 8 | u32::from(symbol) },
        1 => Position::Systematic { block, length: 64, symbol: symbol.into() },
        _ => Position::Rs8 { block: block & 0xff_ffff, symbol },
    }
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "norm ack 5 from 0x3 to 0x3 instance 7 echo 3.000005 type 2 id 0 len 16",
        hex: "15060005 00000003 00000003 00070200 00000003 00000005 00080001 00000004 87b31063 46dc6c37",
    },
    Golden {
        line: "norm application 1 from 0x1 instance 7 grtt 0.000027 k 15 group 100000 len 12 fti 0000001000000578080a",
        hex: "13070001 00000001 00071af4 07000000 40030000 00100000 0578080a 00040001 00000005 31ef724c",
    },
    Golden {
        line: "norm ack_req 1 from 0x1 instance 7 grtt 0.000898 k 0 group 1000 type 2 id 5 0x2",
        hex: "13040001 00000001 00074a02 06000205 00000002",
    },
    Golden {
        line: "norm cc 7 from 0xa000001 instance 1 grtt 0.532216 k 4 group 10000 9 at 1000.250000 nodes 1 rate 32007",
        hex: "13070007 0a000001 00019d43 04000009 000003e8 0003d090 800051f4 0a000002 058828f4",
    },
    Golden {
        line: "norm data 5 from 0x5 instance 7 grtt 0.005268 k 13 group 1000 object 3 flags 0x20 position 0x525 len 8 fti 0000001000000578080a",
        hex: "12080005 00000005 000761d2 20020003 00000525 40030000 00100000 0578080a 00000001 00000004",
    },
    Golden {
        line: "norm eot 0 from 0x4 instance 7 grtt 1.822234 k 0 group 100000",
        hex: "13040000 00000004 0007ad04 02000000",
    },
    Golden {
        line: "norm flush 0 from 0x5 instance 7 grtt 4.586604 k 7 group 10000000 object 5 block 2 symbol 58 0x2 0x3 fti 0000001000000578080a",
        hex: "13080000 00000005 0007b976 01050005 0000023a 40030000 00100000 0578080a 00000002 00000003",
    },
    Golden {
        line: "norm info 0 from 0x5 instance 7 grtt 2.890997 k 15 group 1000000 object 4 flags 0x20 len 12 fti 0000001000000578080a",
        hex: "11070000 00000005 0007b3f5 20050004 40030000 00100000 0578080a 00040001 00000001 a16a0cc8",
    },
    Golden {
        line: "norm nack 5 from 0x2 to 0x3 instance 7 echo 1.000000 fti 0000001000000578080a cc 1 flags 0x04 rtt 0.006635 loss 1 rate 32007",
        hex: "140c0005 00000002 00000003 00070000 00000001 00000000 40030000 00100000 0578080a 03030001 04640001 51f40000",
    },
    Golden {
        line: "norm repair_adv 42107 from 0x6 instance 7 grtt 0.000898 k 0 group 1000 limited items 0x01 [object 44212 block 0 symbol 41] [object 44212 block 3 of 64 symbol 30]",
        hex: "1304a47b 00000006 00074a02 05010000 01010014 0500acb4 00000029 8100acb4 00000003 0040001e",
    },
    Golden {
        line: "norm squelch 6 from 0xa000001 instance 1 grtt 0.532216 k 4 group 10000 object 10 block 0 of 32 symbol 0 not 11",
        hex: "13060006 0a000001 00019d43 0381000a 00000000 00200000 000b",
    },
];
