//! Live streams of one sender.

use std::fs;
use std::path::PathBuf;

use crate::delivery::support::{Ended, Job, Place, need_multicast, wait_until};

fn receiver(place: &Place, name: &str, drop: &str) -> Job {
    place.job("recv", name).args("--stream --json --drop").arg(drop)
}

/// Writes a file with lines for some hundred messages of the protocol.
fn lines(place: &Place) -> PathBuf {
    let path = place.path("input");
    let text: String = (0..LINES).map(|line| format!("{line:0199}\n")).collect();
    fs::write(&path, text).unwrap();
    path
}

/// Numbers of the received messages, in order of arrival.
fn numbers(ended: &Ended) -> Vec<u64> {
    let number = |event: &serde_json::Value| {
        let number = event["number"].as_u64().expect("a number");
        assert_eq!(event["text"], format!("{number:0199}\n"));
        number
    };
    ended.events("message").iter().map(number).collect()
}

#[test]
fn a_live_stream_needs_no_peers() {
    need_multicast!();
    let place = Place::new();
    let receiver = place.job("recv", "r").arg("--stream").start();
    let mut sender = place.send("s").args("- --stream --receivers 1 --protocol mbap").start_fed();
    let mut said = String::new();
    for line in ["one\n", "\n", "three"] {
        sender.feed(line);
        said += line;
        // A line is sent when its newline has arrived.
        wait_until("it came", || receiver.out() == said || line == "three");
    }
    sender.close();
    sender.end().expect(0);
    assert_eq!(receiver.end().expect(0).out, said);
}

#[test]
fn live_messages_may_come_as_they_will_each_once() {
    need_multicast!();
    let place = Place::new();
    let receivers = ["r1", "r2"].map(|name| receiver(&place, name, "0.1").start());
    let sender = place.send("s").args("- --stream --unordered --receivers 2 --datagram 1472");
    sender.input(&lines(&place)).run().expect(0);
    for receiver in receivers {
        let ended = receiver.end().expect(0);
        let mut numbers = numbers(&ended);
        assert!(!numbers.is_sorted(), "a tenth was lost, and none waited for it");
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..LINES));
        let report = ended.events("report").remove(0);
        assert_eq!((&report["messages"], report["digest"].is_null()), (&LINES.into(), true), "{report}");
    }
}

#[test]
fn lost_live_messages_are_counted_in_the_report() {
    need_multicast!();
    let place = Place::new();
    let receiver = receiver(&place, "r", "0.05").start();
    let sender =
        place.send("s").args("- --stream --unordered --receivers 1 --datagram 1472 --set feedback=none");
    sender.arg("--set").arg("rate=40 Mbit/s").input(&lines(&place)).run().expect(1);
    let ended = receiver.end().expect(1);
    let numbers = numbers(&ended);
    let came = numbers.len() as u64;
    let report = ended.events("report").remove(0);
    assert!(came < LINES && report["messages"] == came, "{report}");
    let reason = report["reason"].as_str().expect("a reason");
    let lost = (0..LINES).find(|number| !numbers.contains(number)).expect("something is lost");
    let told = format!("the stream is incomplete: {came} of {LINES} messages arrived, missing: {lost}");
    // The end may be lost too. Then the sender has expelled the receiver, which never reported completion.
    assert!(reason.starts_with(&told) || reason.contains("given this receiver up"), "{reason}");
}

#[test]
fn what_has_to_come_in_order_does() {
    let place = Place::new();
    let file = place.file("f", 1);
    place
        .send("s")
        .args("--set order=arrival")
        .arg(&file)
        .run()
        .expect(2)
        .one_line(&["ordered delivery", "live stream"]);
    let refused = |flags: &str| place.send("s").args(flags).run().expect(2).err;
    assert!(refused("--unordered -").contains("--stream"));
    assert!(refused("--unordered --stream --protocol mbap -").contains("\"mbap\" delivers in order"));
}

const LINES: u64 = 3000;
