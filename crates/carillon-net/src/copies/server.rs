//! The sender's side: receivers that get copies, their proof of address, and the budget.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use carillon_core::{BitRate, Time, TokenBucket};

use super::SUBSCRIBER_SILENCE;
use super::frame::{Frame, FrameKind, LEN, located};
use crate::outbox::Run;
use crate::seal::Key;

/// Receivers with copies, and the answers that wait to be sent.
///
/// A receiver has a place only after it has returned a cookie from its address: a keyed hash of address, token and
/// time, as with TCP's SYN cookies, so that strangers cost no memory. At most [`MAX_SUBSCRIBERS`] have a place, and
/// half of them from one host, or one IPv6 network of 64 bits, of which a host can use all addresses. A place is
/// free again after five seconds of silence.
///
/// Copies leave at the rate of the budget, through a queue of a twentieth of a second. So they behave like a link of
/// that rate: congestion control sees the delay of the queue before it sees losses.
#[derive(Debug)]
pub(crate) struct CopyServer {
    key: Option<Key>,
    /// Frames without authentication are accepted too.
    is_open: bool,
    secret: [u8; 32],
    budget: TokenBucket,
    subscribers: BTreeMap<SocketAddr, Subscriber>,
    /// Sessions of the receivers by token.
    members: BTreeMap<u64, SocketAddr>,
    /// Tokens of the relays of receivers.
    behind: BTreeMap<SocketAddr, u64>,
    /// Paths of receivers that were silent too long, for the report.
    former: BTreeMap<SocketAddr, Path>,
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Copies that wait for the budget, and their bytes with headers.
    queue: VecDeque<(Run, u64)>,
    queued: u64,
    rate: BitRate,
    /// First receiver of the next copies, so that a full budget hits all alike.
    turn: usize,
    /// Number of multicasts sent.
    multicasts: u64,
    stats: CopyStats,
}

/// Counters of the copies of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyStats {
    /// Copies sent.
    pub sent: u64,
    /// Their bytes without headers.
    pub bytes: u64,
    /// Copies dropped because they exceeded the rate.
    pub dropped: u64,
    /// Asks that were answered with a request for proof.
    pub unproven: u64,
}

/// Path of the data to a receiver that has asked for copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Path {
    /// True if it gets copies by unicast at the moment, false if multicast reaches it.
    pub unicast: bool,
    /// Number of changes between the two.
    pub changes: u32,
    /// Multicasts that arrived, as the receiver reported.
    pub multicasts: u64,
    /// Copies that arrived, as the receiver reported.
    pub copies: u64,
    /// Copies for it that were dropped because they exceeded the rate.
    pub dropped: u64,
    /// Relay that multicasts on its network. The other fields are those of the relay then.
    pub relay: Option<IpAddr>,
}

#[derive(Debug)]
struct Subscriber {
    token: u64,
    heard: Time,
    path: Path,
}

/// Result of a frame for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The frame was handled.
    Done,
    /// The frame is not authentic.
    Refused,
}

impl CopyServer {
    pub(crate) fn new(rate: BitRate, key: Option<Key>, secret: [u8; 32]) -> Self {
        CopyServer {
            key,
            is_open: false,
            secret,
            budget: TokenBucket::new(Some(rate), BUDGET_DEPTH),
            subscribers: BTreeMap::new(),
            members: BTreeMap::new(),
            behind: BTreeMap::new(),
            former: BTreeMap::new(),
            answers: VecDeque::new(),
            queue: VecDeque::new(),
            queued: 0,
            rate,
            turn: 0,
            multicasts: 0,
            stats: CopyStats::default(),
        }
    }

    /// Also accepts asks of relays without the key.
    pub(crate) fn without_key(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Handles a frame from this address to the sender's own one.
    pub(crate) fn on_frame(
        &mut self,
        now: Time,
        source: SocketAddr,
        own: SocketAddr,
        bytes: &[u8],
    ) -> Outcome {
        let sealed = Frame::parse(bytes, self.key.as_ref());
        let key = self.key.clone().filter(|_| sealed.is_some());
        let open = || Frame::parse(bytes, None).filter(|_| self.is_open && bytes.len() == LEN);
        let Some(frame) = sealed.or_else(open) else { return Outcome::Refused };
        match frame.kind {
            FrameKind::Ask => self.on_ask(now, source, frame, key.as_ref()),
            // Only a receiver with a place knows its token.
            FrameKind::Member if self.subscribers.values().any(|one| one.token == frame.token) => {
                self.members.insert(frame.token, source);
                self.locate(source, own, frame, key.as_ref());
            }
            FrameKind::Behind if self.subscribers.values().any(|one| one.token == frame.token) => {
                if self.behind.len() < MAX_BEHIND || self.behind.contains_key(&source) {
                    self.behind.insert(source, frame.token);
                }
                self.locate(source, own, frame, key.as_ref());
            }
            FrameKind::Member
            | FrameKind::Answer
            | FrameKind::Beacon
            | FrameKind::Behind
            | FrameKind::BeaconV6
            | FrameKind::Located => {}
        }
        Outcome::Done
    }

    /// Tells the session of a receiver with the key at which address it is seen, and the sender's own address.
    fn locate(&mut self, source: SocketAddr, own: SocketAddr, frame: Frame, key: Option<&Key>) {
        let Some(key) = key.filter(|_| frame.cookie != 0) else { return };
        for (address, is_sender) in [(source, false), (own, true)] {
            if self.answers.len() < MAX_ANSWERS {
                self.answers.push_back((source, located(&frame, address, is_sender, key)));
            }
        }
    }

    fn on_ask(&mut self, now: Time, source: SocketAddr, ask: Frame, key: Option<&Key>) {
        let fresh = self.cookie(now, 0, source, ask.token);
        let proven = ask.cookie == fresh || ask.cookie == self.cookie(now, 1, source, ask.token);
        let mut answer = Frame {
            kind: FrameKind::Answer,
            copying: false,
            unproven: !proven,
            full: false,
            token: ask.token,
            cookie: fresh,
            multicasts: self.multicasts,
            copies: 0,
        };
        if proven {
            match self.admit(now, source, ask.token) {
                None => answer.full = true,
                Some(subscriber) => {
                    subscriber.heard = now;
                    let path = &mut subscriber.path;
                    path.changes += u32::from(path.unicast != ask.copying);
                    path.unicast = ask.copying;
                    path.multicasts = path.multicasts.max(ask.multicasts);
                    path.copies = path.copies.max(ask.copies);
                    (answer.copying, answer.copies) = (ask.copying, path.dropped);
                }
            }
        } else {
            self.stats.unproven += 1;
        }
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push_back((source, answer.emit(key)));
        }
    }

    /// Returns the place of a receiver, a new one if there is room.
    fn admit(&mut self, now: Time, source: SocketAddr, token: u64) -> Option<&mut Subscriber> {
        if !self.subscribers.contains_key(&source) {
            self.forget(now);
            let here =
                self.subscribers.keys().filter(|other| owner(other.ip()) == owner(source.ip())).count();
            if self.subscribers.len() >= MAX_SUBSCRIBERS || here >= MAX_SUBSCRIBERS / 2 {
                return None;
            }
            // Copies are the first path of a receiver; that is no change.
            let path = Path { unicast: true, ..Path::default() };
            self.subscribers.insert(source, Subscriber { token, heard: now, path });
        }
        let subscriber = self.subscribers.get_mut(&source)?;
        if subscriber.token != token {
            // Another process at this address.
            self.members.remove(&subscriber.token);
            let path = Path { unicast: true, ..Path::default() };
            *subscriber = Subscriber { token, heard: now, path };
        }
        Some(subscriber)
    }

    /// Removes receivers that have been silent too long.
    pub(crate) fn forget(&mut self, now: Time) {
        let gone = self.subscribers.extract_if(.., |_, one| now.since(one.heard) > SUBSCRIBER_SILENCE);
        for (_, one) in gone {
            if let Some(member) = self.members.remove(&one.token)
                && self.former.len() < MAX_SUBSCRIBERS
            {
                self.former.insert(member, one.path);
            }
        }
    }

    /// Counts the datagrams of a multicast run, and queues copies of it. A copy that finds the queue full is dropped.
    /// `header` is the number of header bytes of a datagram.
    pub(crate) fn offer(&mut self, now: Time, run: &Run, header: usize) {
        let count = run.count as u64;
        let wire_bytes = (run.contents.len() + run.count * header) as u64;
        self.multicasts += count;
        if self.subscribers.is_empty() {
            return;
        }
        self.forget(now);
        let all: Vec<SocketAddr> =
            self.subscribers.iter().filter(|(_, one)| one.path.unicast).map(|(to, _)| *to).collect();
        if all.is_empty() {
            return;
        }
        self.turn = (self.turn + 1) % all.len();
        let limit = (self.rate.bps() / 8 / QUEUE_PART).max(MIN_QUEUE * all.len() as u64);
        for to in all[self.turn..].iter().chain(&all[..self.turn]) {
            if self.queued + wire_bytes <= limit {
                self.queued += wire_bytes;
                self.queue.push_back((run.copied(*to), wire_bytes));
            } else {
                self.stats.dropped += count;
                if let Some(one) = self.subscribers.get_mut(to) {
                    one.path.dropped += count;
                }
            }
        }
    }

    /// Takes the next copy if the budget permits it.
    pub(crate) fn next_copy(&mut self, now: Time) -> Option<Run> {
        if self.budget.ready_at(now).is_some() {
            return None;
        }
        let (run, bytes) = self.queue.pop_front()?;
        self.queued -= bytes;
        self.budget.spend(now, bytes);
        Some(run)
    }

    /// Time at which the next copy may leave; `None` if none waits.
    pub(crate) fn copy_at(&self, now: Time) -> Option<Time> {
        self.queue.front()?;
        Some(self.budget.ready_at(now).unwrap_or(now))
    }

    /// Counts copies that the system accepted.
    pub(crate) fn sent(&mut self, count: u64, bytes: u64) {
        self.stats.sent += count;
        self.stats.bytes += bytes;
    }

    /// Takes the next answer.
    pub(crate) fn next_answer(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.answers.pop_front()
    }

    /// Path to the member with this address, if it has asked for copies.
    pub(crate) fn path(&self, member: SocketAddr) -> Option<Path> {
        let token = self.members.iter().find(|(_, address)| **address == member).map(|(token, _)| *token);
        let current = token
            .and_then(|token| self.subscribers.values().find(|one| one.token == token))
            .map(|one| one.path);
        let own = current.or_else(|| self.former.get(&member).copied());
        match self.behind.get(&member) {
            Some(relay) if own.is_none_or(|path| !path.unicast) => self
                .subscribers
                .iter()
                .find(|(_, one)| one.token == *relay)
                .map(|(address, one)| Path { relay: Some(address.ip()), ..one.path })
                .or(own),
            _ => own,
        }
    }

    pub(crate) fn stats(&self) -> CopyStats {
        self.stats
    }

    /// Number of receivers that get copies.
    #[cfg(test)]
    pub(crate) fn copying(&self) -> usize {
        self.subscribers.values().filter(|one| one.path.unicast).count()
    }

    /// Cookie of an address in this time slot, or `back` slots earlier.
    fn cookie(&self, now: Time, back: u64, source: SocketAddr, token: u64) -> u64 {
        let slot = (now.as_nanos() / COOKIE_SLOT.as_nanos() as u64).wrapping_sub(back);
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(source.to_string().as_bytes());
        hasher.update(&token.to_be_bytes()).update(&slot.to_be_bytes());
        let mut cookie = [0; 8];
        cookie.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        u64::from_be_bytes(cookie).max(1)
    }
}

/// Address of a host, or the first 64 bits of an IPv6 address: the hosts of a network choose the other bits.
fn owner(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            [a, b, c, d, 0, 0, 0, 0].into()
        }
        v4 => v4,
    }
}

/// Maximum number of receivers with copies.
pub(super) const MAX_SUBSCRIBERS: usize = 256;
/// Maximum number of receivers behind relays.
const MAX_BEHIND: usize = 4096;
/// Maximum number of answers that wait for the end of a batch.
const MAX_ANSWERS: usize = 1024;
/// Burst of the budget: more than usual scheduling delays.
const BUDGET_DEPTH: Duration = Duration::from_millis(2);
/// The queue holds what the rate carries in this part of a second.
const QUEUE_PART: u64 = 20;
/// Minimum capacity of the queue in bytes for each receiver: a run of datagrams and half of another.
const MIN_QUEUE: u64 = 96 << 10;
/// A cookie is valid in its slot and the next one, as the session's.
const COOKIE_SLOT: Duration = Duration::from_secs(8);
