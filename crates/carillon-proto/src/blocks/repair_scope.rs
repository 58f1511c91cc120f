//! Whom a repair goes to.

use carillon_core::Config;

/// How far a repair goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To the one who asked.
    Requester,
    /// To the group, as far as it gets.
    Group {
        /// Hops that it travels; 255 if to all.
        scope: u8,
        /// Hops over which the requester repeats it; 0 if it does not.
        again: u8,
    },
}

impl Reach {
    /// To the whole group.
    pub const ALL: Reach = Reach::Group { scope: u8::MAX, again: 0 };
}

/// Where a request has come from.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Hops that it was to travel; 255 if to all.
    pub scope: u8,
    /// Hops that a packet must be able to travel to who asked.
    pub way: u8,
}

impl Asked {
    /// By anyone of the group, however far away.
    pub const BY_ANYONE: Asked = Asked { scope: u8::MAX, way: u8::MAX };
}

/// Whom a repair goes to, by where the request for it came from. Where routers say that (LMS's turning points, the ports of
/// PGM's network elements) it is no choice of who repairs.
pub trait RepairScope {
    /// How far the repair goes.
    fn reach(&self, asked: Asked) -> Reach;
}

/// To who asked, or to all: the parameter `retransmission`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressed {
    /// To who lacks it.
    Unicast,
    /// To all.
    Multicast,
}

impl Addressed {
    /// What the parameter says.
    pub fn new(settings: &Config) -> Self {
        match settings.choice("retransmission") {
            "unicast" => Addressed::Unicast,
            _ => Addressed::Multicast,
        }
    }
}

impl RepairScope for Addressed {
    fn reach(&self, _asked: Asked) -> Reach {
        match self {
            Addressed::Unicast => Reach::Requester,
            Addressed::Multicast => Reach::ALL,
        }
    }
}

/// With hops: to all at once, or first near who asked. The parameter `local_recovery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalRecovery {
    /// To all.
    Off,
    /// As far as the request came, from where the repair is sent.
    OneStep,
    /// To who asked, who repeats it as far as the request was to go.
    TwoStep,
}

impl LocalRecovery {
    /// What the parameter says.
    pub fn new(settings: &Config) -> Self {
        match settings.choice("local_recovery") {
            "one-step" => LocalRecovery::OneStep,
            "two-step" => LocalRecovery::TwoStep,
            _ => LocalRecovery::Off,
        }
    }
}

impl RepairScope for LocalRecovery {
    fn reach(&self, asked: Asked) -> Reach {
        match self {
            _ if asked.scope == u8::MAX => Reach::ALL,
            LocalRecovery::Off => Reach::ALL,
            LocalRecovery::OneStep => Reach::Group { scope: asked.way.saturating_add(asked.scope), again: 0 },
            LocalRecovery::TwoStep => Reach::Group { scope: asked.way, again: asked.scope },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts in a row: who hears a datagram that travels so many hops.
    fn hears(from: u8, scope: u8, host: u8) -> bool {
        scope == u8::MAX || host.abs_diff(from) <= scope
    }

    #[test]
    fn whoever_hears_a_request_hears_its_repair_and_nobody_is_told_further_than_need_be() {
        let mut rng = carillon_core::Seeds::new(1).stream("repair_scope");
        for _ in 0..20_000 {
            let host = |rng: &mut carillon_core::Rng| rng.below(120) as u8;
            let (asks, repairs) = (host(&mut rng), host(&mut rng));
            let way = asks.abs_diff(repairs);
            // It has heard the request.
            let scope = way.saturating_add(rng.below(20) as u8);
            let asked = Asked { scope, way };
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
    fn who_asks_all_is_answered_to_all_and_so_is_everybody_without_local_recovery() {
        for way in 0..=u8::MAX {
            for local in [LocalRecovery::Off, LocalRecovery::OneStep, LocalRecovery::TwoStep] {
                assert_eq!(local.reach(Asked { scope: u8::MAX, way }), Reach::ALL);
            }
            assert_eq!(LocalRecovery::Off.reach(Asked { scope: way, way }), Reach::ALL);
            // A request from as far away as can be: the sum does not go round.
            let far = LocalRecovery::OneStep.reach(Asked { scope: 254, way });
            assert_eq!(far, Reach::Group { scope: way.saturating_add(254), again: 0 });
            assert_eq!(Addressed::Unicast.reach(Asked { scope: way, way }), Reach::Requester);
            assert_eq!(Addressed::Multicast.reach(Asked { scope: way, way }), Reach::ALL);
        }
    }
}
