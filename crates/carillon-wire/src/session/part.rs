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
    /// Receive, and help others if it is let: a designated receiver.
    ReceivesAndHelps,
}

impl Part {
    /// Whether it delivers messages, and reports in the end.
    pub fn receives(self) -> bool {
        self != Part::Helps
    }

    /// Whether it offers messages of its own.
    pub fn offers(self) -> bool {
        self == Part::Offers
    }

    /// Whether others may turn to it.
    pub fn helps(self) -> bool {
        matches!(self, Part::Helps | Part::ReceivesAndHelps)
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        match reader.u8()? {
            0 => Ok(Part::Receives),
            1 => Ok(Part::Offers),
            2 => Ok(Part::Helps),
            3 => Ok(Part::ReceivesAndHelps),
            other => Err(ParseError::Field { field: "part", value: other.into() }),
        }
    }

    pub(super) fn code(self) -> u8 {
        match self {
            Part::Receives => 0,
            Part::Offers => 1,
            Part::Helps => 2,
            Part::ReceivesAndHelps => 3,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Part::Receives => "",
            Part::Offers => " offers",
            Part::Helps => " helps",
            Part::ReceivesAndHelps => " receives and helps",
        }
    }
}
