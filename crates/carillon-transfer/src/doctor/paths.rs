//! The paths between this machine and others: multicast, unicast, and relays.

use std::fmt;
use std::net::IpAddr;

use carillon_wire::doctor::{HelloPath, ObservedMachine};

use super::findings::{Evidence, Peer};

/// Paths between this machine and another one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathFinding {
    /// The other machine.
    pub peer: String,
    /// True if its multicasts arrive here with its hop limit.
    pub multicast_from: bool,
    /// True if this machine's multicasts arrive there.
    pub multicast_to: bool,
    /// Multicasts that need not arrive, from it and from here: the receiving machine has named other sources.
    pub unwanted: [bool; 2],
    /// True if unicast passes in both directions.
    pub unicast: bool,
    /// Estimated throughput from it to here in bit/s by multicast.
    pub multicast_rate: Option<f64>,
    /// Estimated throughput by unicast.
    pub unicast_rate: Option<f64>,
    /// Address of this machine, for the advice.
    here: IpAddr,
    /// Address of the other machine.
    there: IpAddr,
}

impl Evidence {
    /// The paths to each other machine.
    pub fn paths(&self) -> Vec<PathFinding> {
        self.peers.iter().map(|peer| self.path(peer)).collect()
    }

    fn path(&self, peer: &Peer) -> PathFinding {
        let by_multicast = |heard: &ObservedMachine, hops: u8| heard.least_ttl > 0 && heard.least_ttl <= hops;
        let by_unicast = |heard: &ObservedMachine| {
            let ways = [HelloPath::Port, HelloPath::PortAnswer, HelloPath::Answer];
            ways.into_iter().any(|way| heard.was_received_by(way))
        };
        let [multicast_rate, unicast_rate] = peer.rates;
        PathFinding {
            peer: peer.machine.name.clone(),
            multicast_from: by_multicast(&peer.heard, peer.machine.hops),
            multicast_to: peer.said.as_ref().is_some_and(|said| by_multicast(said, self.here.hops)),
            unwanted: [
                peer.heard.is_unwanted(),
                peer.said.as_ref().is_some_and(ObservedMachine::is_unwanted),
            ],
            unicast: by_unicast(&peer.heard) && peer.said.as_ref().is_some_and(by_unicast),
            multicast_rate,
            unicast_rate,
            here: self.address,
            there: peer.address,
        }
    }
}

impl fmt::Display for PathFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PathFinding { peer, here, there, .. } = self;
        write!(f, "paths with {peer}: ")?;
        match (self.multicast_from, self.multicast_to, self.unicast) {
            (true, true, true) => f.write_str("multicast works in both directions"),
            (true, true, false) => {
                f.write_str("multicast works, unicast does not: receivers cannot join, except one-way")
            }
            (true, _, true) if self.unwanted[1] => {
                f.write_str("multicast works from it to here, as wanted (--source), and unicast works")
            }
            (_, true, true) if self.unwanted[0] => {
                f.write_str("multicast works from here to it, as wanted (--source), and unicast works")
            }
            (false, false, true) if self.unwanted == [true, true] => {
                f.write_str("unicast works, and neither machine wants the multicasts of the other (--source)")
            }
            (from, to, true) => {
                let (from, to) = (from || self.unwanted[0], to || self.unwanted[1]);
                match (self.multicast_from, self.multicast_to) {
                    (true, _) => f.write_str("multicast works from it to here only, and unicast works")?,
                    (_, true) => f.write_str("multicast works from here to it only, and unicast works")?,
                    _ => f.write_str("multicast does not work, unicast does")?,
                }
                f.write_str(": use ")?;
                if !to {
                    write!(f, "`carillon recv --from {here}` there")?;
                }
                if !from && !to {
                    f.write_str(", ")?;
                }
                if !from {
                    write!(f, "`carillon recv --from {there}` here")?;
                }
                f.write_str(", or `carillon relay` with the same option for a whole network")
            }
            _ => f.write_str("neither multicast nor unicast works in both directions"),
        }?;
        let rates = [("multicast", self.multicast_rate), ("unicast", self.unicast_rate)];
        let rates: Vec<String> = rates
            .into_iter()
            .filter_map(|(name, rate)| Some(format!("{} by {name}", mbits(rate?))))
            .collect();
        if !rates.is_empty() {
            write!(f, "; from it to here about {}", rates.join(", "))?;
        }
        Ok(())
    }
}

/// A rate with two significant digits.
fn mbits(rate: f64) -> String {
    let mega = rate / 1e6;
    match mega {
        _ if mega >= 1e4 => "more than 10 Gbit/s".to_owned(),
        _ if mega >= 1e3 => format!("{:.1} Gbit/s", mega / 1e3),
        _ if mega >= 10.0 => format!("{mega:.0} Mbit/s"),
        _ => format!("{mega:.1} Mbit/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(multicast_from: bool, multicast_to: bool, unicast: bool) -> String {
        let [here, there] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
        let (multicast_rate, unicast_rate) = (None, unicast.then_some(94.2e6));
        let peer = "b (10.0.0.2)".to_owned();
        PathFinding {
            peer,
            multicast_from,
            multicast_to,
            unwanted: [false; 2],
            unicast,
            multicast_rate,
            unicast_rate,
            here,
            there,
        }
        .to_string()
    }

    #[test]
    fn advice_names_the_end_that_multicast_does_not_reach() {
        let rate = "; from it to here about 94 Mbit/s by unicast";
        assert_eq!(
            finding(true, true, true),
            format!("paths with b (10.0.0.2): multicast works in both directions{rate}")
        );
        let none = finding(false, false, true);
        assert!(none.contains("multicast does not work, unicast does"), "{none}");
        assert!(none.contains("--from 10.0.0.1` there, `carillon recv --from 10.0.0.2` here"), "{none}");
        let here = finding(false, true, true);
        assert!(here.contains("use `carillon recv --from 10.0.0.2` here"), "{here}");
        assert!(!here.contains("10.0.0.1"), "{here}");
        assert!(
            finding(false, false, false).ends_with("neither multicast nor unicast works in both directions")
        );
    }

    #[test]
    fn rates_have_two_digits() {
        assert_eq!(
            [1.23e6, 47e6, 940e6, 2.34e9, 5e10].map(mbits),
            ["1.2 Mbit/s", "47 Mbit/s", "940 Mbit/s", "2.3 Gbit/s", "more than 10 Gbit/s"]
        );
    }
}
