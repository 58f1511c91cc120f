//! What a status says, and how several become one.

use std::time::Duration;

use carillon_core::{Time, expand};
use carillon_wire::map::{MAX_WORDS, Map};
use carillon_wire::status::Status;

use crate::blocks::ReceiverMap;

/// The state of a receiver, or of all those on whose behalf somebody speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// LW_r: all blocks before it are there.
    pub lower: u64,
    /// LW_r and LOB: which blocks are there.
    pub map: ReceiverMap,
    /// All endpoints behind it have the blocks before this one.
    pub done: u64,
    /// Free blocks in the buffer.
    pub buffer: u64,
    /// The source's latest packet that was heard, and when, as seen from where the report is kept.
    pub echo: Option<(u32, Time)>,
    /// When it was true, as seen from where it is kept.
    pub since: Time,
}

/// How an exchange makes one status of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consolidation {
    /// What all have: CSP, section 4.
    Minimum,
    /// What somebody has: CP, section 5.
    Maximum,
}

impl Report {
    /// Nothing from this block on, with room for so much.
    pub fn empty(lower: u64, buffer: u64, now: Time) -> Self {
        let map = ReceiverMap::new(lower, []);
        Report { lower, map, done: lower, buffer, echo: None, since: now }
    }

    /// Everything there will ever be: of a helper that nobody turns to.
    pub fn complete(now: Time) -> Self {
        Report::empty(UNUSED_BLOCK, u64::MAX, now)
    }

    /// Whether it speaks for nobody.
    pub fn is_unused(&self) -> bool {
        self.lower >= UNUSED_BLOCK
    }

    /// What a packet says that came now; numbers are near `near`.
    pub fn of_packet(status: &Status<'_>, near: u64, now: Time) -> Self {
        let lower = expand(status.lower.into(), MODULUS, near);
        let ago = |micros: u32| {
            let span = Duration::from_micros(micros.into());
            Time::from_nanos(now.as_nanos().saturating_sub(span.as_nanos() as u64))
        };
        Report {
            lower,
            map: ReceiverMap::from_bits(lower, status.map.words()),
            done: expand(status.done.into(), MODULUS, near),
            buffer: if status.buffer == u16::MAX { u64::MAX } else { status.buffer.into() },
            echo: (status.echo != 0).then(|| (status.echo, ago(status.held))),
            since: ago(status.age),
        }
    }

    /// The fields of the packet that says this now, with a map of so many words at most, which is made in `bytes`.
    pub fn packet<'a>(&self, now: Time, max_words: usize, bytes: &'a mut Vec<u8>) -> Status<'a> {
        bytes.clear();
        self.map.bits(self.lower, max_words.min(MAX_WORDS)).for_each(|word| Map::push(word, bytes));
        let micros = |since: Time| u32::try_from(now.since(since).as_micros()).unwrap_or(u32::MAX);
        Status {
            local: false,
            seq: 0,
            lower: (self.lower % MODULUS) as u32,
            done: (self.done % MODULUS) as u32,
            echo: self.echo.map_or(0, |(seq, _)| seq),
            held: self.echo.map_or(0, |(_, at)| micros(at)),
            age: micros(self.since),
            buffer: u16::try_from(self.buffer).unwrap_or(u16::MAX),
            k: 1,
            map: Map::new(bytes),
        }
    }
}

impl Consolidation {
    /// One status of several; `None` of none. LW_r is the minimum or maximum, LOB the AND or OR of the lists, aligned, and
    /// the free buffer the least in either case. Of ages the greatest counts: it is as old as its oldest part.
    pub fn of<'a>(self, reports: impl IntoIterator<Item = &'a Report>) -> Option<Report> {
        let mut reports = reports.into_iter();
        let first = reports.next()?.clone();
        Some(reports.fold(first, |all, one| Report {
            lower: match self {
                Consolidation::Minimum => all.lower.min(one.lower),
                Consolidation::Maximum => all.lower.max(one.lower),
            },
            map: match self {
                Consolidation::Minimum => all.map.and(&one.map),
                Consolidation::Maximum => all.map.or(&one.map),
            },
            done: all.done.min(one.done),
            buffer: all.buffer.min(one.buffer),
            // The latest word of the source says best how far away it is.
            echo: all.echo.max_by_time(one.echo),
            since: all.since.min(one.since),
        }))
    }
}

trait Latest {
    fn max_by_time(self, other: Self) -> Self;
}

impl Latest for Option<(u32, Time)> {
    fn max_by_time(self, other: Self) -> Self {
        self.into_iter().chain(other).max_by_key(|&(_, at)| at)
    }
}

/// No block has such a number.
const UNUSED_BLOCK: u64 = 1 << 62;

/// Block numbers on the wire have 32 bits.
pub const MODULUS: u64 = 1 << 32;
