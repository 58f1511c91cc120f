//! Catch-up sessions: a receiver that starts late, is stopped, killed or interrupted is served in one, and continues
//! from the data that it has.

use std::fs;
use std::path::Path;

use crate::delivery::support::{Place, files, need_multicast, wait_until};
use crate::netns::process::{Ended, Running};

const BYTES: usize = 6_000_000;
/// Bytes that a receiver keeps at least if it is killed in the middle: those up to the last piece in its journal.
const NEARLY_HALF: u64 = BYTES as u64 * 45 / 100;
/// Flags with which the file of [`BYTES`] takes two seconds.
const SLOW_FLAGS: &str = "--rate 24Mbit/s --timeout 2 --json";
/// Bytes of a file that exceeds the socket buffers of a stopped receiver.
const LARGE_FILE_BYTES: usize = 24_000_000;
/// Flags with which the large file takes four seconds, with datagrams of a network with frames of 1500 bytes.
const LARGE_FILE_FLAGS: &str = "--rate 48Mbit/s --timeout 2 --datagram 1472 --json";
const FAST_FLAGS: &str = "--rate 96Mbit/s --timeout 2 --json";

/// Total size of the partial files in a directory, in bytes.
fn partial_bytes(directory: &Path) -> u64 {
    let sizes = files(directory).into_keys().filter(|name| name.ends_with(".part"));
    sizes.filter_map(|name| fs::metadata(directory.join(name)).ok()).map(|found| found.len()).sum()
}

fn wait_for_half(place: &Place, name: &str) {
    wait_for_share(place, name, 2);
}

/// Waits until one part in `part` of the file has arrived. On a busy machine a process may be scheduled only after a
/// second.
fn wait_for_share(place: &Place, name: &str, part: u64) {
    let some = fs::metadata(place.path("f")).unwrap().len() / part;
    wait_until("some of it came", || partial_bytes(&place.path(name)) > some);
}

#[track_caller]
fn assert_delivered(place: &Place, names: &[&str]) {
    let sent = fs::read(place.path("f")).unwrap();
    for name in names {
        let found = files(&place.path(name));
        assert!(found.len() == 1 && found["f"] == blake3::hash(&sent), "{name}: {found:?}");
    }
}

fn start(place: &Place, names: &[&str], more: &str) -> (Running, Vec<Running>) {
    start_with(place, names, (BYTES, SLOW_FLAGS), more)
}

fn start_with(
    place: &Place,
    names: &[&str],
    (bytes, pace): (usize, &str),
    more: &str,
) -> (Running, Vec<Running>) {
    let file = place.file("f", bytes);
    let receiving = names.iter().map(|name| place.recv(name).args("--json").start()).collect();
    let line = format!("--receivers {} {pace} {more}", names.len());
    (place.send("s").arg(file).args(&line).start(), receiving)
}

/// Bytes sent, with headers and repairs, as a multiple of the file size.
fn sent_ratio(ended: &Ended) -> f64 {
    report(ended)["bytes_sent"].as_f64().expect("a number") / LARGE_FILE_BYTES as f64
}

fn report(ended: &Ended) -> serde_json::Value {
    ended.events("report").pop().unwrap_or_else(|| panic!("no report: {}{}", ended.out, ended.err))
}

#[test]
fn late_receiver_is_served_next() {
    need_multicast!();
    let place = Place::new();
    let (sender, receiving) = start(&place, &["a"], "");
    wait_for_share(&place, "a", 10);
    let late = place.recv("late").start();
    let sent = sender.end().expect(0);
    receiving.into_iter().for_each(|one| drop(one.end().expect(0)));
    late.end().expect(0).one_line(&["a session is running: a catch-up session will serve this receiver"]);
    assert_delivered(&place, &["a", "late"]);
    let report = report(&sent);
    assert_eq!((&report["sessions"], &report["receivers"][1]["name"]), (&2.into(), &"late".into()));
    assert_eq!(sent.events("further")[0]["receivers"][0], "late");
}

/// A waiting receiver overhears more than half of the file. Part of that is sent again, since the sender learns late
/// that the receiver has it.
#[test]
fn late_receiver_keeps_overheard_data() {
    need_multicast!();
    let place = Place::new();
    let (sender, receiving) = start_with(&place, &["a"], (LARGE_FILE_BYTES, LARGE_FILE_FLAGS), "");
    wait_until("some of it came", || partial_bytes(&place.path("a")) > LARGE_FILE_BYTES as u64 / 8);
    let late = ["late", "later"].map(|name| place.recv(name).start());
    let sent = sender.end().expect(0);
    receiving.into_iter().chain(late).for_each(|one| drop(one.end().expect(0)));
    assert_delivered(&place, &["a", "late", "later"]);
    let share = sent_ratio(&sent);
    assert!((1.1..1.6).contains(&share), "{share} of the file was sent");
}

/// The receiver keeps overheard data also if it is killed while it waits.
#[test]
fn killed_waiting_receiver_keeps_overheard_data() {
    need_multicast!();
    let place = Place::new();
    let (sender, receiving) = start_with(&place, &["a"], (LARGE_FILE_BYTES, LARGE_FILE_FLAGS), "");
    wait_until("some of it came", || partial_bytes(&place.path("a")) > LARGE_FILE_BYTES as u64 / 16);
    let mut killed = place.recv("late").start();
    wait_until("most of it came", || partial_bytes(&place.path("late")) > LARGE_FILE_BYTES as u64 * 3 / 4);
    killed.kill();
    drop(killed);
    let again = place.recv("late").start();
    let sent = sender.end().expect(0);
    receiving.into_iter().chain([again]).for_each(|one| drop(one.end().expect(0)));
    assert_delivered(&place, &["a", "late"]);
    let share = sent_ratio(&sent);
    assert!((1.05..1.7).contains(&share), "{share} of the file was sent");
}

#[test]
fn late_receiver_is_refused_without_catch_up_sessions() {
    need_multicast!();
    let place = Place::new();
    let (sender, receiving) = start(&place, &["a"], "--rounds 0");
    wait_for_share(&place, "a", 10);
    place.recv("late").run().expect(1).one_line(&["started without this receiver"]);
    let report = report(&sender.end().expect(0));
    assert_eq!((&report["sessions"], &report["unserved"][0]["name"]), (&1.into(), &"late".into()));
    receiving.into_iter().for_each(|one| drop(one.end().expect(0)));
}

#[test]
fn a_receiver_that_is_killed_and_started_again_goes_on() {
    need_multicast!();
    let place = Place::new();
    let (sender, mut receiving) = start(&place, &["a", "b"], "");
    wait_for_half(&place, "b");
    let mut killed = receiving.remove(1);
    killed.kill();
    drop(killed);
    let again = place.recv("b").args("--json").start();
    let sent = report(&sender.end().expect(0));
    receiving.remove(0).end().expect(0);
    let got = report(&again.end().expect(0));
    assert_delivered(&place, &["a", "b"]);
    assert!(got["resumed"].as_u64() > Some(NEARLY_HALF), "{got}");
    assert_eq!(sent["sessions"], 2);
}

#[test]
fn when_all_are_killed_and_started_again_little_is_sent_again() {
    need_multicast!();
    let place = Place::new();
    let (sender, receiving) = start(&place, &["a", "b"], "");
    ["a", "b"].iter().for_each(|name| wait_for_half(&place, name));
    for mut one in receiving {
        one.kill();
    }
    let receiving = ["a", "b"].map(|name| place.recv(name).args("--json").start());
    let sent = sender.end().expect(0);
    let got = receiving.map(|one| report(&one.end().expect(0)));
    assert_delivered(&place, &["a", "b"]);
    for one in &got {
        assert!(one["resumed"].as_u64() > Some(NEARLY_HALF), "{one}");
    }
    assert_eq!(report(&sent)["sessions"], 2, "{}", sent.out);
}

#[test]
fn a_sender_that_is_killed_and_started_again_goes_on() {
    need_multicast!();
    let place = Place::new();
    let (mut sender, receiving) = start(&place, &["a", "b"], "");
    ["a", "b"].iter().for_each(|name| wait_for_half(&place, name));
    sender.kill();
    drop(sender);
    for one in receiving {
        let ended = one.end().expect(1);
        assert!(ended.err.contains("are kept: the same command goes on from there"), "{}", ended.err);
    }
    let receiving = ["a", "b"].map(|name| place.recv(name).start());
    let sent =
        place.send("s").arg(place.path("f")).args(&format!("--receivers 2 {SLOW_FLAGS}")).run().expect(0);
    receiving.into_iter().for_each(|one| drop(one.end().expect(0)));
    assert_delivered(&place, &["a", "b"]);
    let report = report(&sent);
    assert!(report["resumed"].as_u64() > Some(NEARLY_HALF), "{report}");
    assert!(report["bytes_sent"].as_u64() < Some(BYTES as u64 * 55 / 100), "{report}");
}

/// The receivers continue without intervention.
#[test]
fn receivers_continue_with_an_immediately_restarted_sender() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", BYTES);
    let receiving = ["a", "b"].map(|name| place.recv(name).args("--json --timeout 30").start());
    let again = format!("--receivers 2 {SLOW_FLAGS}");
    let mut sender = place.send("s").arg(&file).args(&again).start();
    ["a", "b"].iter().for_each(|name| wait_for_half(&place, name));
    sender.kill();
    drop(sender);
    let sent = place.send("s").arg(&file).args(&again).run().expect(0);
    for one in receiving {
        let got = report(&one.end().expect(0));
        assert!(got["resumed"].as_u64() > Some(NEARLY_HALF), "{got}");
    }
    assert_delivered(&place, &["a", "b"]);
    assert!(report(&sent)["bytes_sent"].as_u64() < Some(BYTES as u64 * 55 / 100), "{}", sent.out);
}

#[test]
fn stopped_receiver_is_served_after_it_continues() {
    need_multicast!();
    let place = Place::new();
    let (mut sender, receiving) = start_with(&place, &["a", "b", "c"], (LARGE_FILE_BYTES, FAST_FLAGS), "");
    wait_for_half(&place, "b");
    receiving[1].signal("STOP");
    wait_until("it is missed", || sender.is_over() || sender.out().contains("\"missed\":[\"b\"]"));
    receiving[1].signal("CONT");
    let sent = report(&sender.end().expect(0));
    receiving.into_iter().for_each(|one| drop(one.end().expect(0)));
    assert_delivered(&place, &["a", "b", "c"]);
    assert_eq!(sent["sessions"], 2, "{sent}");
}

#[test]
fn receiver_with_all_data_in_its_socket_reports_later() {
    need_multicast!();
    let place = Place::new();
    // The second half of the file fits into the socket buffer.
    let file = place.file("f", 2_000_000);
    let receiving = ["a", "b"].map(|name| place.recv(name).args("--json").start());
    let line = "--receivers 2 --rate 8Mbit/s --timeout 2 --json";
    let mut sender = place.send("s").arg(file).args(line).start();
    wait_for_half(&place, "b");
    receiving[1].signal("STOP");
    wait_until("it is missed", || sender.is_over() || sender.out().contains("\"missed\":[\"b\"]"));
    receiving[1].signal("CONT");
    let sent = report(&sender.end().expect(0));
    for one in receiving {
        assert_eq!(report(&one.end().expect(0))["acknowledged"], true);
    }
    assert_delivered(&place, &["a", "b"]);
    let verified = sent["receivers"].as_array().unwrap().iter().all(|one| one["outcome"] == "verified");
    assert!(verified, "{sent}");
}

#[test]
fn expelled_receiver_is_not_served_again() {
    need_multicast!();
    let place = Place::new();
    let (sender, receiving) = start_with(&place, &["a", "b"], (LARGE_FILE_BYTES, FAST_FLAGS), "--slow drop");
    // The rest of the file must not fit into the receiver's socket buffer.
    wait_for_share(&place, "b", 10);
    receiving[1].signal("STOP");
    let sent = report(&sender.end().expect(1));
    receiving[1].signal("CONT");
    let lost = sent["receivers"].as_array().unwrap().iter().filter(|one| one["outcome"] == "lost");
    assert!(sent["sessions"] == 1 && lost.map(|one| &one["name"]).eq(["b"]), "{sent}");
    let codes = [0, 1];
    receiving.into_iter().zip(codes).for_each(|(one, code)| drop(one.end().expect(code)));
    assert_delivered(&place, &["a"]);
}

#[test]
fn what_went_to_one_output_is_not_sent_again() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", LARGE_FILE_BYTES);
    let first = place.recv("a").start();
    let piped = place.job("recv", "p").args("--name p --stdout").start();
    let mut sender = place.send("s").arg(file).args(&format!("--receivers 2 {FAST_FLAGS}")).start();
    wait_for_half(&place, "a");
    piped.signal("STOP");
    wait_until("it is missed", || sender.is_over() || sender.out().contains("\"missed\":[\"p\"]"));
    piped.signal("CONT");
    let sent = report(&sender.end().expect(1));
    assert_eq!(sent["sessions"], 2, "{sent}");
    first.end().expect(0);
    piped.end().expect(1);
}
