//! Role of a member in a session.

use crate::ParseError;
use crate::reader::Reader;

/// Role that a receiver asks for in its JOIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberRole {
    /// Receiver.
    #[default]
    Receives,
    /// Peer: receives, and offers messages of its own.
    Offers,
    /// Helper: repairs for others, and neither offers nor delivers.
    Helps,
    /// Designated receiver: receives, and helps others if the protocol has helpers.
    ReceivesAndHelps,
}

impl MemberRole {
    /// Returns true if the member delivers messages and reports in the end.
    pub fn receives(self) -> bool {
        self != MemberRole::Helps
    }

    /// Returns true if the member offers messages of its own.
    pub fn offers(self) -> bool {
        self == MemberRole::Offers
    }

    /// Returns true if the member may be the parent of others.
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
