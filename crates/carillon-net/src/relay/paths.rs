//! Reverse-path checks: multicast is accepted only from the interface towards its source.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carillon_core::Time;

use crate::interface::route;

/// Cache of the source addresses that the system's routes select for other hosts.
#[derive(Debug, Default)]
pub(super) struct Paths(HashMap<Ipv4Addr, (Option<IpAddr>, Time)>);

impl Paths {
    /// Returns the own address from which the system would send to `source`; `None` without a route.
    pub(super) fn towards(&mut self, now: Time, source: Ipv4Addr) -> Option<IpAddr> {
        if let Some(&(own, until)) = self.0.get(&source)
            && now < until
        {
            return own;
        }
        if self.0.len() >= MAX_PATHS {
            self.0.clear();
        }
        // The port is arbitrary, as nothing is sent.
        let own = route((source, 9).into());
        self.0.insert(source, (own, now + LIFETIME));
        own
    }
}

/// Maximum number of cached sources.
const MAX_PATHS: usize = 4096;

/// Lifetime of a cache entry, as routes may change.
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
