//! One suite for every protocol with one sender, over random groups, losses and seeds.
//!
//! `CARILLON_RUNS` says how many runs each test makes (the nightly ones: 10 000); a failure prints
//! the command that repeats its run.

use std::num::NonZeroU32;
use std::time::Duration;

use carillon_core::{Event, NodeId, Outcome, Probability, ProtocolEntry, Rng, Role, Seeds};
use carillon_proto::{REGISTRY, find};
use carillon_sim::{LanConfig, TimerRule};
use carillon_testkit::{Group, Link, Place, Report, SENDER, for_each_seed};

/// What a protocol promises, beyond what the traits say.
#[derive(Clone, Copy, Debug)]
struct Promises {
    /// Reliable over links that keep the order of datagrams and do not duplicate them only: its
    /// sequence numbers are as few as its window allows. Over other links it has to end, no more.
    fifo_only: bool,
    /// After the sender has finished, each receiver still sends at most one datagram in every such
    /// time (for MBAP, the acknowledgment timer of the thesis that runs for ever); `None` is none at
    /// all.
    idle_feedback: Option<Duration>,
}

fn promises(entry: &ProtocolEntry) -> Promises {
    match entry.name {
        "msaw" | "saw" => Promises { fifo_only: true, idle_feedback: None },
        "mbap" | "bap" => Promises { fifo_only: true, idle_feedback: Some(ACK_TIMEOUT) },
        "rra" => Promises { fifo_only: false, idle_feedback: None },
        other => panic!("say here what {other} promises"),
    }
}

/// The acknowledgment delay of block acknowledgment in these tests: longer than a window takes.
const ACK_TIMEOUT: Duration = Duration::from_millis(20);

/// The tests of each protocol, by name.
macro_rules! suite {
    ($($name:ident)*) => {
        #[test]
        fn every_protocol_with_one_sender_has_its_suite() {
            let one_sender = REGISTRY.iter().filter(|entry| entry.confirmed && entry.roles.contains(&Role::Sender));
            let names: Vec<_> = one_sender.map(|entry| entry.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
        $(mod $name {
            use super::*;

            #[test]
            fn delivers_everything_over_lossy_links() {
                over_seeds(concat!(stringify!($name), "::delivers_everything_over_lossy_links"), 50, |seed| {
                    lossy_links(entry(stringify!($name)), seed)
                });
            }

            #[test]
            fn delivers_everything_over_a_lossy_ethernet() {
                over_seeds(concat!(stringify!($name), "::delivers_everything_over_a_lossy_ethernet"), 25, |seed| {
                    lossy_ethernet(entry(stringify!($name)), seed)
                });
            }

            #[test]
            fn ends_over_links_that_reorder_and_duplicate() {
                over_seeds(concat!(stringify!($name), "::ends_over_links_that_reorder_and_duplicate"), 40, |seed| {
                    unordered_links(entry(stringify!($name)), seed)
                });
            }

            #[test]
            fn ends_when_nothing_arrives() {
                over_seeds(concat!(stringify!($name), "::ends_when_nothing_arrives"), 10, |seed| {
                    silence(entry(stringify!($name)), seed)
                });
            }

            #[test]
            fn goes_on_when_receivers_crash_and_restart() {
                over_seeds(concat!(stringify!($name), "::goes_on_when_receivers_crash_and_restart"), 30, |seed| {
                    crashes(entry(stringify!($name)), seed)
                });
            }

            #[test]
            fn is_the_same_for_the_same_seed() {
                over_seeds(concat!(stringify!($name), "::is_the_same_for_the_same_seed"), 3, |seed| {
                    same(entry(stringify!($name)), seed)
                });
            }
        })*
    };
}

suite!(msaw saw mbap bap rra);

fn over_seeds(test: &'static str, runs: u64, body: impl FnMut(u64) -> Result<(), String>) {
    for_each_seed(Place { package: "carillon-proto", target: "conformance", test }, runs, body);
}

fn entry(name: &str) -> &'static ProtocolEntry {
    find(name).expect("the registry has every protocol of the suite")
}

/// Loss of up to 30 % in either direction, different on every link; everything else at random.
fn lossy_links(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.links");
    let receivers = 1 + rng.below(8) as u32;
    let mut group =
        Group::new(entry, seed).receivers(receivers).messages(10 + rng.below(40)).set(LIMIT, MANY);
    group = settings(group, entry, &mut rng);
    for node in (1..=receivers).map(NodeId) {
        let (there, back) = (lossy(&mut rng), lossy(&mut rng));
        group = group.link(SENDER, node, there).link(node, SENDER, back);
    }
    if rng.chance(0.25) {
        // Slower than the network: messages wait at the receivers, and their buffers fill.
        group = group.pace(Duration::from_millis(1 + rng.below(20)));
    }
    let report = group.run();
    report.check_reliable()?;
    becomes_quiet(entry, &report, receivers)
}

/// The medium the protocols were made for, with loss of up to 10 % at every interface.
fn lossy_ethernet(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.ethernet");
    let receivers = 1 + rng.below(8) as u32;
    let mut group =
        Group::new(entry, seed).receivers(receivers).messages(10 + rng.below(20)).set(LIMIT, MANY);
    group = settings(group.max_payload(1400), entry, &mut rng);
    // A frame takes more than a millisecond: one that is sent again before that fills the interface
    // faster than it empties.
    group = group.set("timeout", "100 ms").set("timeout_min", "50 ms");
    let report = group.run_lan(LanConfig {
        loss: Probability::new(rng.unit() * 0.1).expect("a tenth at most"),
        timers: if rng.chance(0.5) { TimerRule::Exact } else { TimerRule::AfterBusActivity },
        backoff_inclusive: rng.chance(0.5),
        interframe_gap_bits: rng.below(2) * 96,
        propagation_delay: Duration::from_nanos(rng.below(25_000)),
        // In every other run machines are held up by their port, and what they have to say may change meanwhile.
        port_queue: NonZeroU32::new(rng.below(2) as u32 * (1 + rng.below(4) as u32)),
        ..LanConfig::default()
    });
    report.check_reliable()?;
    becomes_quiet(entry, &report, receivers)
}

/// Duplication and reordering as well. A protocol that needs order has to end here, and no more.
fn unordered_links(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.unordered");
    let receivers = 1 + rng.below(8) as u32;
    let link = Link {
        jitter: Duration::from_micros(rng.below(10_000)),
        duplication: Probability::new(rng.unit() * 0.3).expect("less than one"),
        ..lossy(&mut rng)
    };
    let limit = if promises(entry).fifo_only { "10" } else { MANY };
    let group = Group::new(entry, seed).receivers(receivers).messages(30).set(LIMIT, limit).all_links(link);
    let group = if rng.chance(0.5) { group.set("past_limit", "expel") } else { group };
    let report = settings(group, entry, &mut rng).run();
    if !promises(entry).fifo_only {
        return report.check_reliable();
    }
    ended(&report)
}

/// All is lost, one way or the other: the sender gives up, and says so.
fn silence(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.silence");
    let receivers = 1 + rng.below(8) as u32;
    let mut group = Group::new(entry, seed).receivers(receivers).messages(5).set(LIMIT, "3");
    let expel = rng.chance(0.5);
    group = group.set("past_limit", if expel { "expel" } else { "skip" });
    let back = rng.chance(0.5);
    for node in (1..=receivers).map(NodeId) {
        let (from, to) = if back { (node, SENDER) } else { (SENDER, node) };
        group = group.link(from, to, Link::losing(1.0));
    }
    let report = settings(group, entry, &mut rng).run();
    ended(&report)?;
    let failed = report.completed().iter().filter(|(_, o)| *o == Outcome::Failed).count();
    let lost = report.count(|_, event| matches!(event, Event::MemberLost { .. }));
    match (expel, failed, lost) {
        (true, 0, lost) if lost == receivers as usize => Ok(()),
        (false, 5, 0) => Ok(()),
        _ => Err(format!("expel {expel}: {failed} messages failed, {lost} of {receivers} members lost")),
    }
}

/// Receivers crash, and some come back as strangers: the others get everything, and those that are
/// gone are named. If the sender crashes too, nothing wrong is delivered.
fn crashes(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.crashes");
    let receivers = 2 + rng.below(7) as u32;
    let link =
        Link { delay: Duration::from_micros(100 + rng.below(2_000)), ..Link::losing(rng.unit() * 0.05) };
    let mut group = Group::new(entry, seed).receivers(receivers).messages(30).all_links(link);
    // Ten times in a row nothing of a receiver that lives is lost.
    group =
        settings(group, entry, &mut rng).set(LIMIT, "10").set("past_limit", "expel").set("timeout", "50 ms");
    let first = 1 + rng.below(receivers.into()) as u32;
    for node in (first..=receivers).take(1 + rng.below(2) as usize).map(NodeId) {
        let at = Duration::from_micros(rng.below(200_000));
        group = group.crash(node, at);
        if rng.chance(0.5) {
            group = group.restart(node, at + Duration::from_micros(1 + rng.below(200_000)));
        }
    }
    if rng.chance(0.2) {
        let report = group.crash(SENDER, Duration::from_micros(rng.below(200_000))).run();
        return report.check_safety();
    }
    let report = group.run();
    report.check_reliable()?;
    if let Some(stranger) = report.rejoined.iter().find(|received| !received.deliveries.is_empty()) {
        return Err(format!("{} delivers what was not for it", stranger.node));
    }
    becomes_quiet(entry, &report, receivers)
}

/// Equal seeds, equal runs.
fn same(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let group =
        Group::new(entry, seed).receivers(5).messages(20).set(LIMIT, MANY).all_links(Link::losing(0.2));
    let group = settings(group, entry, &mut Seeds::new(seed).stream("conformance.same"));
    let (one, other) = (group.run(), group.run());
    if one.events != other.events {
        return Err("the same group ran differently the second time".to_owned());
    }
    one.check_reliable()
}

fn ended(report: &Report) -> Result<(), String> {
    if report.finished.is_none() {
        return Err(format!("the sender did not finish: {}", report.progress()));
    }
    // Message by message, once each, whatever became of it.
    if report.completed().iter().map(|(message, _)| message.0).ne(0..report.messages) {
        return Err(format!("the sender completed {:?}", report.completed()));
    }
    Ok(())
}

/// Traffic stops, or keeps to what the protocol says.
fn becomes_quiet(entry: &ProtocolEntry, report: &Report, receivers: u32) -> Result<(), String> {
    // What was under way when the sender finished may still be answered.
    let allowed = match promises(entry).idle_feedback {
        None => 16 * receivers as usize,
        Some(each) => (AFTERWARDS.as_nanos() / each.as_nanos() + 8) as usize * receivers as usize,
    };
    match report.sent_afterwards {
        sent if sent > allowed => {
            Err(format!("{sent} datagrams after the sender had finished: {allowed} allowed"))
        }
        _ if promises(entry).idle_feedback.is_none() && !report.quiet => {
            Err("something is still to happen long after the sender has finished".to_owned())
        }
        _ => Ok(()),
    }
}

fn lossy(rng: &mut Rng) -> Link {
    Link { delay: Duration::from_micros(100 + rng.below(2_000)), ..Link::losing(rng.unit() * 0.3) }
}

/// Settings at random, within what suits these networks.
fn settings(group: Group, entry: &ProtocolEntry, rng: &mut Rng) -> Group {
    let mut group = group.afterwards(AFTERWARDS);
    let mut positive = true;
    for parameter in entry.parameters {
        let value = match parameter.name {
            "retransmission" => pick(rng, &["multicast", "unicast"]).to_owned(),
            "ack_wait" => format!("{} bit", pick(rng, &[0, 1, 6_000])),
            "timeout_method" => pick(rng, &["formula", "constant", "adaptive"]).to_owned(),
            // More than a round trip and, for block acknowledgment, than its acknowledgment delay;
            // or much less than a round trip, which costs packets, never messages.
            "timeout" => format!("{} us", pick(rng, &[50_000, 50_000, 500])),
            "feedback" if entry.name == "msaw" && rng.chance(0.5) => {
                group = group.set("retransmission", "multicast");
                positive = false;
                "nak".to_owned()
            }
            "feedback" if entry.name.ends_with("bap") && rng.chance(0.5) => {
                positive = false;
                "nak".to_owned()
            }
            "feedback" => "ack".to_owned(),
            "ack_wait_method" => {
                let adaptive = positive && rng.chance(0.5);
                if adaptive { "adaptive" } else { "constant" }.to_owned()
            }
            "poll_interval" => pick(rng, &["1", "2", "16", "64"]).to_owned(),
            "nak_wait" => format!("{} us", pick(rng, &[10, 5_000])),
            "window" => (1 + rng.below(16)).to_string(),
            "ack_timeout" => format!("{} ms", ACK_TIMEOUT.as_millis()),
            "ack_timer" => pick(rng, &["restart", "until-full-window"]).to_owned(),
            "ack_bytes" => format!("{} byte", pick(rng, &[0, 64, 200])),
            _ => continue,
        };
        group = group.set(parameter.name, &value);
    }
    group
}

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

/// How long a group is watched after its sender has finished.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// The parameter that says when a message is given up.
const LIMIT: &str = "retransmission_limit";
const MANY: &str = "1000000";
