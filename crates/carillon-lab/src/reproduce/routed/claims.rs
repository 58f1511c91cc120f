//! What chapter 5 of Papadopoulos says in words, each checked against what was simulated.

use super::super::check::{Check, CheckVerdict};
use super::super::recovery::Pooled;
use super::super::study::Findings;
use super::super::{Simulation, StudyPlan};

/// The claims as they were collected from the text.
const CLAIMS: &str = include_str!("../../../../../experiments/published/papadopoulos-claims.csv");

/// One claim: what is measured for it, and when it holds.
struct Claim {
    id: &'static str,
    values: &'static [Value],
    rule: Rule,
}

/// A number of a simulation.
#[derive(Clone, Copy)]
enum Value {
    /// The mean of a metric over all runs of a plan.
    Mean(&'static str, &'static str),
    /// Its greatest value.
    Max(&'static str, &'static str),
    /// The greatest of the means at the values of a swept key.
    MaxMean(&'static str, &'static str, &'static str),
    /// The mean where a swept key has this value.
    MeanAt(&'static str, &'static str, &'static str, f64),
    /// The quotient of the means of a metric of two plans.
    Ratio(&'static str, &'static str, &'static str),
    /// How many members a packet of SRM reaches, as a share of all others: repairs needed and not.
    Reached(&'static str, f64),
}

/// When a claim holds.
enum Rule {
    /// Every value lies in this range, or outside it by a fifth at most.
    About(f64, f64),
    /// Every value is this, to rounding.
    Exactly(f64),
    /// Every value is no more than this.
    AtMost(f64),
    /// Every value is no less than this.
    AtLeast(f64),
    /// Each value is less than the one before.
    Falling,
    /// The values differ by less than a fifth of their mean.
    Alike,
    /// It says how a metric is defined: docs/metrics.md has the same definition.
    Definition,
}

const LATENCY: &str = "normalized_recovery_latency";
const PROPAGATION: &str = "normalized_recovery_latency_propagation";
const EXPOSURE: &str = "exposure";
const REQUESTS: &str = "requests_per_loss";
const REPAIRS: &str = "repairs_per_loss";
const REPEATED: &str = "repeated_retransmissions";

/// The mean latencies of a scheme on random topologies, for the three places of loss.
macro_rules! latencies {
    ($scheme:literal, $receivers:literal) => {
        &[
            Value::Mean(concat!($scheme, "-random-", $receivers, "-source"), LATENCY),
            Value::Mean(concat!($scheme, "-random-", $receivers, "-receivers"), LATENCY),
            Value::Mean(concat!($scheme, "-random-", $receivers, "-links"), LATENCY),
        ]
    };
}

/// LMS, PGM and SRM, in this order, for each place of loss.
macro_rules! ordered {
    ($place:literal) => {
        &[
            Value::Mean(concat!("srm-random-20-", $place), LATENCY),
            Value::Mean(concat!("pgm-random-100-", $place), LATENCY),
            Value::Mean(concat!("lms-random-100-", $place), LATENCY),
        ]
    };
}

const REPLIES: &[Value] = &[
    Value::Mean("srm-random-20-source", REPAIRS),
    Value::Mean("srm-random-20-receivers", REPAIRS),
    Value::Mean("srm-random-20-links", REPAIRS),
];

const BINARY: [&str; 3] = ["lms-binary-source", "lms-binary-receivers", "lms-binary-links"];

const ALL: &[Claim] = &[
    Claim { id: "LSP-001", values: ordered!("links"), rule: Rule::Falling },
    Claim { id: "LSP-002", values: latencies!("lms", "100"), rule: Rule::About(0.3, 0.6) },
    Claim { id: "LSP-003", values: latencies!("pgm", "100"), rule: Rule::About(1.0, 1.0) },
    Claim { id: "LSP-004", values: latencies!("srm", "20"), rule: Rule::AtLeast(2.0) },
    Claim {
        id: "LSP-006",
        values: &[
            Value::Ratio(LATENCY, "pgm-random-100-source", "lms-random-100-source"),
            Value::Ratio(LATENCY, "pgm-random-100-receivers", "lms-random-100-receivers"),
            Value::Ratio(LATENCY, "pgm-random-100-links", "lms-random-100-links"),
        ],
        rule: Rule::About(1.5, 3.0),
    },
    Claim { id: "LSP-009", values: REPLIES, rule: Rule::About(4.0, 6.0) },
    Claim { id: "LSP-010", values: &[], rule: Rule::Definition },
    Claim { id: "LSP-011", values: &[], rule: Rule::Definition },
    Claim { id: "LSP-012", values: &[], rule: Rule::Definition },
    Claim { id: "LSP-013", values: &[], rule: Rule::Definition },
    Claim { id: "LSP-014", values: &[], rule: Rule::Definition },
    // A request that reaches somebody who has the packet makes one repair, and others make none.
    Claim {
        id: "LSP-015",
        values: &[Value::Mean("lms-random-100-links", REPAIRS)],
        rule: Rule::Exactly(1.0),
    },
    Claim {
        id: "LSP-016",
        values: &[Value::Max("pgm-random-100-links", EXPOSURE)],
        rule: Rule::Exactly(0.0),
    },
    Claim {
        id: "LSP-017",
        values: &[Value::Reached("srm-random-20-links", 20.0)],
        rule: Rule::About(1.0, 1.0),
    },
    Claim { id: "LSP-019", values: &[Value::Mean(BINARY[0], LATENCY)], rule: Rule::About(1.0, 1.0) },
    Claim {
        id: "LSP-022",
        values: &[
            Value::MeanAt(BINARY[1], LATENCY, HEIGHT, 3.0),
            Value::MeanAt(BINARY[1], LATENCY, HEIGHT, 4.0),
            Value::MeanAt(BINARY[1], LATENCY, HEIGHT, 5.0),
            Value::MeanAt(BINARY[1], LATENCY, HEIGHT, 6.0),
            Value::MeanAt(BINARY[1], LATENCY, HEIGHT, 7.0),
        ],
        rule: Rule::Falling,
    },
    Claim {
        id: "LSP-024",
        values: &[
            Value::Max(BINARY[0], LATENCY),
            Value::Max(BINARY[1], LATENCY),
            Value::Max(BINARY[2], LATENCY),
        ],
        rule: Rule::AtMost(2.0),
    },
    Claim { id: "LSP-025", values: &[Value::Max(BINARY[1], LATENCY)], rule: Rule::AtMost(2.0) },
    Claim { id: "LSP-029", values: &[Value::Max(BINARY[0], EXPOSURE)], rule: Rule::Exactly(0.0) },
    Claim {
        id: "LSP-030",
        values: &[
            Value::MeanAt(BINARY[1], EXPOSURE, HEIGHT, 3.0),
            Value::MeanAt(BINARY[2], EXPOSURE, HEIGHT, 3.0),
        ],
        rule: Rule::AtMost(0.15),
    },
    Claim {
        id: "LSP-032",
        values: &[
            Value::Mean(BINARY[0], LATENCY),
            Value::Mean(BINARY[1], LATENCY),
            Value::Mean(BINARY[2], LATENCY),
        ],
        rule: Rule::About(1.0, 1.0),
    },
    Claim {
        id: "LSP-033",
        values: &[Value::Mean("lms-random-100-source", LATENCY)],
        rule: Rule::About(0.3, 0.4),
    },
    Claim {
        id: "LSP-038",
        values: &[Value::Mean("lms-random-100-receivers", LATENCY)],
        rule: Rule::About(0.5, 0.5),
    },
    Claim {
        id: "LSP-040",
        values: &[Value::Mean("lms-random-100-links", LATENCY)],
        rule: Rule::About(0.6, 0.6),
    },
    Claim {
        id: "LSP-043",
        values: &[
            Value::Mean("lms-random-100-source", EXPOSURE),
            Value::Mean("lms-random-100-receivers", EXPOSURE),
            Value::Mean("lms-random-100-links", EXPOSURE),
        ],
        rule: Rule::AtMost(0.02),
    },
    Claim {
        id: "LSP-047",
        values: &[Value::Mean("lms-random-100-links", EXPOSURE)],
        rule: Rule::AtMost(0.01),
    },
    Claim {
        id: "LSP-049",
        values: &[
            Value::Mean("lms-random-5-links", LATENCY),
            Value::Mean("lms-random-20-links", LATENCY),
            Value::Mean("lms-random-100-links", LATENCY),
        ],
        rule: Rule::Falling,
    },
    Claim { id: "LSP-052", values: &[Value::Mean("lms-random-5-links", EXPOSURE)], rule: Rule::AtMost(0.04) },
    Claim { id: "LSP-056", values: &[Value::Mean("lms-ts-100-links", LATENCY)], rule: Rule::About(0.5, 0.5) },
    Claim {
        id: "LSP-060",
        values: &[
            Value::MaxMean("lms-ts-100-transit-transit", EXPOSURE, TOPOLOGY),
            Value::MaxMean("lms-ts-100-transit-stub", EXPOSURE, TOPOLOGY),
        ],
        rule: Rule::About(0.15, 0.2),
    },
    Claim { id: "LSP-064", values: latencies!("srm", "20"), rule: Rule::About(2.0, 2.0) },
    Claim {
        id: "LSP-065",
        values: &[
            Value::Max("srm-random-20-source", LATENCY),
            Value::Max("srm-random-20-receivers", LATENCY),
            Value::Max("srm-random-20-links", LATENCY),
        ],
        rule: Rule::About(4.0, 4.0),
    },
    Claim { id: "LSP-068", values: latencies!("srm", "20"), rule: Rule::Alike },
    Claim {
        id: "LSP-069",
        values: &[Value::Mean("srm-random-20-links", REQUESTS)],
        rule: Rule::About(1.0, 1.2),
    },
    Claim { id: "LSP-071", values: REPLIES, rule: Rule::About(4.0, 5.0) },
    Claim {
        id: "LSP-073",
        values: &[Value::Mean("srmadaptive-random-20-links", REPAIRS)],
        rule: Rule::AtMost(2.0),
    },
    Claim { id: "LSP-074", values: &[Value::Mean("srm-random-20-links", REPAIRS)], rule: Rule::AtLeast(4.0) },
    Claim {
        id: "LSP-076",
        values: &[Value::Mean("srmadaptive-random-20-links", LATENCY)],
        rule: Rule::About(3.0, 3.0),
    },
    Claim {
        id: "LSP-079",
        values: &[Value::Mean("pgm-random-100-source", LATENCY)],
        rule: Rule::About(0.8, 0.8),
    },
    Claim {
        id: "LSP-082",
        values: &[Value::Mean("pgm-random-100-receivers", LATENCY)],
        rule: Rule::About(1.0, 1.0),
    },
    Claim {
        id: "LSP-084",
        values: &[Value::Mean("pgm-random-100-links", LATENCY)],
        rule: Rule::About(0.9, 0.9),
    },
    Claim {
        id: "LSP-087",
        values: &[Value::Mean("pgm-random-100-source", REPEATED)],
        rule: Rule::About(9.0, 13.0),
    },
    Claim {
        id: "LSP-089",
        values: &[Value::Ratio(REPEATED, "pgm-random-100-source", "pgm-random-100-links")],
        rule: Rule::About(100.0, 100.0),
    },
    Claim { id: "LSP-092", values: ordered!("receivers"), rule: Rule::Falling },
    Claim {
        id: "LSP-093",
        values: &[Value::Mean("pgm-random-100-links", LATENCY), Value::Mean("lms-random-100-links", LATENCY)],
        rule: Rule::Falling,
    },
    Claim { id: "LSP-095", values: latencies!("lms", "100"), rule: Rule::About(0.3, 0.6) },
    Claim { id: "LSP-098", values: latencies!("srm", "20"), rule: Rule::AtLeast(2.0) },
    Claim { id: "LSP-099", values: REPLIES, rule: Rule::About(4.0, 6.0) },
    Claim { id: "LSP-101", values: latencies!("pgm", "100"), rule: Rule::About(0.8, 1.0) },
    Claim {
        id: "LSP-102",
        values: &[
            Value::Max("pgm-random-100-source", EXPOSURE),
            Value::Max("pgm-random-100-links", EXPOSURE),
        ],
        rule: Rule::Exactly(0.0),
    },
    Claim {
        id: "LSP-103",
        values: &[Value::Mean("pgm-random-100-source", REPEATED)],
        rule: Rule::About(10.0, 13.0),
    },
    Claim { id: "LSP-104", values: ordered!("source"), rule: Rule::Falling },
    Claim { id: "LSP-105", values: latencies!("lms", "100"), rule: Rule::About(0.3, 0.6) },
    Claim { id: "LSP-108", values: latencies!("srm", "20"), rule: Rule::AtLeast(2.0) },
];

const HEIGHT: &str = "network.height";
const TOPOLOGY: &str = "network.topology_seed";

/// Every claim, checked.
pub fn findings(simulations: &[(&StudyPlan, &Simulation)]) -> Findings {
    let mut reader = csv::Reader::from_reader(CLAIMS.as_bytes());
    let checks = reader.records().filter_map(Result::ok).map(|record| {
        let text = |column: usize| record.get(column).unwrap_or_default().to_owned();
        let id = text(0);
        let expected = match (text(7).as_str(), text(8).as_str()) {
            ("", "") => String::new(),
            (low, "") => format!(">= {low}"),
            ("", high) => format!("<= {high}"),
            (low, high) if low == high => low.to_owned(),
            (low, high) => format!("{low} to {high}"),
        };
        let claim = ALL.iter().find(|claim| claim.id == id);
        let (measured, verdict, note) = match claim {
            None => (String::new(), CheckVerdict::DoesNotHold, "not checked".to_owned()),
            Some(claim) => claim.check(simulations),
        };
        Check { id, claim: text(2), expected, measured, verdict, note }
    });
    Findings { checks: checks.collect(), ..Findings::default() }
}

impl Claim {
    fn check(&self, simulations: &[(&StudyPlan, &Simulation)]) -> (String, CheckVerdict, String) {
        let values: Vec<f64> = self.values.iter().map(|value| value.of(simulations)).collect();
        let texts: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
        let each = |fits: &dyn Fn(f64) -> bool| values.iter().all(|&value| fits(value));
        let (holds, note) = match self.rule {
            Rule::About(low, high) => {
                (each(&|value| value >= 0.8 * low && value <= 1.2 * high), "within a fifth")
            }
            Rule::Exactly(number) => (each(&|value| (value - number).abs() < 1e-9), ""),
            Rule::AtMost(most) => (each(&|value| value <= most), ""),
            Rule::AtLeast(least) => (each(&|value| value >= least), ""),
            Rule::Falling => {
                (values.windows(2).all(|pair| pair[1] < pair[0]), "each less than the one before")
            }
            Rule::Alike => {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                (each(&|value| (value - mean).abs() < 0.2 * mean), "within a fifth of their mean")
            }
            Rule::Definition => (true, "the definition of the metric in docs/metrics.md"),
        };
        let mut note = note.to_owned();
        // What the source divides by is its agents' own measure of the round trip; by another one a
        // claim may read differently.
        let others: Vec<String> = self
            .values
            .iter()
            .filter_map(|value| Some(format!("{:.3}", value.by_propagation()?.of(simulations))))
            .collect();
        if !others.is_empty() {
            let separator = if note.is_empty() { "" } else { "; " };
            note += &format!("{separator}over twice the propagation delay: {}", others.join(", "));
        }
        (texts.join(", "), CheckVerdict::of(holds), note)
    }
}

impl Value {
    /// The same latency over twice the propagation delay.
    fn by_propagation(self) -> Option<Value> {
        match self {
            Value::Mean(plan, LATENCY) => Some(Value::Mean(plan, PROPAGATION)),
            Value::Max(plan, LATENCY) => Some(Value::Max(plan, PROPAGATION)),
            _ => None,
        }
    }

    fn of(self, simulations: &[(&StudyPlan, &Simulation)]) -> f64 {
        let simulation = |plan: &str| {
            let found = simulations.iter().find(|(of, _)| of.id == plan);
            found.map(|(_, simulation)| *simulation)
        };
        let pooled =
            |plan: &str, metric: &str| simulation(plan).map(|found| Pooled::of(found, metric, |_| true));
        let value = match self {
            Value::Mean(plan, metric) => pooled(plan, metric).map(|pooled| pooled.mean),
            Value::Max(plan, metric) => pooled(plan, metric).map(|pooled| pooled.max),
            Value::MeanAt(plan, metric, key, at) => simulation(plan)
                .map(|found| Pooled::of(found, metric, |point| point.number(key) == Some(at)).mean),
            Value::MaxMean(plan, metric, key) => simulation(plan).map(|found| {
                let keys = found.points.iter().filter_map(|point| point.number(key));
                let mean = |at: f64| Pooled::of(found, metric, |point| point.number(key) == Some(at)).mean;
                keys.map(mean).fold(f64::NAN, f64::max)
            }),
            Value::Ratio(metric, above, below) => {
                pooled(above, metric).zip(pooled(below, metric)).map(|(above, below)| above.mean / below.mean)
            }
            Value::Reached(plan, receivers) => simulation(plan).map(|found| {
                // Repairs that came to members: duplicates, and those that ended a loss. The one who
                // sends a repair does not hear it.
                let mean = |metric| Pooled::of(found, metric, |_| true).mean;
                let others = mean("recoveries_per_loss") / receivers + mean(EXPOSURE);
                others / mean(REPAIRS)
            }),
        };
        value.unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_is_checked_once() {
        let mut reader = csv::Reader::from_reader(CLAIMS.as_bytes());
        let collected: Vec<String> = reader.records().map(|record| record.unwrap()[0].to_owned()).collect();
        let checked: Vec<&str> = ALL.iter().map(|claim| claim.id).collect();
        assert_eq!(collected, checked);
    }
}
