//! The receiver's side: asking for copies, and the choice between copies and multicast.

use std::net::SocketAddr;
use std::time::Duration;

use carillon_core::Time;

use super::frame::{Frame, FrameKind, beacon};
use super::located::Located;
use super::{ASK_INTERVAL, RETRY_INTERVAL};
use crate::port::Port;
use crate::seal::{Key, Names};

/// Subscription of a receiver to the copies of one sender.
///
/// Multicast is proven when at least [`PROOF`] multicasts of the sender arrived within a second, and half as many as
/// copies. It is lost after [`STALL`] without a multicast, or when fewer than half of the multicasts that the sender
/// counted between two answers arrived. A sender multicasts at least five heartbeats a second.
#[derive(Debug)]
pub(crate) struct Subscription {
    server: SocketAddr,
    pub(crate) port: Port,
    key: Option<Key>,
    token: u64,
    cookie: u64,
    wants: bool,
    /// The latest answer agrees with `wants`.
    agreed: bool,
    full: bool,
    /// Time of the next ask.
    next: Time,
    /// Time of the latest answer.
    answered: Option<Time>,
    multicasts: u64,
    copies: u64,
    latest_multicast: Option<Time>,
    /// Start of the window in which arrivals are counted, and the counts at its start.
    window: (Time, u64, u64),
    /// Multicasts that the sender had sent and that had arrived at the latest answer.
    counted: Option<(u64, u64)>,
    located: Located,
}

/// State of a receiver that asks for copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionState {
    /// The sender's address.
    pub server: SocketAddr,
    /// Port of the socket at which copies arrive.
    pub port: u16,
    /// True if the sender's host has answered.
    pub answered: bool,
    /// True if the sender has too many receivers with copies.
    pub full: bool,
    /// True if this receiver needs copies, false if multicast reaches it.
    pub unicast: bool,
    /// Multicasts of the sender that arrived.
    pub multicasts: u64,
    /// Copies that arrived.
    pub copies: u64,
}

impl Subscription {
    pub(crate) fn new(server: SocketAddr, port: Port, key: Option<Key>, token: u64) -> Self {
        Subscription {
            server,
            port,
            key,
            token,
            cookie: 0,
            wants: true,
            agreed: false,
            full: false,
            next: Time::ZERO,
            answered: None,
            multicasts: 0,
            copies: 0,
            latest_multicast: None,
            window: (Time::ZERO, 0, 0),
            counted: None,
            located: Located::default(),
        }
    }

    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    pub(crate) fn state(&self) -> SubscriptionState {
        SubscriptionState {
            server: self.server,
            port: self.port.address.port(),
            answered: self.answered.is_some(),
            full: self.full,
            unicast: self.wants,
            multicasts: self.multicasts,
            copies: self.copies,
        }
    }

    /// Counts an arrived datagram of the sender.
    pub(crate) fn on_datagram(&mut self, now: Time, multicast: bool) {
        match multicast {
            true => {
                self.multicasts += 1;
                self.latest_multicast = Some(now);
            }
            false => self.copies += 1,
        }
    }

    /// Handles a frame that arrived at the socket for copies.
    pub(crate) fn on_frame(&mut self, now: Time, source: SocketAddr, bytes: &[u8]) {
        let Some(answer) = Frame::parse(bytes, self.key.as_ref()) else { return };
        if source != self.server || answer.kind != FrameKind::Answer || answer.token != self.token {
            return;
        }
        let renewed = self.cookie != answer.cookie;
        self.cookie = answer.cookie;
        if answer.unproven {
            // A forged request for proof costs one ask.
            if renewed {
                self.next = now;
            }
            return;
        }
        self.answered = Some(now);
        self.full = answer.full;
        self.agreed = answer.copying == self.wants;
        if !self.agreed && !answer.full {
            self.next = self.next.min(now + RETRY_INTERVAL);
        }
        if let Some((sent, arrived)) = self.counted
            && !self.wants
        {
            let sent = answer.multicasts.saturating_sub(sent);
            if sent >= PROOF && (self.multicasts - arrived) * 2 < sent {
                return self.want(now, true);
            }
        }
        self.counted = Some((answer.multicasts, self.multicasts));
    }

    /// Handles a frame of the sender that arrived at the socket of the session. Returns the names of both ends in seals
    /// when they have changed.
    pub(crate) fn on_located(&mut self, bytes: &[u8]) -> Option<Names> {
        self.located.on_frame(bytes, self.token, self.key.as_ref()?)
    }

    /// Decides about the path. Called at least every [`CHECK_INTERVAL`].
    pub(crate) fn check(&mut self, now: Time) {
        let (begun, multicasts, copies) = self.window;
        let (multicasts, copies) = (self.multicasts - multicasts, self.copies - copies);
        if self.wants {
            if multicasts >= PROOF && multicasts * 2 >= copies {
                self.want(now, false);
            }
        } else if self.latest_multicast.is_none_or(|at| now.since(at) > self.stall()) {
            self.want(now, true);
        }
        if now.since(begun) >= WINDOW {
            self.window = (now, self.multicasts, self.copies);
        }
    }

    fn stall(&self) -> Duration {
        STALL + Duration::from_millis(self.token % STALL_SPREAD_MILLIS)
    }

    fn want(&mut self, now: Time, copies: bool) {
        (self.wants, self.agreed, self.next) = (copies, false, now);
        self.window = (now, self.multicasts, self.copies);
        // Multicasts that were lost before the change count no more.
        self.counted = None;
    }

    /// Returns the frames to send now, if any: the ask, and the one that names the member.
    pub(crate) fn due(&mut self, now: Time) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.next > now {
            return None;
        }
        let current = self.agreed && self.answered.is_some_and(|at| now.since(at) <= ASK_INTERVAL * 2);
        self.next = now + if current { ASK_INTERVAL } else { RETRY_INTERVAL };
        let ask = Frame {
            kind: FrameKind::Ask,
            copying: self.wants,
            unproven: false,
            full: false,
            token: self.token,
            cookie: self.cookie,
            multicasts: self.multicasts,
            copies: self.copies,
        };
        let request = if self.key.is_some() { self.located.request() } else { 0 };
        let member = Frame { kind: FrameKind::Member, cookie: request, multicasts: 0, copies: 0, ..ask };
        Some((ask.emit(self.key.as_ref()), member.emit(self.key.as_ref())))
    }

    /// Frame by which a relay with this subscription makes itself known on its network. It is not authenticated, and
    /// only decides what a report says.
    pub(crate) fn beacon(&self) -> Vec<u8> {
        beacon(self.token, self.server)
    }

    /// Time of the next call of [`check`](Self::check) and [`due`](Self::due).
    pub(crate) fn next(&self, now: Time) -> Time {
        self.next.min(now + CHECK_INTERVAL)
    }
}

/// Multicasts that prove the path.
const PROOF: u64 = 8;
/// Time in which they arrive.
const WINDOW: Duration = Duration::from_secs(1);
/// Time without a multicast after which the path counts as lost: three heartbeats of a session.
const STALL: Duration = Duration::from_millis(700);
/// Maximum time by which the token of a relay or receiver extends [`STALL`]: of two relays on one network, one notices
/// first, and the other then hears its multicasts.
const STALL_SPREAD_MILLIS: u64 = 300;
/// Interval at which the path is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
