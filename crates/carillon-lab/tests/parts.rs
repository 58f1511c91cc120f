//! Worlds in several parts: the same trace and the same results, byte for byte, for any number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use carillon_lab::plan::{Plan, Run};
use carillon_lab::run::{RunResult, Task, Unsupervised, Workers, simulate_on};
use carillon_lab::scenario::ScenarioFile;
use carillon_lab::trace::{JsonLines, TraceFile};
use carillon_testkit::is_long_tier;

/// Threads that divide even the smallest network, and complete the tasks of a window in changing orders.
struct Threads {
    number: usize,
    most_steps: usize,
    windows: AtomicUsize,
}

impl Threads {
    fn new(number: usize) -> Self {
        // With three threads, parts pause after each step.
        let most_steps = if number == 3 { 1 } else { usize::MAX };
        Threads { number, most_steps, windows: AtomicUsize::new(0) }
    }
}

impl Workers for Threads {
    fn number(&self) -> usize {
        self.number
    }

    fn least_nodes(&self) -> usize {
        2
    }

    fn most_steps(&self) -> usize {
        self.most_steps
    }

    fn complete(&self, mut tasks: Vec<Task<'_>>) {
        let window = self.windows.fetch_add(1, Ordering::Relaxed);
        let first = window % tasks.len();
        tasks.rotate_left(first);
        match window % 64 {
            // Threads cost more than the tasks, so few windows have them.
            0 => std::thread::scope(|scope| tasks.into_iter().for_each(|task| drop(scope.spawn(task)))),
            _ => tasks.into_iter().for_each(|task| task()),
        }
    }
}

/// Trace and results of a run on this number of threads, and the number of windows.
fn traced(run: &Run, number: usize) -> (Vec<u8>, RunResult, usize) {
    let threads = Threads::new(number);
    let mut trace = Vec::new();
    let format = run.scenario.protocol.packets.format;
    let mut lines = JsonLines::new(&mut trace).naming_frames(format);
    let result = simulate_on(run, &mut lines, &mut Unsupervised, &threads)
        .unwrap_or_else(|error| panic!("{}: {error}", run.scenario.name))
        .expect("nothing stops the run");
    lines.finish().unwrap();
    (trace, result, threads.windows.into_inner())
}

fn runs(text: &str) -> Vec<Run> {
    let file = ScenarioFile::parse("parts.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Plan::new(&file).unwrap().runs
}

/// Compares a run on one thread with the run on several. Returns the number of windows.
fn compare(run: &Run, what: &str) -> usize {
    let (trace, result, windows) = traced(run, 1);
    assert_eq!(windows, 0, "{what}: it was divided for one thread");
    let mut all = 0;
    for number in [2, 3] {
        let (in_parts, same, windows) = traced(run, number);
        if in_parts != trace {
            let lines = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
            let (whole, parts) = (lines(&trace), lines(&in_parts));
            let differs = whole.lines().zip(parts.lines()).position(|(whole, parts)| whole != parts);
            let at = differs.unwrap_or_else(|| whole.lines().count().min(parts.lines().count()));
            let near =
                |text: &str| text.lines().skip(at.saturating_sub(3)).take(6).collect::<Vec<_>>().join("\n");
            panic!(
                "{what} on {number} threads, line {at}:\n{}\nand in parts\n{}",
                near(&whole),
                near(&parts)
            );
        }
        assert_eq!(format!("{:?}", same.samples), format!("{:?}", result.samples), "{what}");
        assert_eq!((same.steps, same.messages.len()), (result.steps, result.messages.len()), "{what}");
        all += windows;
    }
    assert!(!trace.is_empty(), "{what}: nothing happened");
    all
}

/// Networks in which many packets arrive at the same time, and some in which none do.
const NETWORKS: [&str; 5] = [
    "topology = \"tree\"\nfanout = \"4 x 3 x 2\"\nlink_rate = \"1 Gbit/s\"",
    "topology = \"binary-tree\"\nheight = 4\nqueue = 3",
    "topology = \"tree\"\nfanout = \"2 x 9\"\nlink_delay = \"1 ms\"\nlink_rate = \"1 Gbit/s\"\nport_queue = 2",
    "topology = \"rand0-r100\"",
    "topology = \"transit-stub\"\n[group]\nreceivers = 20",
];

/// Protocols without helpers, of which some have relays.
const PROTOCOLS: [&str; 10] = ["pgm", "srm", "lms", "carillon", "rra", "norm", "ff", "xtp", "snr", "pf"];

fn scenario(network: &str, protocol: &str, loss: &str, messages: u32, rate: u32, seed: usize) -> String {
    format!(
        "name = \"parts\"\n[network]\nkind = \"graph\"\n{network}\n[[loss]]\n{loss}\n\
         [protocol]\nname = \"{protocol}\"\n[workload]\nmessages = {messages}\nmessage_bytes = 800\n\
         rate = \"{rate} packet/s\"\n[run]\nseed = {seed}\nunfinished = \"keep\"\ntime_limit = \"60 s\"\n"
    )
}

/// Tries each protocol on each network in the long tier, and some protocols on one network each otherwise.
#[test]
fn parts_give_the_trace_of_the_whole_world() {
    let losses = [
        "model = \"bernoulli\"\np = 0.03",
        "model = \"gilbert-elliott\"\nto_bad = 0.02\nto_good = 0.3\nloss_bad = 0.5\nloss_good = 0.0",
    ];
    let (mut tried, mut divided) = (0, 0);
    for (seed, protocol) in PROTOCOLS.iter().enumerate() {
        for (at, network) in NETWORKS.iter().enumerate() {
            if !is_long_tier() && (at != seed % NETWORKS.len() || seed >= NETWORKS.len()) {
                continue;
            }
            let messages = if is_long_tier() { 30 } else { 5 };
            let rate = [20, 200][(at + seed) % 2];
            let text = scenario(network, protocol, losses[at % 2], messages, rate, seed);
            let windows = compare(&runs(&text)[0], &format!("{protocol} on {network}"));
            divided += usize::from(windows > 0);
            tried += 1;
        }
    }
    assert!(divided * 5 >= tried * 4, "only {divided} of {tried} runs were in parts");
}

/// Networks that parts would simulate in another way are left whole.
#[test]
fn runs_with_other_connections_stay_whole() {
    let tree = "topology = \"tree\"\nfanout = \"3 x 4\"";
    let loss = "model = \"bernoulli\"\np = 0.02";
    let whole = [
        scenario(tree, "rmtp", loss, 5, 50, 1).replace("[[loss]]", "[group]\nhelpers = 2\n[[loss]]"),
        scenario(tree, "sequencer", loss, 5, 50, 1),
        scenario(&format!("{tree}\nlink_delay = \"10 us\""), "pgm", loss, 5, 50, 1),
        scenario(tree, "pgm", loss, 5, 50, 1).replace("[[loss]]", "[competitor]\nkind = \"cubic\"\n[[loss]]"),
    ];
    for text in whole {
        let (_, result, windows) = traced(&runs(&text)[0], 4);
        assert!(windows == 0 && result.steps > 100, "{text}");
    }
    // A trace for nam numbers datagrams by their buffers.
    let run = &runs(&scenario(tree, "pgm", loss, 5, 50, 1))[0];
    let (threads, folder) = (Threads::new(4), tempfile::tempdir().unwrap());
    let mut nam = TraceFile::of_run(&folder.path().join("x.nam"), &run.scenario).unwrap();
    simulate_on(run, &mut nam, &mut Unsupervised, &threads).unwrap();
    assert_eq!(threads.windows.into_inner(), 0);
    assert!(traced(&runs(&scenario(tree, "pgm", loss, 5, 50, 1))[0], 4).2 > 10);
}

/// Limits end a run at the same step, with the same error and the same trace.
#[test]
fn limits_are_the_same_in_parts() {
    let network = NETWORKS[0];
    let loss = "model = \"bernoulli\"\np = 0.03";
    let mut errors = 0;
    for limit in ["step_limit = 700", "time_limit = \"300 ms\"", "emission_limit = 1", "linger = \"20 ms\""] {
        for protocol in ["pgm", "carillon"] {
            let text = scenario(network, protocol, loss, 20, 50, 3);
            let text = text.replace("unfinished = \"keep\"\ntime_limit = \"60 s\"", limit);
            let run = &runs(&text)[0];
            let end = |number| {
                let mut trace = Vec::new();
                let mut lines = JsonLines::new(&mut trace);
                let result = simulate_on(run, &mut lines, &mut Unsupervised, &Threads::new(number));
                lines.finish().unwrap();
                let result = result.map(|result| result.expect("nothing stops the run").steps);
                (format!("{result:?}"), trace)
            };
            let (whole, trace) = end(1);
            errors += usize::from(whole.starts_with("Err"));
            for number in [2, 3] {
                let (result, in_parts) = end(number);
                assert_eq!(result, whole, "{protocol} with {limit}");
                assert!(in_parts == trace, "{protocol} with {limit}: the traces differ");
            }
        }
    }
    assert!(errors >= 4, "only {errors} of 8 runs ended by a limit");
}
