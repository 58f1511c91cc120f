//! Live streams with receivers that join late, are started again, or are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::delivery::support::{Ended, Job, Place, Running, need_multicast, wait_until_or};

/// A sender of a live stream, with a program that writes a numbered line every few milliseconds.
struct Producer {
    running: Running,
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<u64>,
}

impl Producer {
    fn start(place: &Place, flags: &str) -> Producer {
        let job = place.send("s").args("- --stream --json --timeout 1 --datagram 1472").args(flags);
        let mut running = job.start_fed();
        let mut input = running.take_input();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = thread::spawn(move || {
            let mut lines = 0;
            while !asked.load(Ordering::Relaxed) {
                use std::io::Write as _;
                if writeln!(input, "{lines}").is_err() {
                    break;
                }
                lines += 1;
                thread::sleep(Duration::from_millis(5));
            }
            lines
        });
        Producer { running, stop, thread }
    }

    /// Ends the stream. Returns the number of its lines, and the end of the sender.
    fn end(self) -> (u64, Ended) {
        self.stop.store(true, Ordering::Relaxed);
        let lines = self.thread.join().expect("it writes lines");
        (lines, self.running.end())
    }
}

fn receiver(place: &Place, name: &str) -> Job {
    place.job("recv", name).args("--stream --timeout 3 --name").arg(name)
}

/// Numbers in the lines of an output.
fn numbers(out: &str) -> Vec<u64> {
    out.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{line:?} is a number"))).collect()
}

fn wait_for_lines(what: &str, receiver: &Running, count: usize) {
    wait_until_or(what, || receiver.err(), || receiver.out().lines().count() >= count);
}

#[track_caller]
fn assert_all(ended: &Ended, lines: u64) {
    assert!(numbers(&ended.out).into_iter().eq(0..lines), "each line once and in order: {}", ended.out);
}

/// Row of the report of a receiver.
fn row(sent: &Ended, name: &str) -> Value {
    let report = sent.events("report").pop().unwrap_or_else(|| panic!("no report: {}{}", sent.out, sent.err));
    let rows = report["receivers"].as_array().expect("a list");
    let rows: Vec<&Value> = rows.iter().filter(|row| row["name"] == name).collect();
    assert_eq!(rows.len(), 1, "{report}");
    rows[0].clone()
}

/// Checks a receiver that missed the first lines, and its row. Returns the first line that it got.
#[track_caller]
fn assert_late(sent: &Ended, late: &Ended, name: &str, lines: u64) -> u64 {
    let came = numbers(&late.out);
    let first = came[0];
    assert!(came.into_iter().eq(first..lines), "{}", late.out);
    let row = row(sent, name);
    assert_eq!(row["outcome"], "verified", "{row}");
    assert_eq!((&row["first_message"], &row["missed_messages"]), (&first.into(), &first.into()), "{row}");
    first
}

#[test]
fn late_receiver_of_a_stream_continues_from_now() {
    need_multicast!();
    let place = Place::new();
    let early = receiver(&place, "a").start();
    let sender = Producer::start(&place, "--receivers 1");
    wait_for_lines("the stream runs", &early, 50);
    let before = early.out().lines().count() as u64;
    let late = receiver(&place, "b").start();
    wait_for_lines("the late receiver is let in", &late, 50);
    let (lines, sent) = sender.end();
    let (sent, early, late) = (sent.expect(0), early.end().expect(0), late.end().expect(0));
    assert_all(&early, lines);
    let first = assert_late(&sent, &late, "b", lines);
    assert!(first >= before, "{first} is after {before}");
    assert!(late.err.contains(&format!("from message {first} on, missed {first}")), "{}", late.err);
    assert_eq!(row(&sent, "a")["missed_messages"], 0);
    assert_eq!(sent.events("report")[0]["messages"], lines);
    assert_eq!(sent.events("late")[0]["receiver"], "b");
}

#[test]
fn late_receiver_of_a_stream_gets_its_history() {
    need_multicast!();
    let place = Place::new();
    let drop = |job: Job, seed: u32| job.args(&format!("--drop 0.05 --seed {seed}"));
    let early = drop(receiver(&place, "a"), 1).start();
    let sender = Producer::start(&place, "--receivers 1 --history 1MiB --drop 0.05 --seed 3");
    wait_for_lines("the stream runs", &early, 200);
    let late = drop(receiver(&place, "b"), 2).start();
    wait_for_lines("the late receiver is let in", &late, 250);
    let (lines, sent) = sender.end();
    let sent = sent.expect(0);
    assert_all(&early.end().expect(0), lines);
    assert_all(&late.end().expect(0), lines);
    let row = row(&sent, "b");
    assert_eq!((&row["first_message"], &row["missed_messages"]), (&0.into(), &0.into()), "{row}");
}

#[test]
fn history_of_a_stream_is_bounded() {
    need_multicast!();
    let place = Place::new();
    let early = receiver(&place, "a").start();
    // A line of up to 4 bytes takes up to 36.
    let sender = Producer::start(&place, "--receivers 1 --history 720B");
    wait_for_lines("the stream runs", &early, 200);
    let late = receiver(&place, "b").start();
    wait_for_lines("the late receiver is let in", &late, 50);
    let (lines, sent) = sender.end();
    let (sent, late) = (sent.expect(0), late.end().expect(0));
    assert_all(&early.end().expect(0), lines);
    assert!(assert_late(&sent, &late, "b", lines) >= 180);
}

/// Starts a stream to the receivers `a` and `b`, and kills `b`. Returns `a` and the sender.
fn stream_with_killed_receiver(place: &Place) -> (Running, Producer) {
    let (other, mut killed) = (receiver(place, "a").start(), receiver(place, "b").start());
    let sender = Producer::start(place, "--receivers 2");
    wait_for_lines("the stream runs", &killed, 50);
    killed.kill();
    (other, sender)
}

#[test]
fn killed_receiver_of_a_stream_continues_when_started_again() {
    need_multicast!();
    let place = Place::new();
    let (other, sender) = stream_with_killed_receiver(&place);
    let again = receiver(&place, "b").start();
    wait_for_lines("it is let in again", &again, 50);
    let (lines, sent) = sender.end();
    let sent = sent.expect(0);
    assert_all(&other.end().expect(0), lines);
    assert_late(&sent, &again.end().expect(0), "b", lines);
    assert_eq!(row(&sent, "b")["restarts"], 1);
}

#[test]
fn killed_receiver_of_a_stream_that_stays_away_is_lost() {
    need_multicast!();
    let place = Place::new();
    let (other, sender) = stream_with_killed_receiver(&place);
    // Another one comes late meanwhile, so the stream has two sessions.
    let late = receiver(&place, "c").start();
    wait_for_lines("the late receiver is let in", &late, 50);
    let (lines, sent) = sender.end();
    let sent = sent.expect(1);
    assert_all(&other.end().expect(0), lines);
    assert_late(&sent, &late.end().expect(0), "c", lines);
    assert_eq!(row(&sent, "b")["outcome"], "lost");
}

/// The service stays in the stream across its sessions, and serves the next stream from its start.
#[test]
fn service_follows_a_stream_with_late_receivers() {
    need_multicast!();
    let place = Place::new();
    let service = receiver(&place, "a").arg("--keep-going").start();
    let mut all = 0;
    for _ in 0..2 {
        let sender = Producer::start(&place, "--receivers 1");
        wait_for_lines("the stream runs", &service, all + 50);
        let late = receiver(&place, "b").start();
        wait_for_lines("the late receiver is let in", &late, 20);
        let (lines, sent) = sender.end();
        sent.expect(0);
        late.end().expect(0);
        wait_for_lines("the service has all", &service, all + lines as usize);
        let came = numbers(&service.out());
        assert!(came[all..].iter().copied().eq(0..lines), "{}", service.out());
        all += lines as usize;
    }
    service.signal("TERM");
    service.end().expect(0);
}

/// A service that starts late waits for the stream that runs.
#[test]
fn late_service_is_let_into_a_stream() {
    need_multicast!();
    let place = Place::new();
    let early = receiver(&place, "a").start();
    let sender = Producer::start(&place, "--receivers 1 --protocol msaw");
    wait_for_lines("the stream runs", &early, 50);
    let service = receiver(&place, "b").arg("--keep-going").start();
    wait_for_lines("the service is let in", &service, 50);
    let (lines, sent) = sender.end();
    sent.expect(0);
    assert_all(&early.end().expect(0), lines);
    service.signal("TERM");
    let came = numbers(&service.end().expect(0).out);
    assert!(came.iter().copied().eq(came[0]..lines) && came[0] >= 50, "{came:?}");
}

#[test]
fn late_receiver_is_refused_where_no_session_may_follow() {
    need_multicast!();
    let place = Place::new();
    for flags in ["--receivers 1 --rounds 0", "--receivers 1 --protocol pgm"] {
        let early = receiver(&place, "a").start();
        let sender = Producer::start(&place, flags);
        wait_for_lines("the stream runs", &early, 50);
        let refused = receiver(&place, "b").run().expect(1);
        assert!(refused.err.contains("started without this receiver"), "{}", refused.err);
        let (lines, sent) = sender.end();
        sent.expect(0);
        assert_all(&early.end().expect(0), lines);
    }
    let refused = |flags: &str| place.send("s").args("--stream -").args(flags).run().expect(2).err;
    assert!(refused("--history 1MiB --protocol pgm").contains("leave out --history"));
    assert!(refused("--history 5").contains("expected a size"));
}
