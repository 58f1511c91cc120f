//! Reverse paths: multicast is taken only from the interface that leads to its source.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carillon_core::Time;

use crate::interface::route;

/// By which of its own addresses this host reaches others, as the system's routes said lately.
#[derive(Debug, Default)]
pub(super) struct Paths(HashMap<Ipv4Addr, (Option<IpAddr>, Time)>);

impl Paths {
    /// The own address from which the system would send to `source`; `None` if there is no route.
    pub(super) fn towards(&mut self, now: Time, source: Ipv4Addr) -> Option<IpAddr> {
        if let Some(&(own, until)) = self.0.get(&source)
            && now < until
        {
            return own;
        }
        if self.0.len() >= MAX_PATHS {
            self.0.clear();
        }
        // Any port: nothing is sent.
        let own = route((source, 9).into());
        self.0.insert(source, (own, now + LIFETIME));
        own
    }
}

/// Sources remembered at a time.
const MAX_PATHS: usize = 4096;

/// Routes may change: after this time the system is asked again.
const LIFETIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_to_this_host_is_loopback_and_cached() {
        let mut paths = Paths::default();
        let home = Ipv4Addr::LOCALHOST;
        assert_eq!(paths.towards(Time::ZERO, home), Some(home.into()));
        paths.0.insert(home, (None, Time::ZERO + LIFETIME));
        assert_eq!(paths.towards(Time::ZERO, home), None);
        assert_eq!(paths.towards(Time::ZERO + LIFETIME, home), Some(home.into()));
        for number in 0..2 * MAX_PATHS as u32 {
            paths.towards(Time::ZERO, Ipv4Addr::from(0x7f00_0000 + number));
            assert!(paths.0.len() <= MAX_PATHS);
        }
    }
}
