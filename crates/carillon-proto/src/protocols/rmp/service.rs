//! Quality of service of the messages of a member, and the passes of the token that it requires.

use carillon_core::Config;
use carillon_wire::rmp::Quality;

/// Rule that gives each message of a member its quality of service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    /// Quality of all messages; `None` if they take all qualities in turn.
    usual: Option<Quality>,
    /// Quality of every n-th message, with n.
    other: Option<(Quality, u64)>,
    /// K of a K-resilient message.
    resilience: u8,
}

impl Service {
    /// Reads the rule from the settings.
    pub fn new(config: &Config) -> Self {
        let resilience = config.count("resilience") as u8;
        let quality = |name: &str| match config.choice(name) {
            "unreliable" => Some(Quality::Unreliable),
            "reliable" => Some(Quality::Reliable),
            "source" => Some(Quality::SourceOrdered),
            "total" => Some(Quality::TotallyOrdered),
            "resilient" => Some(Quality::Resilient(resilience)),
            "majority" => Some(Quality::MajorityResilient),
            "totally-resilient" => Some(Quality::TotallyResilient),
            _ => None,
        };
        let every = config.count("other_every");
        let other = quality("other_qos").filter(|_| every > 0).map(|quality| (quality, every));
        Service { usual: quality("qos"), other, resilience }
    }

    /// Quality of the message with this number.
    pub fn of(&self, number: u64) -> Quality {
        match self.other {
            Some((quality, every)) if number % every == every - 1 => quality,
            _ => self.usual.unwrap_or_else(|| self.in_turn(number)),
        }
    }

    /// Quality of this message if all qualities are used in turn.
    fn in_turn(&self, number: u64) -> Quality {
        match number % 7 {
            0 => Quality::TotallyOrdered,
            1 => Quality::Reliable,
            2 => Quality::SourceOrdered,
            3 => Quality::Resilient(self.resilience),
            4 => Quality::Unreliable,
            5 => Quality::MajorityResilient,
            _ => Quality::TotallyResilient,
        }
    }
}

/// Number of accepted passes after a slot before a message of this quality is delivered in its slot, in a ring of
/// `members`. The site that filled the slot holds the message, and each pass adds a member.
pub(super) fn passes_needed(quality: Quality, members: u64) -> u64 {
    let others = members.saturating_sub(1);
    match quality {
        Quality::Unreliable | Quality::Reliable | Quality::SourceOrdered | Quality::TotallyOrdered => 0,
        Quality::Resilient(passes) => others.min(passes.into()),
        // More than half: n / 2 members besides the token site.
        Quality::MajorityResilient => members / 2,
        Quality::TotallyResilient => others,
    }
}
