//! Packets of SNR, DSP, CSP and CP for suites: fuzzed, golden and forged ones.

use carillon_core::AssociationId;
use carillon_wire::envelope::Envelope;
use carillon_wire::map::Map;
use carillon_wire::status::{Family, Packet, STATUS_LEN, Status};

use super::feedback::{clear, raise};
use super::{FormatTests, Golden};
use crate::Forgery;
use crate::fuzz::Input;

/// Forges a status of one protocol of the family in place.
pub(crate) fn forge_feedback(family: Family, lie: Forgery, bytes: &mut [u8]) {
    let Ok((_, Packet::Status(status))) = Packet::parse(family, bytes) else { return };
    let behind = status.lower.wrapping_sub(status.done);
    let map = STATUS_LEN..STATUS_LEN + 8 * status.map.count();
    let [lower, done, buffer] = [4, 8, 24].map(|at| Envelope::LEN + at);
    let by = match lie {
        // 65535 stands for that many free blocks or more.
        Forgery::UnlimitedRoom => return bytes[buffer..buffer + 2].fill(u8::MAX),
        Forgery::Ahead(by) => by,
        Forgery::Complete => clear(&mut bytes[map]),
    };
    raise(bytes, lower, by);
    raise(bytes, done, by.wrapping_add(behind));
}

macro_rules! tests {
    ($(#[$doc:meta])* $name:ident, $family:expr, $word:literal, $number:literal) => {
        $(#[$doc])*
        pub(super) static $name: FormatTests = FormatTests {
            format: &carillon_wire::status::$name,
            fuzzed: |input, session, buf| fuzzed($family, input, session, buf),
            golden: &[
                Golden {
                    line: concat!($word, " status seq 9 lower 513 done 512 echo 77 held 1500 age 250 buffer 24 k 2 map 0xe"),
                    hex: concat!("ca01", $number, "00 00000007 00000009 00000201 00000200 0000004d 000005dc 000000fa 00180201 00000000 0000000e"),
                },
                Golden {
                    line: concat!($word, " status local seq 10 lower 514 done 513 echo 78 held 1600 age 0 buffer 65535 k 0 map"),
                    hex: concat!("ca01", $number, "01 00000007 0000000a 00000202 00000201 0000004e 00000640 00000000 ffff0000"),
                },
                Golden {
                    line: concat!($word, " data local seq 78 block 516 first 501 interval 6000 len 1"),
                    hex: concat!("ca01", $number, "02 00000007 0000004e 00000204 000001f5 00001770 04"),
                },
                Golden {
                    line: concat!($word, " data seq 77 block 515 first 500 interval 5000 len 3"),
                    hex: concat!("ca01", $number, "03 00000007 0000004d 00000203 000001f4 00001388 010203"),
                },
                Golden {
                    line: concat!($word, " order start block 514"),
                    hex: concat!("ca01", $number, "04 00000007 00000202 01"),
                },
                Golden {
                    line: concat!($word, " state seq 78 upper 516 first 500 interval 5000 k 4"),
                    hex: concat!("ca01", $number, "05 00000007 0000004e 00000204 000001f4 00001388 04"),
                },
            ],
        };
    };
}

tests!(
    /// Packets of SNR.
    SNR, Family::Snr, "snr", "28"
);
tests!(
    /// Packets of DSP.
    DSP, Family::Dsp, "dsp", "29"
);
tests!(
    /// Packets of CSP.
    CSP, Family::Csp, "csp", "2a"
);
tests!(
    /// Packets of CP.
    CP, Family::Cp, "cp", "2b"
);

/// Makes packets with fuzzed fields and mostly small sequence numbers.
fn fuzzed(family: Family, input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let mut number = || match form >> 3 & 7 {
        0 => u32::from_be_bytes([input.byte(), input.byte(), input.byte(), input.byte()]),
        _ => u32::from(input.byte() % 24),
    };
    let (seq, block, first) = (number(), number(), number());
    let (local, short) = (form & 0x40 != 0, usize::from(form >> 5));
    let interval = 1000 * u32::from(input.byte() % 24);
    let packet = match form & 7 {
        0..=2 => Packet::Data { local, seq, block, first, interval, payload: input.bytes(short) },
        3 => Packet::Order { block, start: local },
        4 => Packet::State { seq, upper: block, first, interval, k: input.byte() },
        _ => Packet::Status(Status {
            local,
            seq,
            lower: block,
            done: first,
            echo: u32::from(input.byte() % 24),
            held: interval,
            age: u32::from(input.byte()) * 100,
            buffer: input.byte().into(),
            k: input.byte() % 8,
            map: Map::new(input.bytes(8 * (short & 3))),
        }),
    };
    packet.emit(family, association, buf);
}
