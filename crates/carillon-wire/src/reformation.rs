//! Packets by which the members of a group agree on a new view (membership).
//!
//! The sources of the total-order protocols (Segovia 1996, 2.7, and Chang and Maxemchuk 1984) only
//! suggest or sketch this exchange; the layout is Carillon's. A protocol sends these bodies behind its
//! own envelope; their packet types lie in a range of their own, [`KINDS`].
//!
//! ```text
//! 0x40 INVITE     ballot
//! 0x41 VOTE       ballot | accepted (32) | length (64) | members | joiners
//! 0x42 REFUSE     ballot | promised ballot
//! 0x43 START      ballot | base (32) | length (64) | members | joiners | state of the protocol
//! 0x44 READY      ballot
//! 0x45 ACTIVE     ballot
//! 0x46 INSTALLED  ballot
//! 0x47 JOIN       lost (8)
//! ```
//!
//! A ballot is a number (32) and the rank of its coordinator (16). A set of ranks is a count of bytes
//! (8), at most 32, and as many bytes, the last of which is not zero: bit i of byte k is rank 8 k + i.

use std::fmt;
use std::ops::RangeInclusive;

use crate::ParseError;
use crate::reader::Reader;

/// Range of the exchange's packet types.
pub const KINDS: RangeInclusive<u8> = kind::INVITE..=kind::JOIN;

/// Attempt to form a view, which gets the number of the ballot if it succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ballot {
    /// Number of the ballot, ascending; at most one ballot of a number reaches START.
    pub number: u32,
    /// Rank of the coordinator.
    pub coordinator: u8,
}

/// Set of ranks below [`Ranks::CAPACITY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranks([u64; 4]);

/// Packet of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Request of the coordinator for votes.
    Invite {
        /// Ballot of the coordinator.
        ballot: Ballot,
    },
    /// Vote: the member no longer takes part in lower ballots or views.
    Vote {
        /// Ballot of the vote.
        ballot: Ballot,
        /// Number of the last view that the member accepted.
        accepted: u32,
        /// First missing message of the member, in the order of that view.
        length: u64,
        /// Members of that view.
        members: Ranks,
        /// Members that joined that view without any state.
        joiners: Ranks,
    },
    /// Refusal, since the member has promised itself to another ballot.
    Refuse {
        /// Refused ballot.
        ballot: Ballot,
        /// Ballot of the promise.
        promised: Ballot,
    },
    /// Proposal of the view by the coordinator.
    Start {
        /// Ballot of the view.
        ballot: Ballot,
        /// Number of the view that has the continued order.
        base: u32,
        /// First message after the kept ones.
        length: u64,
        /// Members of the view.
        members: Ranks,
        /// Members that join without any state and take nothing before `length`.
        joiners: Ranks,
        /// State that a joiner must know, in the protocol's own layout.
        state: &'a [u8],
    },
    /// Acceptance: the member has accepted the view and holds all messages below its length.
    Ready {
        /// Ballot of the view.
        ballot: Ballot,
    },
    /// Activation: the view is in force.
    Active {
        /// Ballot of the view.
        ballot: Ballot,
    },
    /// Confirmation that a member knows that the view is in force.
    Installed {
        /// Ballot of the view.
        ballot: Ballot,
    },
    /// Request of a node to become a member.
    Join {
        /// True if the node has lost its state.
        lost: bool,
    },
}

impl Ranks {
    /// Maximum number of members in a group.
    pub const CAPACITY: usize = 256;

    /// Set of the ranks below `count`.
    ///
    /// # Panics
    ///
    /// Panics if `count` exceeds [`Ranks::CAPACITY`].
    pub fn below(count: usize) -> Self {
        assert!(count <= Self::CAPACITY, "{count} ranks do not fit");
        (0..count).collect()
    }

    /// Adds a rank; returns true if it was new.
    ///
    /// # Panics
    ///
    /// Panics if the rank is not below [`Ranks::CAPACITY`], like the other methods with a rank.
    pub fn insert(&mut self, rank: usize) -> bool {
        let new = !self.contains(rank);
        self.0[rank / 64] |= 1 << (rank % 64);
        new
    }

    /// Removes a rank; returns true if it was present.
    pub fn remove(&mut self, rank: usize) -> bool {
        let there = self.contains(rank);
        self.0[rank / 64] &= !(1 << (rank % 64));
        there
    }

    /// Returns true if the rank is in the set.
    pub fn contains(&self, rank: usize) -> bool {
        self.0[rank / 64] & (1 << (rank % 64)) != 0
    }

    /// Number of ranks.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        *self == Ranks::default()
    }

    /// Ranks in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        // Word by word, because machines ask after each packet, mostly for an empty set.
        let (mut words, mut at) = (self.0, 0);
        std::iter::from_fn(move || {
            while *words.get(at)? == 0 {
                at += 1;
            }
            let rank = 64 * at + words[at].trailing_zeros() as usize;
            words[at] &= words[at] - 1;
            Some(rank)
        })
    }

    /// Intersection with another set.
    pub fn and(&self, other: &Ranks) -> Ranks {
        Ranks(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Union with another set.
    pub fn or(&self, other: &Ranks) -> Ranks {
        Ranks(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Difference: the ranks that are not in the other set.
    pub fn without(&self, other: &Ranks) -> Ranks {
        Ranks(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// Length of the encoded set in bytes.
    pub fn wire_len(&self) -> usize {
        1 + self.bytes().count()
    }

    /// Appends the set.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        buf.push(self.bytes().count() as u8);
        buf.extend(self.bytes());
    }

    /// Bytes of the set up to the last non-zero one.
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let all = self.0.map(u64::to_le_bytes);
        let count = (0..32).rev().find(|i| all[i / 8][i % 8] != 0).map_or(0, |last| last + 1);
        (0..count).map(move |i| all[i / 8][i % 8])
    }
}

impl FromIterator<usize> for Ranks {
    fn from_iter<I: IntoIterator<Item = usize>>(ranks: I) -> Self {
        let mut set = Ranks::default();
        for rank in ranks {
            set.insert(rank);
        }
        set
    }
}

impl<'a> Packet<'a> {
    /// Parses the bytes behind the envelope of a packet of this type.
    pub fn parse(packet_type: u8, bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let mut reader = Reader::new(bytes);
        let packet = match packet_type {
            kind::INVITE => Packet::Invite { ballot: reader.ballot()? },
            kind::VOTE => Packet::Vote {
                ballot: reader.ballot()?,
                accepted: reader.u32()?,
                length: reader.length()?,
                members: reader.ranks()?,
                joiners: reader.ranks()?,
            },
            kind::REFUSE => Packet::Refuse { ballot: reader.ballot()?, promised: reader.ballot()? },
            kind::START => Packet::Start {
                ballot: reader.ballot()?,
                base: reader.u32()?,
                length: reader.length()?,
                members: reader.ranks()?,
                joiners: reader.ranks()?,
                state: reader.rest(),
            },
            kind::READY => Packet::Ready { ballot: reader.ballot()? },
            kind::ACTIVE => Packet::Active { ballot: reader.ballot()? },
            kind::INSTALLED => Packet::Installed { ballot: reader.ballot()? },
            kind::JOIN => Packet::Join { lost: reader.flag("lost")? },
            other => return Err(ParseError::Type(other)),
        };
        Ok(packet)
    }

    /// Packet type for the envelope.
    pub fn packet_type(&self) -> u8 {
        match self {
            Packet::Invite { .. } => kind::INVITE,
            Packet::Vote { .. } => kind::VOTE,
            Packet::Refuse { .. } => kind::REFUSE,
            Packet::Start { .. } => kind::START,
            Packet::Ready { .. } => kind::READY,
            Packet::Active { .. } => kind::ACTIVE,
            Packet::Installed { .. } => kind::INSTALLED,
            Packet::Join { .. } => kind::JOIN,
        }
    }

    /// Name of the packet in traces.
    pub fn name(&self) -> &'static str {
        match self {
            Packet::Invite { .. } => "invite",
            Packet::Vote { .. } => "vote",
            Packet::Refuse { .. } => "refuse",
            Packet::Start { .. } => "start",
            Packet::Ready { .. } => "ready",
            Packet::Active { .. } => "active",
            Packet::Installed { .. } => "installed",
            Packet::Join { .. } => "join",
        }
    }

    /// Appends the bytes behind the envelope.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        match self {
            Packet::Invite { ballot }
            | Packet::Ready { ballot }
            | Packet::Active { ballot }
            | Packet::Installed { ballot } => ballot.emit(buf),
            Packet::Vote { ballot, accepted, length, members, joiners } => {
                ballot.emit(buf);
                view(*accepted, *length, members, joiners, buf);
            }
            Packet::Refuse { ballot, promised } => {
                ballot.emit(buf);
                promised.emit(buf);
            }
            Packet::Start { ballot, base, length, members, joiners, state } => {
                ballot.emit(buf);
                view(*base, *length, members, joiners, buf);
                buf.extend_from_slice(state);
            }
            Packet::Join { lost } => buf.push((*lost).into()),
        }
    }

    /// Length of the bytes that `emit` appends.
    pub fn wire_len(&self) -> usize {
        match self {
            Packet::Invite { .. }
            | Packet::Ready { .. }
            | Packet::Active { .. }
            | Packet::Installed { .. } => BALLOT_LEN,
            Packet::Refuse { .. } => 2 * BALLOT_LEN,
            Packet::Vote { members, joiners, .. } => {
                BALLOT_LEN + 12 + members.wire_len() + joiners.wire_len()
            }
            Packet::Start { members, joiners, state, .. } => {
                BALLOT_LEN + 12 + members.wire_len() + joiners.wire_len() + state.len()
            }
            Packet::Join { .. } => 1,
        }
    }
}

impl Ballot {
    fn emit(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&self.number.to_be_bytes());
        buf.extend_from_slice(&u16::from(self.coordinator).to_be_bytes());
    }
}

fn view(number: u32, length: u64, members: &Ranks, joiners: &Ranks, buf: &mut Vec<u8>) {
    buf.extend_from_slice(&number.to_be_bytes());
    buf.extend_from_slice(&length.to_be_bytes());
    members.emit(buf);
    joiners.emit(buf);
}

impl Reader<'_> {
    fn ballot(&mut self) -> Result<Ballot, ParseError> {
        Ok(Ballot { number: self.u32()?, coordinator: self.rank("coordinator")? })
    }

    /// Reads a length of at most [`MAX_LENGTH`].
    fn length(&mut self) -> Result<u64, ParseError> {
        match self.u64()? {
            length if length <= MAX_LENGTH => Ok(length),
            value => Err(ParseError::Field { field: "length", value }),
        }
    }

    /// Reads a set of ranks, as [`Ranks::emit`] writes it.
    pub(crate) fn ranks(&mut self) -> Result<Ranks, ParseError> {
        let count = self.u8()?;
        let field = |value| ParseError::Field { field: "ranks", value };
        if usize::from(count) > Ranks::CAPACITY / 8 {
            return Err(field(count.into()));
        }
        let set = self.bytes(count.into())?;
        if set.last() == Some(&0) {
            return Err(field(0));
        }
        let mut words = [0; 4];
        for (i, &byte) in set.iter().enumerate() {
            words[i / 8] |= u64::from(byte) << (i % 8 * 8);
        }
        Ok(Ranks(words))
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.number, self.coordinator)
    }
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, rank) in self.iter().enumerate() {
            write!(f, "{}{rank}", if i > 0 { " " } else { "" })?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Packet::Invite { ballot }
            | Packet::Ready { ballot }
            | Packet::Active { ballot }
            | Packet::Installed { ballot } => write!(f, " {ballot}"),
            Packet::Vote { ballot, accepted, length, members, joiners } => {
                write!(f, " {ballot} accepted {accepted} length {length} members {members} joiners {joiners}")
            }
            Packet::Refuse { ballot, promised } => write!(f, " {ballot} promised {promised}"),
            Packet::Start { ballot, base, length, members, joiners, state } => write!(
                f,
                " {ballot} base {base} length {length} members {members} joiners {joiners} state {}",
                state.len()
            ),
            Packet::Join { lost } => write!(f, "{}", if *lost { " lost" } else { "" }),
        }
    }
}

mod kind {
    pub const INVITE: u8 = 0x40;
    pub const VOTE: u8 = 0x41;
    pub const REFUSE: u8 = 0x42;
    pub const START: u8 = 0x43;
    pub const READY: u8 = 0x44;
    pub const ACTIVE: u8 = 0x45;
    pub const INSTALLED: u8 = 0x46;
    pub const JOIN: u8 = 0x47;
}

/// Bytes of a ballot.
const BALLOT_LEN: usize = 6;
/// Maximum length of an order, which leaves room to count on without overflow.
const MAX_LENGTH: u64 = 1 << 62;
