//! `recv --exec`: a command after each transfer; `recv --sync`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::delivery::support::{Place, need_multicast, wait_until};
use crate::netns::process::Ended;

/// A script that keeps its environment and input, and ends with this line.
fn script(place: &Place, last: &str) -> PathBuf {
    let path = place.path("script");
    let seen = place.path("seen").display().to_string();
    fs::create_dir_all(place.path("")).expect("a directory");
    let text = format!("#!/bin/sh\nenv | grep ^CARILLON >> {seen}\ncat >> {seen}\necho run\n{last}\n");
    fs::write(&path, text).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
    path
}

fn seen(place: &Place) -> String {
    fs::read_to_string(place.path("seen")).unwrap_or_default()
}

fn transfer(place: &Place, last: &str, recv: &str) -> (Ended, Ended) {
    let script = script(place, last);
    let files = [place.file("one", 1000), place.file("a\nb", 500_000)];
    let receiver = place.recv("a").args("--json").args(recv).arg("--exec").arg(script).start();
    let sent = place.send("s").args("--receivers 1 --json --name me").arg(&files[0]).arg(&files[1]).start();
    (sent.end(), receiver.end())
}

fn reason(sent: &Ended) -> String {
    let report = sent.events("report").pop().expect("a report");
    assert_eq!(report["receivers"][0]["outcome"], "failed", "{report}");
    report["receivers"][0]["reason"].as_str().expect("a reason").to_owned()
}

#[test]
fn command_learns_what_arrived() {
    need_multicast!();
    let place = Place::new();
    let (sent, came) = transfer(&place, "exit 0", "--sync");
    sent.expect(0);
    let came = came.expect(0);
    // Its output does not mix with the report.
    assert!(came.err.contains("run") && !came.out.contains("run\n"), "{}", came.out);
    let seen = seen(&place);
    for line in
        ["CARILLON_RESULT=verified", "CARILLON_SENDER=me", "CARILLON_FILES=2", "CARILLON_BYTES=501000"]
    {
        assert!(seen.lines().any(|found| found == line), "{line}: {seen}");
    }
    let out = format!("CARILLON_OUT={}", place.path("a").display());
    assert!(seen.lines().any(|found| found == out), "{out}: {seen}");
    let digest = |name: &str| blake3::hash(&fs::read(place.path(name)).expect("a file")).to_string();
    assert!(seen.contains(&format!("\n{}  one\n", digest("one"))), "{seen}");
    assert!(seen.contains(&format!("\n\\{}  a\\nb\n", digest("a\nb"))), "{seen}");
}

#[test]
fn failing_command_shows_at_both_ends() {
    need_multicast!();
    let place = Place::new();
    let (sent, came) = transfer(&place, "exit 7", "");
    let text = format!(
        "everything arrived and is verified, but the command {} ended with exit code 7",
        place.path("script").display()
    );
    assert_eq!(reason(&sent.expect(1)), text);
    assert!(came.expect(1).err.contains(&text));
    assert_eq!(seen(&place).matches("CARILLON_RESULT").count(), 1);
    assert!(place.path("a/one").exists());
}

#[test]
fn hanging_command_is_killed_with_its_children() {
    need_multicast!();
    let place = Place::new();
    let start = Instant::now();
    let pid = place.path("pid");
    let last = format!("sleep 1000 & echo $! > {}; wait", pid.display());
    let (sent, came) = transfer(&place, &last, "--exec-timeout 1");
    assert!(reason(&sent.expect(1)).contains("did not end within 1 s and was killed"));
    came.expect(1);
    assert!(start.elapsed() < Duration::from_secs(30));
    let pid = fs::read_to_string(pid).expect("it began").trim().to_owned();
    wait_until("the child lives", || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    });
}

#[test]
fn command_that_cannot_run_fails_the_transfer() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("one", 10);
    let receiver = place.recv("a").args("--exec /nonexistent/program").start();
    let sent = place.send("s").args("--receivers 1 --json").arg(&file).run().expect(1);
    receiver.end().expect(1);
    assert!(reason(&sent).contains("/nonexistent/program cannot be started"));
    place.recv("b").args("--exec").arg("'x").run().expect(2);
    place.recv("b").args("--exec").arg("").run().expect(2);
}

/// A catch-up session for another receiver belongs to the same job.
#[test]
fn service_runs_the_command_once_per_job() {
    need_multicast!();
    let place = Place::new();
    let script = script(&place, "exit 3");
    let file = place.file("one", 3 << 20);
    let service = place.recv("a").args("--keep-going --exec").arg(script).start();
    let sender = place.send("s").args("--expect a,b --wait 1 --rate 10Mbit/s").arg(&file).start();
    wait_until("nothing arrives", || fs::read_dir(place.path("a")).is_ok_and(|mut all| all.next().is_some()));
    std::thread::sleep(Duration::from_millis(1500));
    let late = place.recv("b").start();
    sender.end().expect(1);
    late.end().expect(0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(seen(&place).matches("CARILLON_RESULT=verified").count(), 1, "{}", seen(&place));
    service.signal("TERM");
    service.end().expect(0);
}

/// A failed transfer runs the command too, and fails as before.
#[test]
fn failed_transfer_runs_it_too() {
    need_multicast!();
    let place = Place::new();
    let script = script(&place, "exit 0");
    let file = place.file("one", 10);
    fs::create_dir_all(place.path("a")).expect("a directory");
    fs::write(place.path("a/one"), b"the receiver's").expect("a file");
    let receiver = place.recv("a").args("--exec").arg(script).start();
    place.send("s").args("--receivers 1 --rounds 0").arg(&file).run().expect(1);
    receiver.end().expect(2);
    assert!(seen(&place).contains("CARILLON_RESULT=failed"), "{}", seen(&place));
}
