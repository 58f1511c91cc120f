//! Following the network: what an end that waits for a long time does when its interface or address changes.
//!
//! A [`Follower`] looks once a second whether the endpoint is still where it should be, moves it if not, and renews its
//! membership of the group every [`RENEWAL_INTERVAL`], and after [`SILENCE`] without a datagram in a session, so that
//! switches that have forgotten it learn it again.
//!
//! Left out: senders. They are told who is not reached, and end.

use std::time::{Duration, Instant};

use carillon_net::{Endpoint, Reopened, Standing};

use crate::Network;

/// Follows the network of one endpoint.
#[derive(Debug)]
pub struct Follower {
    network: Network,
    check_at: Instant,
    renew_at: Instant,
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
        Follower {
            network: network.clone(),
            check_at: now + CHECK_INTERVAL,
            renew_at: now + RENEWAL_INTERVAL,
            received: (0, now),
            absent: false,
        }
    }

    /// Looks at the network if it is time, and moves the endpoint. In a session an endpoint stays where it is as long as
    /// it has its address.
    pub fn look(&mut self, endpoint: &mut Endpoint, in_session: bool) -> Option<NetworkChange> {
        let now = Instant::now();
        if now < self.check_at {
            return None;
        }
        self.check_at = now + CHECK_INTERVAL;
        self.renew(now, endpoint, in_session);
        let group = self.network.effective_group();
        match endpoint.standing(group) {
            Ok(Standing::Current) if !self.absent => return None,
            Ok(Standing::Outdated { lost: false }) if in_session => return None,
            Ok(_) => {}
            Err(error) => return self.absent(error.to_string()),
        }
        match endpoint.reopen(group) {
            Ok(reopened) => {
                self.absent = false;
                self.renew_at = now + RENEWAL_INTERVAL;
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
        let silent = in_session && now.duration_since(self.received.1) >= SILENCE;
        if silent || now >= self.renew_at {
            // Without its interface it has none: that is found out below.
            let _ = endpoint.renew_membership();
            self.renew_at = now + RENEWAL_INTERVAL;
            self.received.1 = now;
        }
    }
}

/// Time between two looks at the network.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two renewals of the membership: a fourth of the interval at which queriers ask (RFC 3376, section 8.2).
const RENEWAL_INTERVAL: Duration = Duration::from_secs(30);
/// Time without a datagram in a session after which the membership is renewed: less than half of the time after which
/// a sender counts as silent.
const SILENCE: Duration = Duration::from_secs(2);
