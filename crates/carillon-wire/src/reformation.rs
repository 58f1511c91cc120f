//! Packets by which the members of a group agree on a new view of it.
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

mod describe;

use std::fmt;
use std::ops::RangeInclusive;

use crate::ParseError;
use crate::reader::Reader;

pub(crate) use describe::fuzzed;

/// The packet types of this exchange.
pub const KINDS: RangeInclusive<u8> = kind::INVITE..=kind::JOIN;

/// An attempt to form a view: the view has its number if it succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ballot {
    /// Counts up; no two ballots of one number get as far as START.
    pub number: u32,
    /// The rank of the member that makes it.
    pub coordinator: u8,
}

/// A set of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranks([u64; 4]);

/// A packet of this exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// The coordinator asks for votes.
    Invite {
        /// For this ballot.
        ballot: Ballot,
    },
    /// A member takes part in no lower ballot or view any more.
    Vote {
        /// The ballot it votes for.
        ballot: Ballot,
        /// The number of the last view it accepted.
        accepted: u32,
        /// One past the last message up to which it lacks none, in the order of that view.
        length: u64,
        /// The members of that view.
        members: Ranks,
        /// Those of them that came to it without any state.
        joiners: Ranks,
    },
    /// A member has promised itself to another ballot.
    Refuse {
        /// The ballot refused.
        ballot: Ballot,
        /// The other one.
        promised: Ballot,
    },
    /// The coordinator proposes the view.
    Start {
        /// The ballot.
        ballot: Ballot,
        /// The number of the view whose order goes on.
        base: u32,
        /// One past the last message that is kept.
        length: u64,
        /// The members of the view.
        members: Ranks,
        /// Those of them that come to it without any state, and take nothing before `length`.
        joiners: Ranks,
        /// What a joiner must know, in the protocol's own layout.
        state: &'a [u8],
    },
    /// A member has accepted the view, and holds all messages below its length.
    Ready {
        /// The ballot.
        ballot: Ballot,
    },
    /// The view is in force.
    Active {
        /// The ballot.
        ballot: Ballot,
    },
    /// A member knows that the view is in force.
    Installed {
        /// The ballot.
        ballot: Ballot,
    },
    /// A node wants to be a member.
    Join {
        /// It has lost all it knew.
        lost: bool,
    },
}

impl Ranks {
    /// The greatest group whose ranks fit.
    pub const CAPACITY: usize = 256;

    /// The ranks below `count`.
    ///
    /// # Panics
    ///
    /// If there are more than [`Ranks::CAPACITY`].
    pub fn below(count: usize) -> Self {
        assert!(count <= Self::CAPACITY, "{count} ranks do not fit");
        (0..count).collect()
    }

    /// Adds a rank; returns whether it was new.
    ///
    /// # Panics
    ///
    /// If the rank is not below [`Ranks::CAPACITY`], like the other methods that take one.
    pub fn insert(&mut self, rank: usize) -> bool {
        let new = !self.contains(rank);
        self.0[rank / 64] |= 1 << (rank % 64);
        new
    }

    /// Removes a rank; returns whether it was there.
    pub fn remove(&mut self, rank: usize) -> bool {
        let there = self.contains(rank);
        self.0[rank / 64] &= !(1 << (rank % 64));
        there
    }

    /// Whether the rank is in the set.
    pub fn contains(&self, rank: usize) -> bool {
        self.0[rank / 64] & (1 << (rank % 64)) != 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Ranks::default()
    }

    /// The ranks in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let set = *self;
        (0..Self::CAPACITY).filter(move |&rank| set.contains(rank))
    }

    /// Those that are in the other set too.
    pub fn and(&self, other: &Ranks) -> Ranks {
        Ranks(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Those that are in either.
    pub fn or(&self, other: &Ranks) -> Ranks {
        Ranks(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Those that are not in the other set.
    pub fn without(&self, other: &Ranks) -> Ranks {
        Ranks(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// Bytes that `emit` appends.
    pub fn wire_len(&self) -> usize {
        1 + self.bytes().count()
    }

    /// Appends the set.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        buf.push(self.bytes().count() as u8);
        buf.extend(self.bytes());
    }

    /// The bytes up to the last that is not zero.
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
    /// Parses what follows the envelope of a packet of this type.
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

    /// The packet type that the envelope names.
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

    /// Its name in traces.
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

    /// Appends what follows the envelope.
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

    /// Bytes that `emit` appends.
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

    /// A length that leaves room to count on.
    fn length(&mut self) -> Result<u64, ParseError> {
        match self.u64()? {
            length if length <= MAX_LENGTH => Ok(length),
            value => Err(ParseError::Field { field: "length", value }),
        }
    }

    /// A set of ranks, as [`Ranks::emit`] appends it.
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
/// No group orders more messages than this.
const MAX_LENGTH: u64 = 1 << 62;
