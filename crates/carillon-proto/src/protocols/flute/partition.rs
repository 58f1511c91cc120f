//! Partition of an object by its transmission information.

use carillon_wire::alc::{Code, Transmission};

use crate::blocks::Partition;

/// Partition of an object; `None` if there is none. RFC 5053 and RFC 6330 give the number of blocks, and other codes
/// the maximum number of symbols of a block.
pub(super) fn partition(transmission: &Transmission) -> Option<Partition> {
    let maximum = match transmission.code {
        Code::Raptor { blocks, .. } => {
            return Partition::new(transmission.length, transmission.symbol, |_| blocks.into());
        }
        Code::RaptorQ { blocks, .. } => {
            return Partition::new(transmission.length, transmission.symbol, |_| blocks.into());
        }
        Code::NoCode { block } => block.into(),
        Code::ReedSolomon8 { block, .. } => block.into(),
        Code::ReedSolomon { block, .. } | Code::SmallBlock { block, .. } => u64::from(block),
    };
    Partition::new(transmission.length, transmission.symbol, |symbols| symbols.div_ceil(maximum.max(1)))
}
