//! What a member will do.

use crate::ParseError;
use crate::reader::Reader;

/// What a member will do, as it says when it joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberRole {
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

impl MemberRole {
    /// Whether it delivers messages, and reports in the end.
    pub fn receives(self) -> bool {
        self != MemberRole::Helps
    }

    /// Whether it offers messages of its own.
    pub fn offers(self) -> bool {
        self == MemberRole::Offers
    }

    /// Whether others may turn to it.
    pub fn helps(self) -> bool {
        matches!(self, MemberRole::Helps | MemberRole::ReceivesAndHelps)
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        match reader.u8()? {
            0 => Ok(MemberRole::Receives),
            1 => Ok(MemberRole::Offers),
            2 => Ok(MemberRole::Helps),
            3 => Ok(MemberRole::ReceivesAndHelps),
            other => Err(ParseError::Field { field: "part", value: other.into() }),
        }
    }

    pub(super) fn code(self) -> u8 {
        match self {
            MemberRole::Receives => 0,
            MemberRole::Offers => 1,
            MemberRole::Helps => 2,
            MemberRole::ReceivesAndHelps => 3,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            MemberRole::Receives => "",
            MemberRole::Offers => " offers",
            MemberRole::Helps => " helps",
            MemberRole::ReceivesAndHelps => " receives and helps",
        }
    }
}
