//! Network changes at long-running ends: moves an endpoint when its interface or address changes.
//!
//! A [`Follower`] checks the endpoint once a second and moves it if necessary. It renews the group membership every
//! [`RENEWAL_INTERVAL`], and in a session after [`RENEWAL_SILENCE`] without a datagram, so that switches that lost it
//! learn it again.
//!
//! Linux reports a membership (IGMP, RFC 3376) only when the first socket of a host joins. Several processes of a
//! host therefore leave at the same time: all use the host clock, with a phase that differs between hosts to spread
//! the reports. They stay away for [`ABSENCE`], so that every process has left.
//!
//! Senders are not covered: they report unreachable receivers and end.

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
    /// Datagrams received at the last change of their number, and the time of that change.
    received: (u64, Instant),
    /// The network was absent when it was last looked at.
    absent: bool,
}

/// A change of the network that the endpoint has followed, or could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkChange {
    /// No interface or address is usable, for this reason. Reported once.
    Absent(String),
    /// The network is back with the same address: a session continues.
    Present,
    /// The endpoint has another address. Other members see a new peer, so the session must be joined again.
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

    /// Checks the network if a check is due, and moves the endpoint. In a session the endpoint stays as long as it
    /// keeps its address.
    pub fn look(&mut self, endpoint: &mut Endpoint, in_session: bool) -> Option<NetworkChange> {
        let now = Instant::now();
        self.renew(now, endpoint, in_session);
        if endpoint.take_moved() {
            return Some(NetworkChange::Moved);
        }
        if now < self.check_at {
            return None;
        }
        self.check_at = now + CHECK_INTERVAL;
        let group = self.network.group_or(Some(endpoint.group()));
        match endpoint.standing(group) {
            // Nothing has changed.
            Ok(Standing::Current) if !self.absent => return None,
            // A better address does not justify leaving a running session.
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
            // Without an interface rejoining fails; the next check finds that out.
            let _ = endpoint.rejoin_group();
        }
        // Outside of sessions every process of the host renews at the same time.
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

/// Number of the current renewal interval.
fn interval_at(phase: Duration) -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + phase;
    time.as_secs() / RENEWAL_INTERVAL.as_secs()
}

/// Phase of renewals, equal in all processes of a host: derived from the boot identifier of Linux.
fn phase_of_host() -> Duration {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let sum: u64 = boot.iter().map(|&byte| u64::from(byte)).sum();
    Duration::from_secs(sum % RENEWAL_INTERVAL.as_secs())
}

/// Time between two checks of the network.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two renewals of the membership: a quarter of the default query interval (RFC 3376, section 8.2).
const RENEWAL_INTERVAL: Duration = Duration::from_secs(30);
/// Time away from a group that other processes of this host are members of: longer than any of them takes to notice
/// the new interval.
const ABSENCE: Duration = Duration::from_millis(300);
/// Silence in a session after which the membership is renewed: less than half of the default silence timeout.
const RENEWAL_SILENCE: Duration = Duration::from_secs(2);
