//! Applications that offer in bursts or read slowly: the protocol's flow control passes the pace on to the sender.

use carillon_core::{Event, NodeId, Observer, Time};
use carillon_lab::plan::Plan;
use carillon_lab::run::run_one;
use carillon_lab::scenario::ScenarioFile;

/// Times of ready messages and of completions, in milliseconds.
#[derive(Default)]
struct Watch {
    ready: Vec<u64>,
    completed: Vec<u64>,
}

impl Observer for Watch {
    fn event(&mut self, time: Time, _: NodeId, event: &Event) {
        let millis = |time: Time| time.as_nanos() / 1_000_000;
        match event {
            Event::Offered { since, .. } => self.ready.push(millis(*since)),
            Event::Completed { .. } => self.completed.push(millis(time)),
            _ => {}
        }
    }
}

/// Runs 300 messages of `protocol` to three children of a star.
fn watch(protocol: &str, keys: &str) -> Watch {
    let text = format!(
        "name = \"x\"\n[network]\nkind = \"star\"\nlatency = \"1 ms\"\nlink_rate = \"10 Mbit/s\"\n[group]\nreceivers = 3\n\
         [protocol]\n{protocol}\n[workload]\nmessages = 300\nmessage_bytes = 1000\n{keys}"
    );
    let file = ScenarioFile::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&file).unwrap_or_else(|error| panic!("{error}"));
    let mut watch = Watch::default();
    run_one(&plan.runs[0], &mut watch).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(watch.completed.len(), 300);
    watch
}

/// PRMP's window is at most the receiver's buffer: what is completed has been read, except for a buffer's contents.
const PRMP: &str = "name = \"prmp\"\nwindow = 16";

fn end(watch: &Watch) -> u64 {
    watch.completed.last().copied().unwrap_or(0)
}

#[test]
fn slow_reader_sets_the_pace_of_the_sender() {
    let fast = end(&watch(PRMP, ""));
    assert!(fast < 1000, "{fast} ms without a slow reader");
    for reader in ["rate = \"100 message/s\"", "rate = \"100 message/s\"\nburst = 10\nreceivers = \"last\""] {
        let slow = end(&watch(PRMP, &format!("[reader]\n{reader}")));
        // 300 messages at 100 a second take 3 s, less the contents of a buffer of 16 and of a burst of 10.
        assert!((2700..3100).contains(&slow), "{reader}: {slow} ms");
    }
}

#[test]
fn reader_that_starts_late_holds_the_sender_back() {
    let slow = watch(PRMP, "[reader]\nrate = \"1000 message/s\"\nstart = \"2 s\"");
    let early = slow.completed.iter().filter(|&&time| time < 2000).count();
    assert!(early <= 16, "{early} messages completed before the first read: the buffer holds 16");
    assert!((2250..2600).contains(&end(&slow)), "{} ms", end(&slow));
}

#[test]
fn burst_is_ready_at_once_at_the_mean_rate() {
    let ready = watch(PRMP, "rate = \"100 packet/s\"\nburst = 20\nstart = \"1 s\"\n").ready;
    let expected: Vec<u64> = (0..300).map(|message| 1000 + message / 20 * 200).collect();
    assert_eq!(ready, expected);
}

#[test]
fn errors_of_slow_applications_name_their_keys() {
    let cases = [
        ("burst = 2\n", "`workload.burst` requires workload.rate"),
        ("[reader]\nburst = 2\n", "`reader.rate` is missing"),
        ("[reader]\nrate = \"5 packet\"\n", "`rate`: \"5 packet\" is not a rate"),
        ("[reader]\nrate = \"5 message/s\"\nburst = 0\n", "expected a whole number of 1 or more"),
        ("[reader]\nrate = \"5 message/s\"\nreceivers = 9\n", "`reader.receivers` \"9\" names no receiver"),
    ];
    for (keys, expected) in cases {
        let text = format!(
            "name = \"x\"\n[network]\nkind = \"lan\"\n[group]\nreceivers = 3\n[protocol]\nname = \"prmp\"\n\
             [workload]\nmessages = 3\nmessage_bytes = 1000\n{keys}"
        );
        let error = ScenarioFile::parse("x.toml", &text).expect_err("the scenario is wrong").to_string();
        assert!(error.contains(expected), "{keys}: {error}");
    }
}

/// A message may be due while its host is busy with an earlier call or packet. The run must not repeat that instant.
#[test]
fn messages_that_are_due_wait_for_their_busy_host() {
    for protocol in ["rmtp", "mtp", "mtp-2", "xtp", "ramp", "pf", "carillon"] {
        // A call of 4.6 ms takes nearly all of the 5 ms between two messages.
        let text = format!(
            "name = \"x\"\n[network]\nkind = \"lan\"\nhost_call = \"4.6 ms\"\nhost_packet = \"0.1 ms\"\nport_queue = 1\n\
             [group]\nreceivers = 3\nhelpers_if_any = true\n[protocol]\nname = \"{protocol}\"\nprofile = \"delivery\"\n\
             [workload]\nmessages = 100\nmessage_bytes = 1000\nrate = \"200 packet/s\"\n[run]\nstep_limit = 200000\n"
        );
        let file = ScenarioFile::parse("x.toml", &text).unwrap_or_else(|error| panic!("{protocol}: {error}"));
        let mut watch = Watch::default();
        run_one(&Plan::new(&file).unwrap().runs[0], &mut watch)
            .unwrap_or_else(|error| panic!("{protocol}: {error}"));
        assert_eq!(watch.ready.len(), 100, "{protocol}");
    }
}
