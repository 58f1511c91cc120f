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
