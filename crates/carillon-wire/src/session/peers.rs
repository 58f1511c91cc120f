//! Roster of a session with peers or helpers, in pages of one datagram each.

use std::fmt;

use super::fields::put_name;
use super::{Identity, MemberRole, Name};
use crate::ParseError;
use crate::reader::Reader;

/// Maximum number of members of a session with a roster, the gathering node included.
pub const MAX_PEERS: usize = 1024;

/// Page of the roster: members in order of rank, from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RosterPage<'a> {
    /// Edition of the roster; it grows with each change of the members.
    pub edition: u32,
    /// Number of members in the whole roster, 1 to [`MAX_PEERS`].
    pub total: u16,
    /// Rank of the first member of this page.
    pub first: u16,
    /// Members of this page.
    pub peers: PeerList<'a>,
}

/// Member in the roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer<'a> {
    /// Public name of the member on the wire.
    pub identity: Identity,
    /// Role of the member.
    pub part: MemberRole,
    /// True if the member has left or was expelled.
    pub gone: bool,
    /// Rank of its parent helper; 0, the rank of the gathering node, without one.
    pub parent: u16,
    /// Name of the member.
    pub name: Name<'a>,
}

/// Non-empty list of members, as checked bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerList<'a> {
    bytes: &'a [u8],
    count: u16,
}

impl<'a> RosterPage<'a> {
    /// Bytes of members that fit a page.
    pub const CAPACITY: usize = 1152;

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let (edition, total) = (reader.u32()?, reader.u16()?);
        let (first, count) = (reader.u16()?, reader.u16()?);
        if total == 0 || usize::from(total) > MAX_PEERS {
            return Err(ParseError::Field { field: "total", value: total.into() });
        }
        let peers = PeerList::parse(reader)?;
        if peers.count != count {
            return Err(ParseError::Field { field: "count", value: count.into() });
        }
        // A page cannot have members beyond the end of the roster.
        match usize::from(first) + peers.len() <= usize::from(total) {
            true => Ok(RosterPage { edition, total, first, peers }),
            false => Err(ParseError::Field { field: "first", value: first.into() }),
        }
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.edition.to_be_bytes());
        buf.extend_from_slice(&self.total.to_be_bytes());
        buf.extend_from_slice(&self.first.to_be_bytes());
        buf.extend_from_slice(&self.peers.count.to_be_bytes());
        buf.extend_from_slice(self.peers.bytes);
    }

    pub(super) fn wire_len(&self) -> usize {
        4 + 2 + 2 + 2 + self.peers.bytes.len()
    }
}

impl<'a> PeerList<'a> {
    /// Appends these members, as many as fit a page; returns their number.
    pub fn encode<'p>(peers: impl IntoIterator<Item = Peer<'p>>, buf: &mut Vec<u8>) -> usize {
        let start = buf.len();
        let mut count = 0;
        for peer in peers {
            if buf.len() - start + peer.wire_len() > RosterPage::CAPACITY {
                break;
            }
            peer.emit(buf);
            count += 1;
        }
        count
    }

    /// Checks the bytes of a list; `None` if they are not one.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        Self::parse(&mut Reader::new(bytes)).ok()
    }

    /// Number of members.
    #[expect(clippy::len_without_is_empty, reason = "a list is never empty")]
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Members in order of rank.
    pub fn iter(&self) -> impl Iterator<Item = Peer<'a>> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| Peer::parse(&mut reader).ok())
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let bytes = reader.rest();
        if bytes.len() > RosterPage::CAPACITY {
            return Err(ParseError::Field { field: "bytes of members", value: bytes.len() as u64 });
        }
        let mut count = 0;
        // A list runs to the end of the packet and has at least one member.
        while count == 0 || !reader.rest().is_empty() {
            Peer::parse(reader)?;
            count += 1;
        }
        Ok(PeerList { bytes, count })
    }
}

impl<'a> Peer<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let (identity, flags) = (reader.identity()?, reader.u8()?);
        let has = |flag| flags & flag != 0;
        let part = match flags & (OFFERS | HELPS | RECEIVES) {
            0 => MemberRole::Receives,
            OFFERS => MemberRole::Offers,
            HELPS => MemberRole::Helps,
            HELPS_AND_RECEIVES => MemberRole::ReceivesAndHelps,
            _ => return Err(ParseError::Field { field: "flags", value: flags.into() }),
        };
        // Unknown flags are refused, so that an accepted page is emitted unchanged.
        if flags & !(OFFERS | GONE | HELPS | TURNS | RECEIVES) != 0 {
            return Err(ParseError::Field { field: "flags", value: flags.into() });
        }
        let parent = if has(TURNS) { reader.u16()? } else { 0 };
        // A child of the gathering node has no parent field.
        if has(TURNS) && !(1..MAX_PEERS).contains(&usize::from(parent)) {
            return Err(ParseError::Field { field: "parent", value: parent.into() });
        }
        Ok(Peer { identity, part, gone: has(GONE), parent, name: reader.name()? })
    }

    fn emit(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.identity.0.to_be_bytes());
        let part = match self.part {
            MemberRole::Receives => 0,
            MemberRole::Offers => OFFERS,
            MemberRole::Helps => HELPS,
            MemberRole::ReceivesAndHelps => HELPS_AND_RECEIVES,
        };
        // The parent field is present only with its flag.
        let flags = [(self.gone, GONE), (self.parent > 0, TURNS)];
        buf.push(flags.iter().filter(|(on, _)| *on).fold(part, |flags, (_, flag)| flags | flag));
        if self.parent > 0 {
            buf.extend_from_slice(&self.parent.to_be_bytes());
        }
        put_name(buf, &self.name);
    }

    fn wire_len(&self) -> usize {
        8 + 1 + 2 * usize::from(self.parent > 0) + 1 + self.name.len()
    }
}

impl fmt::Display for RosterPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RosterPage { edition, total, first, peers } = self;
        write!(f, "roster edition {edition} from {first} of {total}:")?;
        for Peer { identity, part, gone, parent, name } in peers.iter() {
            write!(f, " {identity} \"{name}\"")?;
            f.write_str(part.text())?;
            f.write_str(if gone { " gone" } else { "" })?;
            if parent > 0 {
                write!(f, " turns to {parent}")?;
            }
        }
        Ok(())
    }
}

const OFFERS: u8 = 0x01;
const GONE: u8 = 0x02;
const HELPS: u8 = 0x04;
const TURNS: u8 = 0x08;
/// Valid together with HELPS only.
const RECEIVES: u8 = 0x10;
const HELPS_AND_RECEIVES: u8 = HELPS | RECEIVES;
