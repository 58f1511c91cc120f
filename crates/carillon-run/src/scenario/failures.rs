//! Failures of links, as described by the keys of a scenario.

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_core::{Span, Time};
use carillon_sim::graph::{Outage, Topology};

use super::document::{Failure, Network};
use super::loss;
use super::network::Outages;

impl Network {
    /// Outages of this network.
    pub(super) fn outages(&self, topology: &Topology) -> Result<Outages, (&'static str, String)> {
        let time = |span: Span| Time::ZERO + span.at(self.rate());
        let convergence = self.convergence.map_or(Duration::ZERO, |span| span.at(self.rate()));
        if self.convergence.is_some() && self.failure.is_empty() {
            return Err(("network.convergence", "belongs to network.failure".into()));
        }
        if convergence > MAX_TIME {
            return Err(("network.convergence", format!("is more than {} s", MAX_TIME.as_secs())));
        }
        let mut all = Vec::new();
        for Failure { link, from, to } in &self.failure {
            let bad = |what: String| (KEY, what);
            if !link.contains('-') || link.contains('>') {
                return Err(bad(format!("has link = \"{link}\": give both ends, such as \"0-1\"")));
            }
            let (from, to) = (time(*from), to.map(time));
            if [Some(from), to].into_iter().flatten().any(|at| at > Time::ZERO + MAX_TIME) {
                return Err(bad(format!("of \"{link}\" has a time after {} s", MAX_TIME.as_secs())));
            }
            if to.is_some_and(|to| to <= from) {
                return Err(bad(format!("of \"{link}\": `to` must be later than `from`")));
            }
            let named = loss::named(topology, link).map_err(bad)?;
            let links: BTreeSet<u32> = named.into_iter().map(|(link, _)| link).collect();
            all.extend(links.into_iter().map(|link| Outage { link, from, to }));
        }
        Ok(Outages { all: all.into(), convergence })
    }
}

const KEY: &str = "network.failure";

/// Maximum time of a failure or a recovery: a year.
const MAX_TIME: Duration = Duration::from_secs(365 * 24 * 3600);
