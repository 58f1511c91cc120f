//! Content of a status, and the combination of several statuses.

use std::time::Duration;

use carillon_core::{Time, expand};
use carillon_wire::map::{MAX_WORDS, Map};
use carillon_wire::status::Status;

use crate::blocks::ReceiverMap;

/// State of a receiver, or of all receivers for which a node reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// LW_r: first block that may be missing; all blocks before it have been received.
    pub lower: u64,
    /// LW_r and LOB: the received blocks.
    pub map: ReceiverMap,
    /// First block that some endpoint behind the node may be missing.
    pub done: u64,
    /// Free blocks in the buffer.
    pub buffer: u64,
    /// Latest packet received from the source, with the time of its arrival by the local clock.
    pub echo: Option<(u32, Time)>,
    /// Time at which the state was taken, by the local clock.
    pub since: Time,
}

/// Combination of several statuses into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consolidation {
    /// Blocks that all endpoints have: CSP, section 4.
    Minimum,
    /// Blocks that some endpoint has: CP, section 5.
    Maximum,
}

impl Report {
    /// State without any block from `lower` on, and with room for `buffer` blocks.
    pub fn empty(lower: u64, buffer: u64, now: Time) -> Self {
        let map = ReceiverMap::new(lower, []);
        Report { lower, map, done: lower, buffer, echo: None, since: now }
    }

    /// State with every possible block, of a helper without children.
    pub fn complete(now: Time) -> Self {
        Report::empty(UNUSED_BLOCK, u64::MAX, now)
    }

    /// Returns true if the state is of a helper without children.
    pub fn is_unused(&self) -> bool {
        self.lower >= UNUSED_BLOCK
    }

    /// Reads the state from a packet that arrives now; block numbers are expanded near `near`.
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

    /// Builds the packet fields of the state, with a map of at most `max_words` words in `bytes`.
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
    /// Combines statuses; `None` without any. LW_r is the minimum or the maximum, LOB the AND or the OR of the
    /// aligned lists. The free buffer is the minimum in both cases, and the age is that of the oldest status.
    pub fn combine<'a>(self, reports: impl IntoIterator<Item = &'a Report>) -> Option<Report> {
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
            // The newest packet of the source gives the best round-trip sample.
            echo: all.echo.max_by_time(one.echo),
            since: all.since.min(one.since),
        }))
    }
}

/// Choice of the later of two echoes.
trait Latest {
    fn max_by_time(self, other: Self) -> Self;
}

impl Latest for Option<(u32, Time)> {
    fn max_by_time(self, other: Self) -> Self {
        self.into_iter().chain(other).max_by_key(|&(_, at)| at)
    }
}

/// Block number beyond all real ones; it marks the state of a helper without children.
const UNUSED_BLOCK: u64 = 1 << 62;

/// Sequence space: block numbers on the wire have 32 bits.
pub const MODULUS: u64 = 1 << 32;
