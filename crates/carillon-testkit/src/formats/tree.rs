//! Packets of the tree protocol for tests of helpers.

use carillon_core::AssociationId;

use super::FormatTests;
use crate::fuzz::Input;
use crate::tree::{FORMAT, emit};

/// Fuzzed packets. The format belongs to no wire version, so no packet is golden.
pub(super) static TESTS: FormatTests = FormatTests { format: &FORMAT, fuzzed, golden: &[] };

/// Makes a packet of either type, sometimes of neither or of another session.
fn fuzzed(input: &mut Input<'_>, association: AssociationId, bytes: &mut Vec<u8>) {
    let association = AssociationId(association.0 + u32::from(input.byte() < 16));
    let (packet_type, number, len) = (input.byte() % 4, u64::from(input.byte() % 24), input.below(8));
    emit(association, packet_type, number, input.bytes(len), bytes);
}
