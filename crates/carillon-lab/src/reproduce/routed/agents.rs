//! ns-2's own agents on the same topologies and the same losses, beside ours.

use super::super::check::{Check, CheckVerdict};
use super::super::study::Findings;
use super::super::{SimulatedPoint, Simulation, StudyPlan};

/// What ns-2.35's agents measured: a row for each configuration, topology and place of loss.
const MEASURED: &str = include_str!("../../../../../experiments/published/papadopoulos-ns2.csv");

/// A column of their table, and our metric.
struct Column {
    name: &'static str,
    metric: &'static str,
    /// Theirs is ours times this.
    scale: f64,
    digits: usize,
}

const COLUMNS: [Column; 5] = [
    Column { name: "lat_ms_avg", metric: "recovery_latency_s", scale: 1e3, digits: 2 },
    Column { name: "exposure", metric: "exposure", scale: 1.0, digits: 4 },
    Column { name: "rdata", metric: "repeated_retransmissions", scale: 1.0, digits: 3 },
    Column { name: "requests", metric: "requests_per_loss", scale: 1.0, digits: 3 },
    Column { name: "repairs", metric: "repairs_per_loss", scale: 1.0, digits: 3 },
];

/// The relative difference that is accepted where nothing is random.
const TOLERANCE: f64 = 0.05;

/// A check for each number that they give.
pub fn findings(simulations: &[(&StudyPlan, &Simulation)]) -> Findings {
    let mut reader = csv::Reader::from_reader(MEASURED.as_bytes());
    let headers = reader.headers().cloned().unwrap_or_default();
    let mut checks = Vec::new();
    for record in reader.records().filter_map(Result::ok) {
        let text = |name: &str| {
            let column = headers.iter().position(|header| header == name);
            column.and_then(|column| record.get(column)).unwrap_or_default()
        };
        let (config, topology) = (text("config"), text("topo"));
        let place = match text("loss") {
            "receivers" => "each-receiver",
            "links" => "each-link",
            other => other,
        };
        let Some((plan, simulation)) = simulations.iter().find(|(plan, _)| plan.name == config) else {
            continue;
        };
        let at = |point: &&SimulatedPoint| {
            point.text("network.topology").as_deref() == Some(topology)
                && point.text("loss.drop_one").as_deref() == Some(place)
        };
        let Some(point) = simulation.points.iter().find(at) else { continue };
        for column in &COLUMNS {
            let Ok(theirs) = text(column.name).parse::<f64>() else { continue };
            let is_random = !matches!(config, "lms" | "pgm0");
            let id = format!("{} {topology} {place} {}", plan.name, column.name);
            checks.extend(compare(id, theirs, column, point, is_random));
        }
    }
    Findings { checks, ..Findings::default() }
}

/// One of their numbers beside ours. Where a scheme draws random waits theirs is one draw: it is to lie
/// where 95 % of such draws would, by the spread of ours, or within the tolerance.
fn compare(
    id: String,
    theirs: f64,
    column: &Column,
    point: &SimulatedPoint,
    is_random: bool,
) -> Option<Check> {
    let runs = point.replications(column.metric)?;
    let (mean, sd) = (runs.mean * column.scale, runs.sd * column.scale);
    let digits = column.digits;
    let close = (mean - theirs).abs() <= TOLERANCE * theirs.abs() + 1e-9;
    // A prediction interval for one more run.
    let reach = crate::statistics::t_quantile_975(runs.n.saturating_sub(1) as usize)
        * sd
        * (1.0 + 1.0 / runs.n as f64).sqrt();
    let within = is_random && reach.is_finite() && (mean - theirs).abs() <= reach;
    let difference =
        if theirs == 0.0 { String::new() } else { format!("{:+.1} %", (mean / theirs - 1.0) * 100.0) };
    let note = match (close, within, is_random) {
        (_, true, _) => format!("{difference}, within the 95 % interval of one run"),
        (true, ..) => format!("{difference}, within 5 %"),
        (_, _, true) => format!("{difference}, 95 % interval ±{reach:.digits$}"),
        _ => difference,
    };
    Some(Check {
        id,
        claim: column.name.to_owned(),
        expected: format!("{theirs:.digits$}"),
        measured: format!("{mean:.digits$}"),
        verdict: CheckVerdict::of(close || within),
        note,
    })
}
