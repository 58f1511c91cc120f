//! Cost of routed recovery by the number of receivers: one source, a tree of three levels, 1 % loss on
//! every link and direction, 60 simulated seconds at 10 packets/s.
//!
//! Prints steps, seconds, steps a second and memory for each receiver, and draws the cost in
//! `target/scale.svg`.
//!
//! With `--polling` it is polling feedback instead, 100 messages as fast as they are taken with 1 % loss on the last
//! links: PF on a star of 10 000 children, and PRMP on a tree of four levels with a helper at each of its 1110
//! routers and 100 000 leaves, hop by hop and from the root. These are whole runs with all their metrics: of memory
//! it is the peak, less that of a group of 16, and T, N and I are printed (the means over all parents).
//!
//! Times of whole runs on one thread and on several, and their ratio, are printed with `--threads`.
//!
//! `cargo bench -p carillon-lab --bench scale [-- --quick | --polling | --threads] [protocol...]`

use std::time::Instant;

use carillon_core::{Event, NoObserver, NodeId, Observer, Time};
use carillon_lab::plan::Plan;
use carillon_lab::plot::{Axis, Dash, Figure, Marker, Marks, Series, svg};
use carillon_lab::run::{build_world, run_on, run_one};
use carillon_lab::scenario::ScenarioFile;
use carillon_testkit::{peak_bytes, resident_bytes};

/// Receivers, and the children on each level.
const SIZES: [(u32, &str); 4] =
    [(100, "4 x 5 x 5"), (1_000, "10 x 10 x 10"), (10_000, "10 x 20 x 50"), (100_000, "10 x 100 x 100")];

/// Sizes for polling feedback; a star has no levels.
const POLLED: [(&str, u32, &str); 5] = [
    ("pf", 16, STAR),
    ("pf", 10_000, STAR),
    ("prmp", 16, "2 x 2 x 2 x 2"),
    ("prmp", 100_000, "10 x 10 x 10 x 100"),
    ("prmp", 100_000, "10 x 10 x 10 x 100 from the root"),
];
const STAR: &str = "star";
const FROM_ROOT: &str = " from the root";

/// The argument before a protocol, a number of receivers and the children on each level.
const SINGLE_RUN_FLAG: &str = "--one";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, protocol, receivers, fanout] = &arguments[..]
        && flag == SINGLE_RUN_FLAG
    {
        let receivers = receivers.parse().expect("a number");
        return match POLLED.iter().any(|(name, ..)| name == protocol) {
            true => measure_polling(protocol, receivers, fanout),
            false => measure(protocol, receivers, fanout),
        };
    }
    if arguments.iter().any(|argument| argument == "--polling") {
        return polled();
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let named: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| !argument.starts_with("--")).collect();
    if arguments.iter().any(|argument| argument == "--threads") {
        return on_threads(if named.is_empty() { &["pgm"] } else { &named });
    }
    let protocols = if named.is_empty() { vec!["lms", "pgm"] } else { named };
    let sizes = if quick { &SIZES[..3] } else { &SIZES[..] };
    println!(
        "{:>8} {:>10} {:>12} {:>9} {:>14} {:>14} {:>12} {:>10}",
        "protocol", "receivers", "packet-hops", "seconds", "hops/s", "bytes/receiver", "repaired", "given up"
    );
    let mut series = Vec::new();
    for (colour, protocol) in protocols.iter().enumerate() {
        let mut points = Vec::new();
        for &(receivers, fanout) in sizes {
            let (hops, seconds) = in_a_process(protocol, receivers, fanout);
            points.push((f64::from(receivers), seconds / hops * 1e9));
        }
        let marks = Marks::Line { points, dash: Dash::Solid, marker: Some(Marker::Disc) };
        series.push(Series { name: (*protocol).to_owned(), colour: colour as u8, marks });
    }
    let figure = Figure {
        id: "scale".into(),
        title: "Cost of a packet on a link, 1 % loss".into(),
        notes: Vec::new(),
        x: Axis { log: true, ..Axis::new("Receivers", None) },
        y: Axis::new("Time for each packet on a link", Some("ns")),
        series,
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/scale.svg");
    match std::fs::write(path, svg(&figure)) {
        Ok(()) => println!("drawn in target/scale.svg"),
        Err(error) => println!("target/scale.svg: {error}"),
    }
}

/// Runs a group in a process of its own: the allocator keeps what a run before it gave back, and then
/// nothing could be said about memory. Prints its line; returns the packets that links carried and the
/// seconds it took.
fn in_a_process(protocol: &str, receivers: u32, fanout: &str) -> (f64, f64) {
    let line = output_of(protocol, receivers, fanout);
    print!("{line}");
    let number = |at: usize| line.split_whitespace().nth(at).and_then(|word| word.parse().ok());
    number(2).zip(number(3)).expect("it ran to its end")
}

fn output_of(protocol: &str, receivers: u32, fanout: &str) -> String {
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program)
        .args([SINGLE_RUN_FLAG, protocol, &receivers.to_string(), fanout])
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("it can be started");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs groups on one thread and on several in turn, and prints the times, the shortest of three, and their ratio.
fn on_threads(protocols: &[&str]) {
    println!("{:>8} {:>10} {:>8} {:>9} {:>7}", "protocol", "receivers", "threads", "seconds", "ratio");
    let all = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    for protocol in protocols {
        for &(receivers, fanout) in &SIZES[1..] {
            let file = ScenarioFile::parse("scale", &steady(protocol, fanout)).expect("a valid scenario");
            let plan = Plan::new(&file).expect("a plan");
            let mut times = [f64::MAX; 2];
            for _ in 0..3 {
                for (time, threads) in times.iter_mut().zip([1, all]) {
                    let begin = Instant::now();
                    run_on(&plan.runs[0], &mut NoObserver, &|| false, threads).expect("it ends");
                    *time = time.min(begin.elapsed().as_secs_f64());
                }
            }
            for (time, threads) in times.iter().zip([1, all]) {
                println!("{protocol:>8} {receivers:>10} {threads:>8} {time:>9.2} {:>7.2}", times[0] / time);
            }
        }
    }
}

/// Runs the groups of polling feedback and prints their lines.
fn polled() {
    println!(
        "{:>8} {:>10} {:>9} {:>14} {:>10} {:>10} {:>10}",
        "protocol", "receivers", "seconds", "bytes/receiver", "T, /ms", "N", "I"
    );
    let mut least = 0.0;
    for (protocol, receivers, fanout) in POLLED {
        let line = output_of(protocol, receivers, fanout);
        let words: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [seconds, peak, t, n, i] = words[..] else { panic!("it ran to its end: {line}") };
        if receivers == 16 {
            least = peak;
        } else {
            let memory = (peak - least) / f64::from(receivers);
            let way = if fanout.ends_with(FROM_ROOT) { FROM_ROOT } else { "" };
            println!(
                "{protocol:>8} {receivers:>10} {seconds:>9.2} {memory:>14.0} {t:>10.4} {n:>10.4} {i:>10.6}{way}"
            );
        }
    }
}

/// Runs a group of polling feedback, and prints seconds, the peak of memory, T, N and I.
fn measure_polling(protocol: &str, receivers: u32, fanout: &str) {
    let file = ScenarioFile::parse("scale", &polling(protocol, receivers, fanout)).expect("a valid scenario");
    let begin = Instant::now();
    let result = run_one(&Plan::new(&file).expect("a plan").runs[0], &mut NoObserver).expect("it ends");
    let mean = |metric: &str| {
        let samples = result.samples.iter().find(|(name, _)| *name == metric);
        samples.map_or(f64::NAN, |(_, values)| values.iter().sum::<f64>() / values.len() as f64)
    };
    assert_eq!(mean("undelivered_share"), 0.0, "{protocol}: not all is delivered");
    let (seconds, peak) = (begin.elapsed().as_secs_f64(), peak_bytes());
    let [t, n, i] = ["packet_throughput_per_ms", "network_cost", "implosion_losses"].map(mean);
    println!("{seconds} {peak} {t} {n} {i}");
}

/// Runs a group and prints its line.
fn measure(protocol: &str, receivers: u32, fanout: &str) {
    let messages = 600;
    let file = ScenarioFile::parse("scale", &steady(protocol, fanout)).expect("a valid scenario");
    let plan = Plan::new(&file).expect("a plan");
    let run = &plan.runs[0];
    let before = resident_bytes();
    let begin = Instant::now();
    let mut world = build_world(&run.scenario, &run.seeds, Count::default()).expect("a world");
    world.start();
    let wanted = u64::from(receivers) * messages;
    let limit = carillon_core::Time::ZERO + std::time::Duration::from_secs(90);
    let mut steps = 0_u64;
    world.run(limit, |world| {
        steps += 1;
        steps.is_multiple_of(1024) && world.observer().delivered + world.observer().given_up >= wanted
    });
    let seconds = begin.elapsed().as_secs_f64();
    let memory = resident_bytes().saturating_sub(before) / u64::from(receivers);
    let Count { delivered, repaired, given_up, hops } = world.into_observer();
    println!(
        "{protocol:>8} {receivers:>10} {hops:>12} {seconds:>9.2} {:>14.2e} {memory:>14} {repaired:>12} {given_up:>10}{}",
        hops as f64 / seconds,
        if delivered + given_up == wanted { "" } else { "  NOT ALL DELIVERED" }
    );
}

/// 600 messages in 60 seconds.
fn steady(protocol: &str, fanout: &str) -> String {
    format!(
        "name = \"scale\"\n[network]\nkind = \"graph\"\ntopology = \"tree\"\nfanout = \"{fanout}\"\n\
         link_rate = \"100 Mbit/s\"\nqueue = 10000\n[loss]\nmodel = \"bernoulli\"\np = 0.01\n\
         [protocol]\nname = \"{protocol}\"\n[workload]\nmessages = 600\nmessage_bytes = 1000\nrate = \"10 packet/s\"\n"
    )
}

/// 100 messages as fast as they are taken.
fn polling(protocol: &str, receivers: u32, fanout: &str) -> String {
    let (fanout, data) = match fanout.strip_suffix(FROM_ROOT) {
        Some(fanout) => (fanout, "data = \"root\"\n"),
        None => (fanout, ""),
    };
    let (network, group) = match fanout {
        STAR => (
            "kind = \"star\"\nlatency = \"5 ms\"\nlatency_deviation = \"500 us\"".into(),
            format!("receivers = {receivers}"),
        ),
        levels => {
            let children: Vec<u32> = levels.split(" x ").filter_map(|level| level.parse().ok()).collect();
            let inner = children[..children.len() - 1].iter().scan(1, |all, each| {
                *all *= each;
                Some(*all)
            });
            let helpers: u32 = inner.sum();
            let tree = format!(
                "kind = \"graph\"\ntopology = \"tree\"\nfanout = \"{levels}\"\nlink_delay = \"5 ms\"\nlink_rate = \"1 Gbit/s\""
            );
            (tree, format!("helpers = {helpers}"))
        }
    };
    format!(
        "name = \"scale\"\n[network]\n{network}\nqueue = 10000\nimplosion_rate = \"20000 packet/s\"\nimplosion_buffer = 256\n\
         [loss]\nmodel = \"bernoulli\"\nlinks = \"last\"\np = 0.01\n[group]\n{group}\n[protocol]\nname = \"{protocol}\"\n\
         {data}response_rate = 20000\n[workload]\nmessages = 100\nmessage_bytes = 1000\n"
    )
}

/// Counts, and keeps nothing.
#[derive(Default)]
struct Count {
    delivered: u64,
    repaired: u64,
    given_up: u64,
    hops: u64,
}

impl Observer for Count {
    fn event(&mut self, _time: Time, _node: NodeId, event: &Event) {
        match *event {
            Event::Delivered { .. } => self.delivered += 1,
            Event::LossRepaired { .. } => self.repaired += 1,
            Event::LossFinal { .. } => self.given_up += 1,
            Event::FrameSent { .. } => self.hops += 1,
            _ => {}
        }
    }
}
