//! Packets of `kfold` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::kfold::Packet;

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::kfold::FORMAT, fuzzed, golden: GOLDEN };

fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let association = input.association(session);
    let number = if input.byte() == 0 { input.u32() } else { u32::from(input.byte() % 24) };
    let len = input.below(8);
    Packet { number, payload: input.bytes(len) }.emit(association, buf);
}

const GOLDEN: &[Golden] = &[Golden { line: "kfold data 5 len 2", hex: "ca010901 00000007 00000005 6869" }];
