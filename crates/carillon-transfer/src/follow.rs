//! Following the network: what an end that waits for a long time does when its interface or address changes.
//!
//! A [`Follower`] looks once a second whether the endpoint is still where it should be, moves it if not, and renews its
//! membership of the group every [`RENEWAL_INTERVAL`], and after [`RENEWAL_SILENCE`] without a datagram in a session, so that
//! switches that have forgotten it learn it again.
//!
//! The system reports a membership when its first socket joins. Where several processes of a host are members, all of
//! them therefore renew it at one time: by the clock of the host, at a phase that differs between hosts so that a
//! network does not hear all its hosts at once. They stay away for [`ABSENCE`], within which all have left.
//!
//! Left out: senders. They are told who is not reached, and end.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use carillon_net::{Endpoint, Reopened, Standing};

use crate::Network;

/// Follows the network of one endpoint.
#[derive(Debug)]
pub struct Follower {
    network: Network,
    check_at: Instant,
    /// Number of the current interval of renewals.
    interval: u64,
    /// Phase of the intervals of this host.
    phase: Duration,
    /// The group was left, until then.
    away: Option<Instant>,
    /// Datagrams received as of the last change of their number, and when that was.
    received: (u64, Instant),
    /// The network was absent when it was last looked at.
    absent: bool,
}

/// A change of the network that the endpoint has followed, or could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkChange {
    /// There is no interface or address to use, for this reason. Told once.
    Absent(String),
    /// The network is there again, and the endpoint has its address still: a session goes on.
    Present,
    /// The endpoint has another address: to the others it is a new peer, so a session has to be joined anew.
    Moved,
}

impl Follower {
    /// A follower of an endpoint of this network.
    pub fn new(network: &Network) -> Follower {
        let now = Instant::now();
        let phase = phase_of_host();
        Follower {
            network: network.clone(),
            check_at: now + CHECK_INTERVAL,
            interval: interval_at(phase),
            phase,
            away: None,
            received: (0, now),
            absent: false,
        }
    }

    /// Looks at the network if it is time, and moves the endpoint. In a session an endpoint stays where it is as long as
    /// it has its address.
    pub fn look(&mut self, endpoint: &mut Endpoint, in_session: bool) -> Option<NetworkChange> {
        let now = Instant::now();
        self.renew(now, endpoint, in_session);
        if now < self.check_at {
            return None;
        }
        self.check_at = now + CHECK_INTERVAL;
        let group = self.network.group_or(Some(endpoint.group()));
        match endpoint.standing(group) {
            Ok(Standing::Current) if !self.absent => return None,
            Ok(Standing::Outdated { lost: false }) if in_session => return None,
            Ok(_) => {}
            Err(error) => return self.absent(error.to_string()),
        }
        match endpoint.reopen(group) {
            Ok(reopened) => {
                (self.absent, self.away) = (false, None);
                Some(match reopened {
                    Reopened::SameAddress => NetworkChange::Present,
                    Reopened::OtherAddress => NetworkChange::Moved,
                })
            }
            Err(error) => self.absent(error.to_string()),
        }
    }

    fn absent(&mut self, reason: String) -> Option<NetworkChange> {
        let told = std::mem::replace(&mut self.absent, true);
        (!told).then_some(NetworkChange::Absent(reason))
    }

    fn renew(&mut self, now: Instant, endpoint: &mut Endpoint, in_session: bool) {
        let received = endpoint.stats().datagrams_received;
        if received != self.received.0 {
            self.received = (received, now);
        }
        if self.away.is_some_and(|until| in_session || now >= until) {
            self.away = None;
            // Without its interface there is no membership: the next look finds that out.
            let _ = endpoint.rejoin_group();
        }
        let interval = interval_at(self.phase);
        let due = interval != std::mem::replace(&mut self.interval, interval);
        if in_session {
            if now.duration_since(self.received.1) >= RENEWAL_SILENCE {
                self.received.1 = now;
                let _ = endpoint.renew_membership();
            }
        } else if due && self.away.is_none() {
            if endpoint.shares_membership() {
                let _ = endpoint.leave_group();
                self.away = Some(now + ABSENCE);
            } else {
                let _ = endpoint.renew_membership();
            }
        }
    }
}

/// The interval of renewals that it is now.
fn interval_at(phase: Duration) -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + phase;
    time.as_secs() / RENEWAL_INTERVAL.as_secs()
}

/// The phase of renewals, the same in all processes of a host: by the identity that Linux draws when it starts.
fn phase_of_host() -> Duration {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let sum: u64 = boot.iter().map(|&byte| u64::from(byte)).sum();
    Duration::from_secs(sum % RENEWAL_INTERVAL.as_secs())
}

/// Time between two looks at the network.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two renewals of the membership: a fourth of the interval at which queriers ask (RFC 3376, section 8.2).
const RENEWAL_INTERVAL: Duration = Duration::from_secs(30);
/// Time away from a group that other processes of this host are members of: longer than any of them takes to notice
/// that the interval has begun.
const ABSENCE: Duration = Duration::from_millis(300);
/// Time without a datagram in a session after which the membership is renewed: less than half of the time after which
/// a sender counts as silent.
const RENEWAL_SILENCE: Duration = Duration::from_secs(2);
