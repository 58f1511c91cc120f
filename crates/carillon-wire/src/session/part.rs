//! What a member will do.

use crate::ParseError;
use crate::reader::Reader;

/// What a member will do, as it says when it joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Receive.
    #[default]
    Receives,
    /// Receive, and offer messages of its own, as only peers can.
    Offers,
    /// Help others, and neither offer nor deliver.
    Helps,
}

impl Part {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        match reader.u8()? {
            0 => Ok(Part::Receives),
            1 => Ok(Part::Offers),
            2 => Ok(Part::Helps),
            other => Err(ParseError::Field { field: "part", value: other.into() }),
        }
    }

    pub(super) fn code(self) -> u8 {
        match self {
            Part::Receives => 0,
            Part::Offers => 1,
            Part::Helps => 2,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Part::Receives => "",
            Part::Offers => " offers",
            Part::Helps => " helps",
        }
    }
}
