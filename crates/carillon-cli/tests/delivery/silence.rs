//! A receiver that is killed, stopped for a while, or let run only now and then: who is silent is given
//! up in time, at any rate, and the others have everything.
//!
//! The long tier does it with every protocol at every rate: `CARILLON_SILENCE=1` (`make nightly`), and
//! `CARILLON_PROTOCOL` chooses one of them.

use std::env::var;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use carillon_core::{ProtocolEntry, Role};
use carillon_proto::REGISTRY;
use serde_json::Value;

use crate::support::{Place, Running, need_multicast, wait_for_part};

/// What befalls a receiver when it has received something.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Freeze(Duration),
    Trickle(Duration),
}

/// How it ended for the sender.
#[derive(Debug)]
struct End {
    code: Option<i32>,
    /// From the fault on.
    took: Duration,
    verified: usize,
    /// What the report says of the receiver that had the fault.
    outcome: String,
    reason: String,
    waited: f64,
}

const RECEIVERS: usize = 3;
/// A timeout is to be kept within this; and what a busy machine is late by.
const LATE: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_secs(3);
/// What is left to send afterwards takes no longer, one receiver after the other.
const REST: Duration = Duration::from_secs(10);

fn befall(fault: Fault, victim: &mut Running, over: &AtomicBool) {
    match fault {
        Fault::Kill => victim.kill(),
        Fault::Freeze(span) => {
            victim.signal("STOP");
            sleep(span);
            victim.signal("CONT");
        }
        Fault::Trickle(span) => {
            let start = Instant::now();
            while !over.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(60) {
                victim.signal("STOP");
                sleep(span);
                victim.signal("CONT");
                sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Sends a stream of which the first part is there before the fault, and the rest after it.
fn run(protocol: &str, rate: Option<u32>, timeout: u32, fault: Fault, rest: usize) -> End {
    let place = Place::new();
    let [_a, _b] = ["a", "b"].map(|name| place.recv(name).start());
    let mut victim = place.recv("victim").start();
    let mut sender = place.send("s").args("- --as f --json --datagram 1400");
    sender = sender.args(&format!("--receivers {RECEIVERS} --protocol {protocol} --timeout {timeout}"));
    if let Some(rate) = rate {
        sender = sender.args(&format!("--rate {rate}Mbit/s"));
    }
    let mut sender = sender.start_fed();
    sender.feed(&"x".repeat(100_000));
    wait_for_part(&place.path("victim"));
    let (start, over) = (Instant::now(), AtomicBool::new(false));
    let ended = scope(|scope| {
        scope.spawn(|| befall(fault, &mut victim, &over));
        // While the fault begins.
        sleep(Duration::from_millis(50));
        sender.feed(&"y".repeat(rest));
        sender.close();
        let ended = sender.end_within(Duration::from_secs(120));
        over.store(true, Ordering::Relaxed);
        ended
    });
    let took = start.elapsed();
    let report = ended.events("report").pop().unwrap_or_else(|| panic!("no report: {}", ended.err));
    let receivers = report["receivers"].as_array().expect("a list").clone();
    let verified = receivers.iter().filter(|receiver| receiver["outcome"] == "verified").count();
    let victim = receivers.iter().find(|receiver| receiver["name"] == "victim").expect("it is named");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    End {
        code: ended.code,
        took,
        verified,
        outcome: text(&victim["outcome"]),
        reason: text(&victim["reason"]),
        waited: victim["waited_s"].as_f64().expect("a time"),
    }
}

/// Whether the sender waits for its members while it sends.
fn waits(entry: &ProtocolEntry) -> bool {
    entry.confirmed && !entry.roles.contains(&Role::Peer)
}

/// At this many megabits in a second, a rest that takes a second or two.
fn rest(rate: Option<u32>) -> usize {
    rate.map_or(2_000_000, |rate| (rate as usize * 150_000).min(4_000_000))
}

fn kill(entry: &ProtocolEntry, rate: Option<u32>) {
    let end = run(entry.name, rate, 2, Fault::Kill, rest(rate));
    println!("{} at {rate:?} Mbit/s: {end:?}", entry.name);
    assert_eq!((end.code, end.verified, &*end.outcome), (Some(1), 2, "lost"), "{} {end:?}", entry.name);
    assert_eq!(end.reason, "silent for 2 s", "{}", entry.name);
    let sending = Duration::from_secs(2);
    // One receiver after the other takes so many times as long.
    let serial = REGISTRY.iter().any(|other| other.unicast_equivalent == Some(entry.name));
    let sending = if serial { sending * RECEIVERS as u32 } else { sending };
    assert!(end.took < Duration::from_secs(2) + LATE + BUSY + sending, "{} {end:?}", entry.name);
    assert!(end.waited <= 3.0, "{} {end:?}", entry.name);
}

fn freeze(entry: &ProtocolEntry, rate: Option<u32>) {
    let end = run(entry.name, rate, 5, Fault::Freeze(Duration::from_secs(3)), rest(rate));
    println!("{} at {rate:?} Mbit/s: {end:?}", entry.name);
    assert_eq!((end.code, end.verified), (Some(0), 3), "{} {end:?}", entry.name);
    assert!(end.waited <= 4.5, "{} {end:?}", entry.name);
}

fn trickle(entry: &ProtocolEntry) {
    // With 1.8 of 2 s it is always heard in time.
    let end = run(entry.name, Some(20), 2, Fault::Trickle(Duration::from_millis(1700)), 4_000_000);
    println!("{}: {end:?}", entry.name);
    assert!(end.verified >= 2, "{} {end:?}", entry.name);
    if waits(entry) {
        // It may also have got everything by then: it gets much at once.
        assert!(end.took < Duration::from_secs(4 * 2) + LATE + BUSY + REST, "{} {end:?}", entry.name);
    }
}

fn entry(name: &str) -> &'static ProtocolEntry {
    carillon_proto::find(name).expect("the registry has it")
}

#[test]
fn a_killed_receiver_is_given_up_after_the_timeout() {
    need_multicast!();
    for (protocol, rate) in [("mbap", Some(20)), ("msaw", None), ("pgm", Some(20))] {
        kill(entry(protocol), rate);
    }
}

#[test]
fn a_receiver_stopped_for_three_seconds_goes_on() {
    need_multicast!();
    freeze(entry("mbap"), Some(20));
}

#[test]
fn a_receiver_that_runs_now_and_then_does_not_hold_the_others() {
    need_multicast!();
    trickle(entry("mbap"));
}

#[test]
fn the_same_with_every_protocol_at_every_rate() {
    need_multicast!();
    if var("CARILLON_SILENCE").is_err() {
        // No lack of a network, so that it is no failure where networks are expected.
        return println!("the long tier: CARILLON_SILENCE=1");
    }
    let only = var("CARILLON_PROTOCOL").ok();
    for entry in REGISTRY.iter().filter(|entry| only.as_ref().is_none_or(|name| name == entry.name)) {
        for rate in [Some(5), Some(20), Some(100), None] {
            kill(entry, rate);
            freeze(entry, rate);
        }
        trickle(entry);
    }
}
