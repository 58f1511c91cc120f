//! Trials: conditions of a run, and the settings that a protocol draws for it.

use std::fmt::Display;

use carillon_core::{Config, Kind, Parameter, Rng};

/// Network on which a suite tries a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialNetwork {
    /// Links with delays of a few milliseconds and unlimited rate.
    Links,
    /// Ethernet on which a frame takes more than a millisecond.
    Ethernet,
    /// Routed networks with round-trip times of at most 200 ms.
    Routed,
    /// Processes of one machine, each of which may be suspended for a while at any time.
    Loopback,
}

/// Conditions of one suite run. A protocol draws settings with which its guarantee holds under them
/// ([`ProtocolTests::trial`](super::ProtocolTests::trial)).
#[derive(Debug)]
pub struct Trial<'a> {
    /// Network of the run.
    pub network: TrialNetwork,
    /// Number of members of the group, senders included.
    pub nodes: u32,
    /// Number of peers that will crash.
    pub crashes: u32,
    /// True if datagrams are lost.
    pub is_lossy: bool,
    /// Number of unanswered attempts after which a sender must expel a member; `None` if no live member may be
    /// expelled.
    pub max_attempts: Option<u32>,
    /// True if a member that misses a failed message is expelled; false if it remains a member.
    pub expels: bool,
    /// Random stream from which settings are drawn.
    pub rng: &'a mut Rng,
    parameters: &'static [Parameter],
    config: Config,
}

impl<'a> Trial<'a> {
    /// Describes a lossy run of this many nodes in which no node crashes and no member is expelled.
    pub fn new(
        parameters: &'static [Parameter],
        network: TrialNetwork,
        nodes: u32,
        rng: &'a mut Rng,
    ) -> Self {
        let config = Config::defaults(parameters);
        Trial {
            network,
            nodes,
            crashes: 0,
            is_lossy: true,
            max_attempts: None,
            expels: false,
            rng,
            parameters,
            config,
        }
    }

    /// Sets a parameter.
    ///
    /// # Panics
    ///
    /// Panics if the protocol does not take the value.
    pub fn set(&mut self, key: &str, value: impl Display) -> &mut Self {
        let result = self.config.set(self.parameters, key, &value.to_string());
        result.unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Sets a parameter to one of these values, at random.
    pub fn pick(&mut self, key: &str, values: &[&str]) -> &mut Self {
        let at = self.rng.below(values.len() as u64) as usize;
        self.set(key, values[at])
    }

    /// Sets a parameter to one of all its values, at random.
    ///
    /// # Panics
    ///
    /// Panics if the parameter is no choice.
    pub fn pick_any(&mut self, key: &str) -> &mut Self {
        let kind = self.parameters.iter().find(|parameter| parameter.name == key).map(|found| found.kind);
        match kind {
            Some(Kind::Choice(values)) => self.pick(key, values),
            _ => panic!("{key} is no choice"),
        }
    }

    /// Sets a count to a random value in `from..from + span`.
    pub fn count(&mut self, key: &str, from: u64, span: u64) -> &mut Self {
        let value = from + self.rng.below(span);
        self.set(key, value)
    }

    /// Sets a time to a random number of milliseconds in `from..from + span`.
    pub fn ms(&mut self, key: &str, from: u64, span: u64) -> &mut Self {
        let value = from + self.rng.below(span);
        self.set(key, format_args!("{value} ms"))
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.rng.chance(probability)
    }

    /// Returns the drawn settings.
    pub fn into_config(self) -> Config {
        self.config
    }
}

/// Sets what a trial asks for, as far as the protocol has parameters of these names.
pub(super) fn draw_common(trial: &mut Trial<'_>) {
    let has = |name: &str| trial.parameters.iter().any(|parameter| parameter.name == name);
    let (limits, expels) = (has("max_attempts"), has("expels"));
    if let Some(attempts) = trial.max_attempts.filter(|_| limits) {
        trial.set("max_attempts", attempts);
    }
    if expels {
        trial.set("expels", trial.expels);
    }
}
