//! Scope of repairs: the part of the group that a repair reaches (local recovery).

use carillon_core::Config;

/// Distance that a repair travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Unicast to the requester.
    Requester,
    /// Multicast to the group within a scope.
    Group {
        /// Number of hops it travels; 255 reaches the whole group.
        scope: u8,
        /// Number of hops over which the requester repeats it; 0 means that it does not.
        again: u8,
    },
}

impl Reach {
    /// Reach of a repair to the whole group.
    pub const WHOLE_GROUP: Reach = Reach::Group { scope: u8::MAX, again: 0 };
}

/// Origin of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestOrigin {
    /// Number of hops the request was to travel; 255 if to the whole group.
    pub scope: u8,
    /// Number of hops a packet needs to reach the requester.
    pub way: u8,
}

impl RequestOrigin {
    /// Request by an arbitrary member of the group, at any distance.
    pub const BY_ANYONE: RequestOrigin = RequestOrigin { scope: u8::MAX, way: u8::MAX };
}

/// Policy for the scope of a repair. Protocols in which routers decide it (turning points of LMS, ports of PGM's
/// network elements) have no such policy.
pub trait RepairScope {
    /// Reach of the repair that answers this request.
    fn reach(&self, asked: RequestOrigin) -> Reach;
}

/// Unicast or multicast repairs: the parameter `retransmission`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressed {
    /// Send the repair to the requester.
    Unicast,
    /// Send the repair to the whole group.
    Multicast,
}

impl Addressed {
    /// Policy that the settings select.
    pub fn new(settings: &Config) -> Self {
        match settings.choice("retransmission") {
            "unicast" => Addressed::Unicast,
            _ => Addressed::Multicast,
        }
    }
}

impl RepairScope for Addressed {
    fn reach(&self, _asked: RequestOrigin) -> Reach {
        match self {
            Addressed::Unicast => Reach::Requester,
            Addressed::Multicast => Reach::WHOLE_GROUP,
        }
    }
}

/// Scoped repairs by hop count: the parameter `local_recovery` (Floyd et al. 1997, section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalRecovery {
    /// Send repairs to the whole group.
    Off,
    /// Send the repair as far as the request came, measured from the repairer.
    OneStep,
    /// Send the repair to the requester, which repeats it over the scope of its request.
    TwoStep,
}

impl LocalRecovery {
    /// Policy that the settings select.
    pub fn new(settings: &Config) -> Self {
        match settings.choice("local_recovery") {
            "one-step" => LocalRecovery::OneStep,
            "two-step" => LocalRecovery::TwoStep,
            _ => LocalRecovery::Off,
        }
    }
}

impl RepairScope for LocalRecovery {
    fn reach(&self, asked: RequestOrigin) -> Reach {
        match self {
            // The request reached the whole group, so any member may rely on its repair.
            _ if asked.scope == u8::MAX => Reach::WHOLE_GROUP,
            LocalRecovery::Off => Reach::WHOLE_GROUP,
            // A member that received the request is at most `scope` hops from the requester. The sum thus reaches each
            // of them. A sum that saturates means the whole group.
            LocalRecovery::OneStep => Reach::Group { scope: asked.way.saturating_add(asked.scope), again: 0 },
            // The requester repeats the repair over the scope of its request, so no packet has to travel the sum.
            LocalRecovery::TwoStep => Reach::Group { scope: asked.way, again: asked.scope },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if a datagram with this scope reaches the host, in a row of hosts.
    fn hears(from: u8, scope: u8, host: u8) -> bool {
        scope == u8::MAX || host.abs_diff(from) <= scope
    }

    #[test]
    fn repair_reaches_all_that_received_request() {
        let mut rng = carillon_core::Seeds::new(1).stream("repair_scope");
        for _ in 0..20_000 {
            let host = |rng: &mut carillon_core::Rng| rng.below(120) as u8;
            let (asks, repairs) = (host(&mut rng), host(&mut rng));
            let way = asks.abs_diff(repairs);
            // The repairer has received the request.
            let scope = way.saturating_add(rng.below(20) as u8);
            let asked = RequestOrigin { scope, way };
            let Reach::Group { scope: first, again } = LocalRecovery::OneStep.reach(asked) else { panic!() };
            assert_eq!(again, 0, "nobody repeats it");
            let Reach::Group { scope: way_back, again } = LocalRecovery::TwoStep.reach(asked) else {
                panic!()
            };
            assert!(hears(repairs, way_back, asks));
            assert!(way == 0 || !hears(repairs, way_back - 1, asks), "no further than to who asked");
            for host in 0..=u8::MAX {
                if hears(asks, scope, host) {
                    assert!(hears(repairs, first, host), "{asked:?}: {host} in one step");
                    assert!(hears(asks, again, host), "{asked:?}: {host} in two");
                }
                assert!(
                    !hears(asks, again, host) || hears(asks, scope, host),
                    "{asked:?}: {host} is too far"
                );
                assert!(!hears(repairs, first, host) || hears(repairs, scope + way, host));
            }
        }
    }

    #[test]
    fn request_to_all_is_repaired_to_all() {
        for way in 0..=u8::MAX {
            for local in [LocalRecovery::Off, LocalRecovery::OneStep, LocalRecovery::TwoStep] {
                assert_eq!(local.reach(RequestOrigin { scope: u8::MAX, way }), Reach::WHOLE_GROUP);
            }
            assert_eq!(LocalRecovery::Off.reach(RequestOrigin { scope: way, way }), Reach::WHOLE_GROUP);
            // The sum of hops must not overflow at the largest distance.
            let far = LocalRecovery::OneStep.reach(RequestOrigin { scope: 254, way });
            assert_eq!(far, Reach::Group { scope: way.saturating_add(254), again: 0 });
            assert_eq!(Addressed::Unicast.reach(RequestOrigin { scope: way, way }), Reach::Requester);
            assert_eq!(Addressed::Multicast.reach(RequestOrigin { scope: way, way }), Reach::WHOLE_GROUP);
        }
    }
}
