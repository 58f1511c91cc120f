//! Measurements of each node that a scenario asks for (`run.measure`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use carillon_core::{Event, MessageId, NoObserver, NodeId, Observer, Time};
use carillon_lab::inputs;
use carillon_lab::metrics::SubjectKind;
use carillon_lab::plan::Plan;
use carillon_lab::results::{Contents, Existing, SweepOptions, read_nodes, run_into};
use carillon_lab::run::{RunResult, run_one};
use carillon_lab::scenario::ScenarioFile;
use carillon_lab::table::{Cell, Column, Table};

/// Latencies of deliveries by node, as an observer beside the recorder sees them.
#[derive(Default)]
struct Deliveries {
    offered: BTreeMap<(NodeId, MessageId), Time>,
    latencies: Vec<(NodeId, f64)>,
}

impl Observer for Deliveries {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        match *event {
            Event::Offered { message, since } => drop(self.offered.insert((node, message), since)),
            Event::Delivered { source, message } if source != node => {
                let latency = time - self.offered[&(source, message)];
                self.latencies.push((node, latency.as_secs_f64()));
            }
            _ => {}
        }
    }
}

fn scenario(network: &str, group: &str, protocol: &str, loss: f64, run: &str) -> ScenarioFile {
    let text = format!(
        "name = \"measure\"\n[network]\n{network}\n[group]\n{group}\n[protocol]\nname = \"{protocol}\"\n\
         [workload]\nmessages = 40\nmessage_bytes = 1000\n[loss]\nmodel = \"bernoulli\"\np = {loss}\n[run]\n{run}\n"
    );
    ScenarioFile::parse("measure", &text).unwrap()
}

fn run(file: &ScenarioFile, observer: &mut dyn Observer) -> RunResult {
    run_one(&Plan::new(file).unwrap().runs[0], observer).unwrap()
}

fn samples<'a>(result: &'a RunResult, metric: &str) -> &'a [f64] {
    &result.samples.iter().find(|(name, _)| *name == metric).expect("the metric is given").1
}

fn nodes(result: &RunResult, metric: &str) -> Vec<u32> {
    let (_, nodes) = result.nodes.iter().find(|(name, _)| *name == metric).expect("its samples have nodes");
    nodes.iter().map(|node| node.0).collect()
}

const STAR: &str = "kind = \"star\"\nlatency = \"5 ms\"";
const TREE: &str = "kind = \"graph\"\ntopology = \"binary-tree\"";
const MEASURED: &str = "measure = [\"receivers\"]";

#[test]
fn samples_name_the_receiver_that_the_trace_names() {
    for (network, group, protocol) in [
        (STAR, "receivers = 5", "ff"),
        (TREE, "", "srm"),
        (TREE, "", "pgm"),
        ("kind = \"lan\"", "receivers = 4\nsenders = 3", "erramilli-singh"),
        ("kind = \"lan\"", "receivers = 4", "msaw"),
    ] {
        let mut deliveries = Deliveries::default();
        let result = run(&scenario(network, group, protocol, 0.05, MEASURED), &mut deliveries);
        let named = nodes(&result, "delivery_latency_s").into_iter().map(NodeId);
        let named: Vec<_> = named.zip(samples(&result, "delivery_latency_s").iter().copied()).collect();
        assert!(named.len() >= 160, "{protocol}");
        assert_eq!(named, deliveries.latencies, "{protocol}");

        let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for (node, latency) in &deliveries.latencies {
            let (sum, count) = sums.entry(node.0).or_default();
            (*sum, *count) = (*sum + latency, *count + 1.0);
        }
        let means = sums.values().map(|(sum, count)| sum / count);
        let found = samples(&result, "receiver_latency_s");
        assert_eq!(nodes(&result, "receiver_latency_s"), sums.keys().copied().collect::<Vec<_>>());
        assert!(
            means.clone().zip(found).all(|(mean, found)| (mean / found - 1.0).abs() < 1e-12),
            "{protocol}"
        );

        let worst = means.fold(0.0, f64::max);
        assert!((samples(&result, "worst_receiver_latency_s")[0] / worst - 1.0).abs() < 1e-12, "{protocol}");
        let [worst_node] = nodes(&result, "worst_receiver_latency_s")[..] else { panic!("one sample") };
        assert!((sums[&worst_node].0 / sums[&worst_node].1 / worst - 1.0).abs() < 1e-12, "{protocol}");
        assert!(
            samples(&result, "receiver_undelivered_share").iter().all(|share| *share == 0.0),
            "{protocol}"
        );
        let fairness = samples(&result, "latency_fairness")[0];
        assert!((0.2..=1.0 + 1e-12).contains(&fairness), "{protocol}: {fairness}");
    }
}

/// A message that meets no other takes the time of its frame and the delay of its link.
#[test]
fn latency_and_fairness_of_unequal_links_match_closed_forms() {
    let text = "name = \"unequal\"\n[network]\nkind = \"graph\"\ntopology = \"unequal.edges\"\n\
                link_rate = \"1 Mbit/s\"\noverhead = \"0 B\"\n[protocol]\nname = \"msaw\"\n\
                [workload]\nmessages = 10\nmessage_bytes = 1250\nrate = \"1 packet/s\"\n\
                [run]\nmeasure = [\"receivers\"]\n";
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("unequal.edges"), "0 1 10\n0 2 30\n0 3 90\n").unwrap();
    fs::write(dir.path().join("unequal.roles"), "nodes 4\nsource 0\nreceiver 3\nreceiver 1\nreceiver 2\n")
        .unwrap();
    let path = dir.path().join("unequal.toml");

    let file = inputs::parse(path.to_str().unwrap(), text).unwrap();
    let result = run(&file, &mut NoObserver);
    // 10 ms on the wire.
    let latencies = [0.02, 0.04, 0.1];
    assert_eq!(nodes(&result, "receiver_latency_s"), [1, 2, 3]);
    let found = samples(&result, "receiver_latency_s");
    assert!(found.iter().zip(latencies).all(|(found, latency)| (found - latency).abs() < 1e-9), "{found:?}");
    // 0.16^2 / (3 (0.0004 + 0.0016 + 0.01)).
    assert!((samples(&result, "latency_fairness")[0] - 0.0256 / 0.036).abs() < 1e-9);
    assert_eq!(nodes(&result, "worst_receiver_latency_s"), [3]);
    // Ten messages, the last of which is offered after 9 s.
    let throughputs: Vec<f64> = latencies.iter().map(|latency| 1e5 / (9.0 + latency)).collect();
    let found = samples(&result, "receiver_throughput_bps");
    assert!(found.iter().zip(&throughputs).all(|(found, bps)| (found / bps - 1.0).abs() < 1e-9), "{found:?}");
    assert_eq!(nodes(&result, "worst_receiver_throughput_bps"), [3]);
    assert!(samples(&result, "throughput_fairness")[0] > 0.9999);
}

fn sweep(dir: &Path, run: &str, jobs: usize) {
    let text = format!(
        "name = \"sweep\"\n[network]\n{TREE}\n[protocol]\nname = \"srm\"\n[workload]\nmessages = 20\n\
         message_bytes = 1000\n[loss]\nmodel = \"bernoulli\"\np = 0.1\n[run]\nreplications = 2\n{run}\n\
         [sweep]\n\"loss.p\" = [0.02, 0.1]\n"
    );
    let file = ScenarioFile::parse("sweep", &text).unwrap();
    let contents = Contents { samples: true, ..Contents::default() };
    let options = SweepOptions {
        contents,
        existing: Existing::Replace,
        threads: jobs.into(),
        testbed: None,
        shared: None,
        stop: &|| false,
        progress: &|_| {},
    };
    run_into(&file, dir, &options).unwrap();
}

#[test]
fn table_of_receivers_has_the_means_of_the_samples() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), MEASURED, 2);
    let receivers = read_nodes(dir.path(), SubjectKind::Receiver).unwrap();
    let samples = Table::read_parquet(&dir.path().join("samples.parquet")).unwrap();
    // By loss, replication, receiver and metric.
    let mut expected: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let mut unnamed = 0;
    for row in 0..samples.len() {
        let cells: Vec<Cell> = samples.row(row).collect();
        let [loss, replication, metric, _, Cell::Real(value), receiver] = &cells[..] else {
            panic!("{cells:?}")
        };
        if matches!(receiver, Cell::Real(_)) {
            unnamed += 1;
            continue;
        }
        let key = format!("{loss:?} {replication:?} {receiver:?} {metric:?}");
        let (sum, count) = expected.entry(key).or_default();
        (*sum, *count) = (*sum + value, *count + 1.0);
    }
    assert!(unnamed > 20, "metrics of runs name no receiver");
    assert_eq!(receivers.len(), expected.len());
    assert!(receivers.len() > 2 * 2 * 8 * 4);
    for row in 0..receivers.len() {
        let cells: Vec<Cell> = receivers.row(row).collect();
        let [loss, replication, receiver, metric, n, mean, min, max] = &cells[..] else {
            panic!("{cells:?}")
        };
        let (sum, count) = expected[&format!("{loss:?} {replication:?} {receiver:?} {metric:?}")];
        assert_eq!(*n, Cell::Integer(count as i64));
        let (Cell::Real(mean), Cell::Real(min), Cell::Real(max)) = (mean, min, max) else {
            panic!("{cells:?}")
        };
        assert!((mean - sum / count).abs() < 1e-12 && min <= mean && mean <= max, "{cells:?}");
    }

    let other = tempfile::tempdir().unwrap();
    sweep(other.path(), MEASURED, 1);
    for name in ["receivers.csv", "samples.parquet", "runs.csv", "summary.csv"] {
        let read = |dir: &Path| fs::read(dir.join(name)).unwrap();
        assert_eq!(read(dir.path()), read(other.path()), "{name}");
    }
}

#[test]
fn runs_without_measurements_have_no_column_and_no_table() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), MEASURED, 1);
    let measured = fs::read_to_string(dir.path().join("summary.csv")).unwrap();
    assert!(dir.path().join("receivers.csv").exists());
    sweep(dir.path(), "", 1);
    assert!(!dir.path().join("receivers.csv").exists(), "the table of earlier results goes");
    let error = read_nodes(dir.path(), SubjectKind::Receiver).unwrap_err().to_string();
    assert!(error.contains("run.measure = [\"receivers\"]"), "{error}");
    let samples = Table::read_parquet(&dir.path().join("samples.parquet")).unwrap();
    assert!(samples.column("receiver").is_none());
    assert!(matches!(samples.column("sample"), Some(Column::Integer(_))));
    // The rows that both have are equal.
    let plain = fs::read_to_string(dir.path().join("summary.csv")).unwrap();
    let of_receivers = ["receiver_", "fairness"];
    let others = measured.lines().filter(|line| !of_receivers.iter().any(|name| line.contains(name)));
    assert!(plain.lines().eq(others));
}

#[test]
fn unknown_measurement_is_an_error_that_lists_known_ones() {
    let text = "name = \"x\"\n[network]\nkind = \"lan\"\n[group]\nreceivers = 2\n[protocol]\nname = \"msaw\"\n\
                [workload]\nmessages = 1\nmessage_bytes = 100\n[run]\nmeasure = [\"routers\"]\n";
    let error = ScenarioFile::parse("x.toml", text).unwrap_err().to_string();
    assert!(error.contains("`measure`") && error.contains("`receivers`"), "{error}");
}

const NODES: &str = "measure = [\"nodes\"]";

fn equals(result: &RunResult, metric: &str, expected: f64) {
    let found = samples(result, metric);
    assert!(!found.is_empty(), "{metric}");
    assert!(found.iter().all(|value| (value - expected).abs() < 1e-9), "{metric}: {found:?}, not {expected}");
}

/// A source that loses nothing handles a message and its acknowledgments, a receiver the message and its own. With a
/// window of n messages there is one acknowledgment for n messages (Segovia 1996, section 4.1).
#[test]
fn lossless_packets_per_node_match_the_windows() {
    for (protocol, window) in [("msaw", 1.0), ("mbap\"\nwindow = \"10", 10.0)] {
        let result = run(&scenario("kind = \"lan\"", "receivers = 6", protocol, 0.0, NODES), &mut NoObserver);
        equals(&result, "interrupts_at_source", 6.0 / window);
        equals(&result, "interrupts_at_receivers", 1.0);
        equals(&result, "packets_handled_by_source", 1.0 + 6.0 / window);
        equals(&result, "packets_handled_by_receivers", 1.0 + 1.0 / window);
        equals(&result, "packets_handled_by_worst_receiver", 1.0 + 1.0 / window);
        equals(&result, "packets_handled_per_message", 1.0 + 6.0 + 12.0 / window);
        assert_eq!(nodes(&result, "interrupts_at_receivers"), [1, 2, 3, 4, 5, 6]);
        assert_eq!(nodes(&result, "interrupts_at_source"), [0]);
        assert!(!result.samples.iter().any(|(metric, _)| metric.ends_with("_by_routers")));
    }
}

/// Expected number of transmissions until each of r receivers has succeeded, if each transmission succeeds with
/// probability s at each of them (Pingali, Towsley and Kurose 1994, equation for E[M]).
fn expected_transmissions(receivers: i32, s: f64) -> f64 {
    (0..10_000).map(|tries| 1.0 - (1.0 - (1.0 - s).powi(tries)).powi(receivers)).sum()
}

/// A receiver is done once a transmission and its acknowledgment have both arrived, and takes part in all
/// transmissions until the last receiver is done.
#[test]
fn lossy_interrupts_match_the_expected_transmissions() {
    let (receivers, p, messages) = (8, 0.1, 4000.0_f64);
    let text = format!(
        "name = \"x\"\n[network]\n{STAR}\n[group]\nreceivers = {receivers}\n[protocol]\nname = \"msaw\"\n\
         retransmission = \"multicast\"\nretransmission_limit = 1000\ntimeout = \"50 ms\"\n[workload]\nmessages = {messages}\n\
         message_bytes = 1000\n[loss]\nmodel = \"bernoulli\"\np = {p}\n[run]\n{NODES}\n"
    );
    let result = run(&ScenarioFile::parse("x", &text).unwrap(), &mut NoObserver);
    let transmissions = expected_transmissions(receivers, (1.0 - p) * (1.0 - p));
    let found = samples(&result, "interrupts_at_receivers");
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    // The number of transmissions of a message has a standard deviation of about 0.9.
    let error = 4.0 * 0.9 / messages.sqrt();
    assert!((mean - transmissions * (1.0 - p)).abs() < error, "{mean}, not {}", transmissions * (1.0 - p));
    // Every copy is acknowledged. The source sends the transmissions, and receives the acknowledgments that are left.
    let acks = f64::from(receivers) * transmissions * (1.0 - p) * (1.0 - p);
    let found = samples(&result, "interrupts_at_source")[0];
    assert!((found / acks - 1.0).abs() < error, "{found}, not {acks}");
    let found = samples(&result, "packets_handled_by_source")[0];
    assert!((found / (transmissions + acks) - 1.0).abs() < error, "{found}, not {}", transmissions + acks);
}

/// Kaashoek and Tanenbaum: one interrupt for each message if the sequencer sends the body, two if its origin does.
#[test]
fn sequencer_interrupts_each_member_once_or_twice() {
    for (method, expected) in [("pb", 1.0), ("bb", 20.0 / 11.0)] {
        let text = format!(
            "name = \"x\"\n[network]\nkind = \"lan\"\n[group]\nreceivers = 10\nsenders = 11\n[protocol]\n\
             name = \"sequencer\"\nresilience = 0\nsync_interval = \"10 s\"\nmethod = \"{method}\"\n[workload]\n\
             messages = 100\nmessage_bytes = 1000\nrate = \"2 packet/s\"\n[run]\n{NODES}\n"
        );
        let result = run(&ScenarioFile::parse("x", &text).unwrap(), &mut NoObserver);
        let found = samples(&result, "interrupts_at_receivers");
        assert!(
            found[1..].iter().all(|interrupts| (interrupts - expected).abs() < 0.05),
            "{method}: {found:?}"
        );
        // The sequencer receives the requests of the others only.
        assert!((found[0] - 10.0 / 11.0).abs() < 0.05, "{method}: {found:?}");
    }
}

#[test]
fn relays_report_packets_and_state() {
    let lossy = |protocol: &str, p: f64| run(&scenario(TREE, "", protocol, p, NODES), &mut NoObserver);
    let lms = lossy("lms", 0.02);
    // One source, so one entry at each router, whatever is lost.
    assert_eq!(samples(&lms, "held_by_routers"), [1.0]);
    assert!(samples(&lms, "mean_held_by_routers").iter().all(|mean| (0.5..=1.0).contains(mean)));
    let (pgm, idle) = (lossy("pgm", 0.05), lossy("pgm", 0.0));
    assert_eq!(samples(&idle, "held_by_routers"), [1.0], "one session and no repair");
    let peak = samples(&pgm, "held_by_routers")[0];
    assert!(peak > 2.0, "repairs are pending: {peak}");
    assert!(samples(&pgm, "mean_held_by_routers").iter().all(|mean| *mean < peak));
    let packets = |result: &RunResult| samples(result, "packets_handled_by_routers").iter().sum::<f64>();
    assert!(packets(&pgm) > packets(&idle));
    // Of routers only: the peak of receivers is the same as without the measurement.
    let plain = run(&scenario(TREE, "", "pgm", 0.05, ""), &mut NoObserver);
    for metric in ["held_by_receivers", "held_by_source"] {
        assert_eq!(samples(&pgm, metric), samples(&plain, metric));
    }
}
