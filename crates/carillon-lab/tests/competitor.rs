//! Competing traffic on the links of a session, and the study that compares controllers with it.

use carillon_core::NoObserver;
use carillon_lab::plan::Plan;
use carillon_lab::run::{RunResult, run_one};
use carillon_lab::scenario::ScenarioFile;
use carillon_proto::blocks::congestion::CONTROLLER_NAMES;

/// Runs a session to two receivers behind a link of 10 Mbit/s for ten seconds beside a competitor.
fn run(competitor: &str, workload: &str) -> RunResult {
    let text = format!(
        "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"tree\"\nfanout = \"1 x 2\"\nlink_rate = \"10 Mbit/s\"\n\
         link_delay = \"5 ms\"\nqueue = 60\n[protocol]\nname = \"carillon\"\n[competitor]\nkind = \"{competitor}\"\n\
         [workload]\nmessages = 100000\nmessage_bytes = 1000\n{workload}\n\
         [run]\ntime_limit = \"10 s\"\nunfinished = \"keep\"\nmeasure = [\"receivers\", \"queues\"]\n"
    );
    run_text(&text)
}

fn run_text(text: &str) -> RunResult {
    let file = ScenarioFile::parse("x", text).expect("a scenario");
    run_one(&Plan::new(&file).expect("a plan").runs[0], &mut NoObserver).expect("a run")
}

fn value(result: &RunResult, metric: &str) -> f64 {
    result.samples.iter().find(|(name, _)| *name == metric).expect("the metric is given").1[0]
}

#[test]
fn cubic_flow_takes_what_a_slow_session_leaves() {
    let result = run("cubic", "rate = \"100 packet/s\"");
    let (own, other) =
        (value(&result, "session_throughput_bps"), value(&result, "competitor_throughput_bps"));
    assert!((0.78e6..0.82e6).contains(&own), "{own}");
    assert!((7.5e6..9.3e6).contains(&other), "{other}");
    assert_eq!(value(&result, "session_share"), own / (own + other));
    // 60 packets of 1000 bytes take 48 ms.
    assert!((0.005..0.048).contains(&value(&result, "queueing_delay_s")));
}

#[test]
fn two_sessions_share_a_link() {
    let result = run("session", "");
    let (own, other) =
        (value(&result, "session_throughput_bps"), value(&result, "competitor_throughput_bps"));
    assert!(own + other > 8e6 && own + other < 10e6, "{own} and {other}");
    assert!(value(&result, "competition_fairness") > 0.8, "{own} and {other}");
}

/// Answers stand in the queue so long that all receivers count as silent. A sender without a limit then sent its whole
/// window at one instant, and lost its share.
#[test]
fn sessions_with_silent_receivers_share_a_link() {
    let result = run_text(
        "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"tree\"\nfanout = \"1 x 2\"\n\
         link_rate = \"1 Mbit/s\"\nlink_delay = \"150 ms\"\nqueue = 100\n\
         [protocol]\nname = \"carillon\"\nprofile = \"delivery\"\nflight = 65536\nwindow = 65536\n\
         [competitor]\nkind = \"session\"\n[workload]\nmessages = 4000000\nmessage_bytes = 1000\n\
         [run]\ntime_limit = \"20 s\"\nunfinished = \"keep\"\nmeasure = [\"receivers\", \"queues\"]\n",
    );
    let (own, other) =
        (value(&result, "session_throughput_bps"), value(&result, "competitor_throughput_bps"));
    assert!(value(&result, "competition_fairness") > 0.9, "{own} and {other}");
}

#[test]
fn metrics_of_competition_need_competitor() {
    let result = run("none", "rate = \"100 packet/s\"");
    let has = |metric: &str| result.samples.iter().any(|(name, _)| *name == metric);
    assert!(!has("competition_fairness") && has("queueing_delay_s"));
}

#[test]
fn study_has_every_controller() {
    let text = include_str!("../../../experiments/plans/congestion-alone.toml");
    let file = ScenarioFile::parse("congestion-alone", text).expect("a plan");
    let axis = file.axes().iter().find(|axis| axis.keys == ["protocol.congestion"]).expect("it is swept");
    let names: Vec<_> = axis.values(0).map(|value| value.as_str().expect("a name")).collect();
    assert_eq!(names, CONTROLLER_NAMES);
}
