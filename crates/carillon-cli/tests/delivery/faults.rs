//! Processes that die, leave or start late: they are reported by name, and the other members are not affected.

use std::fs;
use std::time::Duration;

use crate::delivery::support::{Place, files, need_multicast, wait_for_part, wait_until};

/// Rate at which the file takes five seconds, so that a test can act meanwhile on a busy machine too.
const FIVE_SECOND_RATE: &str = "--rate 8Mbit/s";
/// Rate at which the file takes twenty seconds, for transfers that do not complete.
const TWENTY_SECOND_RATE: &str = "--rate 2Mbit/s";
const FILE_BYTES: usize = 5_000_000;

#[test]
fn when_a_receiver_dies_the_others_finish_and_it_is_named() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", FILE_BYTES);
    let mut victim = place.recv("victim").start();
    let others = ["a", "b"].map(|name| place.recv(name).start());
    let sender = place.send("s").arg(&file).args("--receivers 3").args(FIVE_SECOND_RATE).start();
    wait_for_part(&place.path("victim"));
    victim.kill();
    for other in others {
        other.end().expect(0);
    }
    let sender = sender.end().expect(1);
    for name in ["a", "b"] {
        assert_eq!(fs::read(place.path(name).join("f")).unwrap(), fs::read(&file).unwrap());
        assert!(sender.out.lines().any(|line| line.starts_with(name) && line.ends_with("verified")));
    }
    let dead = sender.out.lines().find(|line| line.starts_with("victim")).expect("it is named");
    assert!(dead.contains("lost: "), "{dead}");
    assert!(!place.path("victim/f").exists());
}

#[test]
fn receivers_of_a_killed_sender_fail_in_time_and_clean_up() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", FILE_BYTES);
    let receivers = ["a", "b"].map(|name| place.recv(name).args("--timeout 2").start());
    let mut sender = place.send("s").arg(file).args("--receivers 2").args(TWENTY_SECOND_RATE).start();
    wait_for_part(&place.path("a"));
    wait_for_part(&place.path("b"));
    sender.kill();
    for receiver in receivers {
        receiver.end_within(Duration::from_secs(10)).expect(1).one_line(&["sender", "silent"]);
    }
    for name in ["a", "b"] {
        assert_eq!(files(&place.path(name)).len(), 0);
    }
}

/// A late receiver fails where catch-up sessions are off, and waits for the next session with `--keep-going`.
#[test]
fn late_receiver_is_refused_unless_it_keeps_going() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", FILE_BYTES);
    let receiver = place.recv("a").start();
    let sender =
        place.send("s").arg(file).args("--receivers 1 --rounds 0 --json").args(FIVE_SECOND_RATE).start();
    wait_for_part(&place.path("a"));
    place.recv("late").run().expect(1).one_line(&["started without this receiver", "--keep-going"]);
    let patient = place.recv("patient").arg("--keep-going").start();
    let sender = sender.end().expect(0);
    let told = |list: &[serde_json::Value], key: &str| {
        let mut names: Vec<_> = list.iter().map(|one| one[key].as_str().unwrap_or("").to_owned()).collect();
        names.sort();
        names
    };
    let report = &sender.events("report")[0];
    assert_eq!(report["expected"], 1);
    assert_eq!(told(report["unserved"].as_array().expect("a list"), "name"), ["late", "patient"]);
    assert_eq!(told(&sender.events("unserved"), "receiver"), ["late", "patient"]);
    assert_eq!(sender.err.matches("is not served: came after the start").count(), 2, "{}", sender.err);
    receiver.end().expect(0);
    assert_eq!(files(&place.path("patient")).len(), 0);
    place.send("next").arg(place.file("next", 1000)).args("--expect patient").run().expect(0);
    wait_until("it has the file", || place.path("patient/next").exists());
    patient.signal("INT");
    patient.end();
}

#[test]
fn the_whole_agrees_with_its_rows() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", FILE_BYTES);
    let receivers = ["a", "b", "c"].map(|name| place.recv(name).args("--drop 0.03").start());
    let sender = place.send("s").arg(file).args("--receivers 3 --json").run().expect(0);
    for receiver in receivers {
        receiver.end().expect(0);
    }
    let report = &sender.events("report")[0];
    let rows = report["receivers"].as_array().expect("a list");
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    for row in rows {
        assert_eq!(row["bytes"], report["bytes"]);
        assert!(number(&row["repairs"]) <= number(&report["repairs"]), "{report}");
    }
    let longest = rows.iter().map(|row| number(&row["seconds"])).fold(0.0, f64::max);
    assert_eq!(longest, number(&report["seconds"]));
    assert!(number(&report["repairs"]) > 0.0, "{report}");
}

/// Name of the hangup signal. Under nohup child processes ignore it, so it is another signal there.
fn hangup() -> &'static str {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    let ignored = u64::from_str_radix(ignored.trim(), 16).expect("a bit for each signal");
    if ignored & 1 == 0 { "HUP" } else { "TERM" }
}

#[test]
fn an_interrupted_sender_ends_its_receivers_at_once() {
    need_multicast!();
    for signal in ["INT", "TERM", hangup()] {
        let place = Place::new();
        let file = place.file("f", FILE_BYTES);
        let receivers = ["a", "b"].map(|name| place.recv(name).args("--timeout 50").start());
        let sender = place.send("s").arg(file).args("--receivers 2").args(TWENTY_SECOND_RATE).start();
        wait_for_part(&place.path("a"));
        wait_for_part(&place.path("b"));
        sender.signal(signal);
        let sender = sender.end_within(Duration::from_secs(10)).expect(1);
        assert!(sender.err.contains("interrupted"), "{}", sender.err);
        assert!(sender.out.contains("a (127.0.0.1:"), "{}", sender.out);
        for receiver in receivers {
            receiver.end_within(Duration::from_secs(10)).expect(1).one_line(&["aborted", "interrupted"]);
        }
        assert_eq!((files(&place.path("a")).len(), files(&place.path("b")).len()), (0, 0));
    }
}

#[test]
fn a_signal_does_not_take_the_report_away() {
    need_multicast!();
    for signals in [["INT", "INT"], [hangup(), "TERM"]] {
        let place = Place::new();
        let file = place.file("f", FILE_BYTES);
        let receiver = place.recv("a").args("--timeout 50 --json").start();
        let idle = place.recv("idle").args("--json").start();
        let elsewhere = Place::new();
        let going = elsewhere.recv("going").args("--keep-going --json").start();
        let sender = place.send("s").arg(file).args("--expect a --json").args(TWENTY_SECOND_RATE).start();
        wait_for_part(&place.path("a"));
        // The unexpected receiver is declined, so the first sender has named it.
        assert_eq!(idle.end_within(Duration::from_secs(10)).expect(1).events("report").len(), 1);
        for signal in signals {
            receiver.signal(signal);
            sender.signal(signal);
        }
        let [receiver, sender] =
            [receiver, sender].map(|end| end.end_within(Duration::from_secs(10)).expect(1));
        let report = &receiver.events("report")[0];
        assert_eq!(report["outcome"], "failed");
        assert!(report["reason"].as_str().is_some_and(|why| why.contains("interrupted")), "{report}");
        let report = &sender.events("report")[0];
        assert_eq!(report["receivers"][0]["name"], "a");
        going.signal(signals[0]);
        let end = going.end_within(Duration::from_secs(10)).events("end");
        assert_eq!((&end[0]["transfers"], &end[0]["failed"]), (&0.into(), &0.into()));
    }
}

#[test]
fn a_receiver_that_is_interrupted_while_it_waits_says_so() {
    let place = Place::new();
    let waiting = place.recv("a").args("--json").start();
    wait_until("it runs", || place.path("a").is_dir());
    // The process installs its signal handler soon after this line.
    std::thread::sleep(Duration::from_millis(300));
    waiting.signal("INT");
    let ended = waiting.end().expect(1).one_line(&["interrupted while it waited for a sender"]);
    assert_eq!(ended.events("report")[0]["outcome"], "failed");
}

#[test]
fn names_of_members_cannot_control_the_terminal() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("evil\u{202e}gpj", 1000);
    fs::create_dir_all(place.path("a")).unwrap();
    fs::write(place.path("a/evil\u{202e}gpj"), "").unwrap();
    let receiver = place.bare("recv", "a").arg("--out").arg(place.path("a")).args("--interface lo --group");
    let receiver = receiver.arg(place.group.to_string()).arg("--name").arg("r\u{202e}x").start();
    let json = place.recv("b").args("--json").start();
    let sender = place.send("s").arg(&file).args("--receivers 2").run().expect(1);
    let ended = receiver.end().expect(2).one_line(&["evil\\u{202e}gpj"]);
    let json = json.end().expect(0);
    assert_eq!(json.events("file")[0]["path"], "evil\u{202e}gpj");
    for text in [&ended.err, &sender.out, &sender.err, &json.out] {
        assert!(!text.contains('\u{202e}'), "{text:?}");
    }
    // The session has already replaced the characters that a name may not contain.
    assert!(sender.out.contains("exists: give --overwrite"), "{}", sender.out);
}

#[test]
fn an_interrupted_receiver_tells_the_sender_and_leaves_nothing() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", FILE_BYTES);
    let [quitter, other] = ["quitter", "other"].map(|name| place.recv(name).start());
    let sender = place.send("s").arg(file).args("--receivers 2").args(FIVE_SECOND_RATE).start();
    wait_for_part(&place.path("quitter"));
    quitter.signal("INT");
    quitter.end_within(Duration::from_secs(10)).expect(1).one_line(&["interrupted"]);
    assert_eq!(files(&place.path("quitter")).len(), 0);
    other.end().expect(0);
    let sender = sender.end().expect(1);
    let line = sender.out.lines().find(|line| line.starts_with("quitter")).expect("it is named");
    assert!(line.contains("failed: left"), "{line}");
}

#[test]
fn receivers_that_do_not_come_are_named() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 1000);
    let receiver = place.recv("here").start();
    let line = "--expect here,gone,away --join-timeout 2 --all-or-nothing";
    let sender = place.send("s").arg(&file).args(line).run().expect(1);
    assert!(sender.err.contains("away, gone did not join"), "{}", sender.err);
    receiver.end().expect(1);
    let sender = place.send("s").arg(&file).args("--join-timeout 0.5").run().expect(1);
    sender.one_line(&["no receiver joined"]);
    let sender = place.send("s").arg(&file).args("--expect gone --join-timeout 0.5").run().expect(1);
    sender.one_line(&["gone did not join within 500 ms"]);
}

#[test]
fn joined_receivers_are_served_without_missing_ones() {
    need_multicast!();
    for (line, said, rows, missing) in [
        (
            "--expect here,gone,away --join-timeout 2",
            "away, gone did not join within 2 s: sending to 1 of 3",
            3,
            2,
        ),
        ("--expect here,gone --wait 1", "gone did not join within", 2, 1),
        ("--receivers 3 --join-timeout 2", "2 did not join within 2 s: sending to 1 of 3", 1, 2),
    ] {
        let place = Place::new();
        let file = place.file("f", 1000);
        let receiver = place.recv("here").start();
        let sender = place.send("s").arg(&file).args(line).args("--json").run().expect(1);
        assert!(sender.err.contains(said), "{line}: {}", sender.err);
        receiver.end().expect(0);
        let report = sender.events("report").pop().expect("a report");
        let outcomes = report["receivers"].as_array().expect("rows");
        assert!(outcomes.len() == rows && outcomes[0]["outcome"] == "verified", "{report}");
        assert!(outcomes[1..].iter().all(|one| one["outcome"] == "missing"), "{report}");
        assert_eq!(report["missing"], missing, "{report}");
    }
}

#[test]
fn a_missing_receiver_that_joins_late_is_served() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 3_000_000);
    let receiver = place.recv("here").start();
    let line = "--expect here,late --wait 1 --rate 16Mbit/s --json";
    let mut sender = place.send("s").arg(&file).args(line).start();
    wait_until("it starts", || sender.is_over() || sender.out().contains("\"missing\""));
    let late = place.recv("late").start();
    let report = sender.end().expect(0).events("report").pop().expect("a report");
    receiver.end().expect(0);
    late.end().expect(0);
    assert_eq!((&report["missing"], &report["sessions"]), (&0.into(), &2.into()), "{report}");
}
