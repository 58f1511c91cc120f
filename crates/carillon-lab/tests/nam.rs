//! Traces for nam, read by a program that was written after the format description (`scripts/check-nam.py`).

use std::path::Path;
use std::process::Command;

use carillon_core::{DropReason, Event, NodeId, Observer, Time};
use carillon_lab::plan::Plan;
use carillon_lab::run::run_one;
use carillon_lab::scenario::ScenarioFile;
use carillon_lab::trace::TraceFile;
use carillon_testkit::{is_installed, skip_anywhere};

/// Counts the frames that leave and the losses that the network reports.
#[derive(Debug, Default)]
struct Counts {
    sent: usize,
    lost: usize,
    discarded: usize,
}

impl Observer for Counts {
    fn event(&mut self, _time: Time, _node: NodeId, event: &Event) {
        match event {
            Event::FrameSent { .. } => self.sent += 1,
            Event::FrameLost { .. } => self.lost += 1,
            Event::FrameDiscarded => self.discarded += 1,
            Event::Dropped { reason: DropReason::Implosion } => panic!("the input of this run is unlimited"),
            _ => {}
        }
    }
}

/// Trace of a run, and the counts of the run.
fn traced(text: &str, path: &Path) -> (String, Counts) {
    let file = ScenarioFile::parse("x.toml", text).unwrap();
    let plan = Plan::new(&file).unwrap();
    let run = &plan.runs[0];
    let mut trace = TraceFile::of_run(path, &run.scenario).unwrap();
    run_one(run, &mut trace).unwrap();
    trace.finish().unwrap();
    let mut counts = Counts::default();
    run_one(run, &mut counts).unwrap();
    (std::fs::read_to_string(path).unwrap(), counts)
}

/// Runs the check; returns its output.
fn check(path: &Path, options: &[&str]) -> (bool, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/check-nam.py");
    let output = Command::new("python3").arg(script).args(options).arg(path).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn steps(trace: &str, letter: char) -> usize {
    trace.lines().filter(|line| line.starts_with(letter)).count()
}

const TREE: &str = "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"binary-tree\"\nheight = 3\nqueue = 2\n\
    [[loss]]\nmodel = \"bernoulli\"\np = 0.05\nlinks = \"all\"\n[protocol]\nname = \"pgm\"\n\
    [workload]\nmessages = 100\nmessage_bytes = 1000\nrate = \"150 packet/s\"\n";
const STAR: &str = "name = \"x\"\n[network]\nkind = \"star\"\nlatency = \"10 ms\"\n[group]\nreceivers = 5\n\
    [loss]\nmodel = \"bernoulli\"\np = 0.05\n[protocol]\nname = \"rra\"\n\
    [workload]\nmessages = 50\nmessage_bytes = 1000\n";
const LAN: &str = "name = \"x\"\n[network]\nkind = \"lan\"\npropagation_delay = \"5 us\"\n[group]\nreceivers = 6\n\
    [loss]\nmodel = \"bernoulli\"\np = 0.05\n[protocol]\nname = \"ff\"\n\
    [workload]\nmessages = 100\nmessage_bytes = 500\n";

#[test]
fn an_independent_check_accepts_a_lan_a_star_and_a_routed_run() {
    if !is_installed("python3") {
        return skip_anywhere("python3 is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("tree", TREE), ("star", STAR), ("lan", LAN)] {
        let path = folder.path().join(format!("{name}.nam"));
        let (trace, counts) = traced(text, &path);
        // Links without jitter also have to keep the times of their rate and delay.
        let (is_accepted, output) = check(&path, &["--exact"]);
        assert!(is_accepted, "{output}");
        assert!(counts.lost > 10, "{name}: {counts:?}");
        if name == "lan" {
            // Of the losses, some hit the sender's interface, before the frame is on the medium.
            assert_eq!(steps(&trace, 'd'), counts.lost + counts.discarded, "{counts:?}");
            assert!(trace.contains("collision of"));
        } else {
            assert_eq!(steps(&trace, 'h'), counts.sent, "{name}");
            assert_eq!(steps(&trace, 'd'), counts.lost + counts.discarded, "{name}: {counts:?}");
            assert_eq!(steps(&trace, 'r'), counts.sent - counts.lost, "{name}");
        }
    }
}

/// The check finds each kind of damage, so that its acceptance means something.
#[test]
fn the_check_refuses_damaged_traces() {
    if !is_installed("python3") {
        return skip_anywhere("python3 is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let (trace, _) =
        traced(&TREE.replace("messages = 100", "messages = 20"), &folder.path().join("tree.nam"));
    let without = |prefix: &str, nth: usize| {
        let mut seen = 0;
        let kept = trace.lines().filter(|line| {
            seen += usize::from(line.starts_with(prefix));
            !(line.starts_with(prefix) && seen == nth)
        });
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    for (damaged, problem) in [
        (without("r ", 7), "neither received nor dropped"),
        (without("- ", 7), "has not left the queue"),
        (without("h ", 7), "was not sent"),
        (without("+ ", 7), "leaves a queue in which it is not"),
        (without("l ", 2), "no declared link"),
        (without("n ", 2), "not declared"),
        (without("c ", 1), "color"),
        (trace.replacen(" -S UP", " -S AWAY", 1), "is not a node state"),
        (trace.replacen("h -t 0.", "h -t 9", 1), "time"),
        (trace.replacen("-e 1000", "-e many", 1), "is not an integer"),
        (trace.replacen("r -t", "z -t", 1), "unknown event"),
    ] {
        let path = folder.path().join("damaged.nam");
        std::fs::write(&path, damaged).unwrap();
        let (is_accepted, output) = check(&path, &[]);
        assert!(!is_accepted && output.contains(problem), "{problem}: {output}");
    }
}
