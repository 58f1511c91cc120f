//! A star: a parent and its children, each on a link of its own (Barcellos and Ezhilchelvan, section 4).

use std::sync::Arc;
use std::time::Duration;

use carillon_core::Span;
use carillon_sim::graph::{LossModel, Topology, generate};
use toml::Table;

use super::document::{Child, Network};
use super::network::{Input, OwnLink};
use super::sweep;

/// Key and description of an error.
type Problem = (&'static str, String);

/// A star as the keys say.
#[derive(Debug)]
pub(super) struct Star {
    pub topology: Topology,
    pub children: Arc<[OwnLink]>,
}

/// Builds the star with `receivers` children.
pub(super) fn star(network: &Network, receivers: Option<u32>, table: &Table) -> Result<Star, Problem> {
    let receivers = receivers.ok_or(("group.receivers", "is missing".to_owned()))?;
    if !(1..=MAX_CHILDREN).contains(&receivers) {
        return Err(("group.receivers", format!("is {receivers}: a star has 1 to {MAX_CHILDREN} children")));
    }
    let kinds = match &network.children {
        None => {
            let Some(latency) = network.latency else {
                let what = "is missing, such as \"1.5 ms\"; or give network.children";
                return Err(("network.latency", what.into()));
            };
            vec![Child { latency, deviation: network.latency_deviation, p: None, rate: None }]
        }
        Some(_) if sweep::has(table, "network.latency") => {
            return Err(("network.latency", "is said by network.children".into()));
        }
        Some(_) if sweep::has(table, "network.latency_deviation") => {
            return Err(("network.latency_deviation", "is said by network.children".into()));
        }
        Some(kinds) if kinds.is_empty() => {
            return Err(("network.children", "names no kind of children".into()));
        }
        Some(kinds) => kinds.clone(),
    };
    let rate = network.rate();
    let far = |span: Span| span.at(rate) > MAX_LATENCY;
    if kinds.iter().any(|kind| far(kind.latency) || kind.deviation.is_some_and(far)) {
        let key = if network.children.is_some() { "network.children" } else { "network.latency" };
        return Err((key, format!("is more than {} s", MAX_LATENCY.as_secs())));
    }
    // In turn, so that every kind has its share however many there are.
    let each = || kinds.iter().cycle().take(receivers as usize);
    let links: Vec<_> = each().map(|kind| (kind.latency.at(rate), kind.rate)).collect();
    let link = |kind: &Child| OwnLink {
        deviation: kind.deviation.map_or(Duration::ZERO, |span| span.at(rate)),
        loss: kind.p.map(LossModel::Bernoulli),
    };
    Ok(Star { topology: generate::star(&links), children: each().map(link).collect() })
}

impl Network {
    /// Input limit of a parent.
    pub(super) fn input(&self) -> Result<Option<Input>, Problem> {
        match (self.implosion_rate, self.implosion_buffer) {
            (Some(rate), places) => {
                let places = places.map_or(DEFAULT_IMPLOSION_BUFFER, |places| places.get() as usize);
                Ok(Some(Input { interval: rate.interval(), places }))
            }
            (None, None) => Ok(None),
            (None, Some(_)) => Err(("network.implosion_buffer", "requires network.implosion_rate".into())),
        }
    }
}

/// Maximum number of children, bounded by the ports of a node.
const MAX_CHILDREN: u32 = 65_536;

/// Default size of the parent's input buffer, in packets ("16 packets" in the paper).
const DEFAULT_IMPLOSION_BUFFER: usize = 16;

const MAX_LATENCY: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use carillon_core::NoObserver;

    use crate::plan::Plan;
    use crate::run::{Unsupervised, simulate};
    use crate::scenario::ScenarioFile;

    /// The means of the metrics of a run on a star of stop-and-wait.
    fn means(network: &str, receivers: u32, loss: &str) -> BTreeMap<&'static str, f64> {
        let text = format!(
            "name = \"star\"\n[network]\nkind = \"star\"\n{network}\n{loss}\n[group]\nreceivers = {receivers}\n[protocol]\nname = \"msaw\"\ntimeout_method = \"constant\"\ntimeout = \"60 ms\"\n[workload]\nmessages = 50\nmessage_bytes = 1000"
        );
        let file = ScenarioFile::parse("star.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let plan = Plan::new(&file).unwrap_or_else(|error| panic!("{error}"));
        let result = simulate(&plan.runs[0], &mut NoObserver, &mut Unsupervised);
        let result = result.unwrap_or_else(|error| panic!("{error}")).expect("nothing stops the run");
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        result.samples.iter().map(|(name, values)| (*name, mean(values))).collect()
    }

    fn error(network: &str, group: &str) -> String {
        let text = format!(
            "name = \"star\"\n[network]\nkind = \"star\"\n{network}\n[group]\n{group}\n[protocol]\nname = \"msaw\"\n[workload]\nmessages = 1\nmessage_bytes = 1000"
        );
        let file = ScenarioFile::parse("star.toml", &text);
        file.and_then(|file| Plan::new(&file).map(drop)).expect_err("it is refused").to_string()
    }

    /// Acknowledgments arrive all at once and are processed one by one. A message takes two latencies and one buffer
    /// place per child.
    #[test]
    fn buffer_for_all_answers_needs_one_transmission() {
        let means = means("latency = \"1.5 ms\"\nimplosion_rate = \"1500 packet/s\"", 15, "");
        // 1000 bytes and an acknowledgment at 1 Gbit/s take 8 µs and less than 1 µs.
        let expected = 2.0 * 1.5e-3 + 15.0 / 1500.0 + 8e-6;
        assert!(
            (means["message_latency_s"] - expected).abs() < 2e-6,
            "{} {expected}",
            means["message_latency_s"]
        );
        assert_eq!((means["implosion_losses"], means["network_cost"]), (0.0, 2.0));
        assert!((means["packet_throughput_per_ms"] * expected * 1e3 - 1.0).abs() < 1e-3);
    }

    /// The message is complete when the slowest link has carried it.
    #[test]
    fn kind_of_children_may_have_its_own_link_rate() {
        let kinds =
            |rate: &str| format!("children = [{{ latency = \"1 ms\" }}, {{ latency = \"1 ms\"{rate} }}]");
        let [alike, slow] =
            ["", ", rate = \"1 Mbit/s\""].map(|rate| means(&kinds(rate), 2, "")["message_latency_s"]);
        // 1000 bytes at 1 Mbit/s, and an acknowledgment.
        assert!(slow - alike > 8e-3 && slow - alike < 9e-3, "{slow} {alike}");
    }

    /// Twenty answers arrive at once, and sixteen find a place. The message is repeated to all; they answer again, and
    /// only four of these answers are needed.
    #[test]
    fn answers_beyond_the_buffer_are_dropped() {
        let with = means("latency = \"1.5 ms\"\nimplosion_rate = \"1500 packet/s\"", 20, "");
        assert!(with["implosion_losses"] >= 4.0 / 20.0, "{with:?}");
        assert!(with["retransmissions_per_message"] >= 1.0, "{with:?}");
        let without = means("latency = \"1.5 ms\"", 20, "");
        assert_eq!(without["retransmissions_per_message"], 0.0);
        assert!(!without.contains_key("implosion_losses"), "nothing is counted where nothing can be lost");
        let roomy = "latency = \"1.5 ms\"\nimplosion_rate = \"1500 packet/s\"\nimplosion_buffer = 20";
        assert_eq!(means(roomy, 20, "")["implosion_losses"], 0.0);
    }

    /// The kinds of children take turns, and each has its own delay and losses.
    #[test]
    fn children_of_several_kinds_are_mixed() {
        let network = "children = [{ latency = \"1 ms\" }, { latency = \"5 ms\", deviation = \"100 us\" }]";
        let latency = means(network, 4, "")["message_latency_s"];
        assert!((10e-3..11e-3).contains(&latency), "{latency}: the farthest is waited for");
        let network = "children = [{ latency = \"1 ms\", p = 0 }, { latency = \"1 ms\" }]";
        let loss = "[loss]\nmodel = \"bernoulli\"\np = 0.2";
        let (half, all) = (means(network, 2, loss), means("latency = \"1 ms\"", 2, loss));
        let [half, all] = [half, all].map(|means| means["retransmissions_per_message"]);
        assert!(0.0 < half && half < all, "{half} {all}");
    }

    #[test]
    fn inconsistent_values_are_refused_by_key() {
        for (network, group, what) in [
            ("", "receivers = 2", "`network.latency`"),
            ("latency = \"1 ms\"", "", "`group.receivers`"),
            ("latency = \"1 ms\"", "receivers = 70000", "1 to 65536"),
            ("children = []", "receivers = 2", "`network.children`"),
            ("children = [{ latency = \"1 ms\" }]\nlatency = \"1 ms\"", "receivers = 2", "`network.latency`"),
            ("children = [{ delay = \"1 ms\" }]", "receivers = 2", "unknown field `delay`"),
            ("latency = \"1 ms\"\nimplosion_buffer = 16", "receivers = 2", "`network.implosion_buffer`"),
            ("latency = \"1 ms\"\nimplosion_rate = \"1500\"", "receivers = 2", "packet/s"),
            ("latency = \"2 h\"", "receivers = 2", "`network.latency`"),
            ("latency = \"1 ms\"\ntopology = \"tree\"", "receivers = 2", "kind = \"graph\""),
            ("latency = \"1 ms\"\nbit_rate = \"1 Mbit/s\"", "receivers = 2", "kind = \"lan\""),
        ] {
            let error = error(network, group);
            assert!(error.contains(what), "{network} {group}: {error}");
        }
    }
}
