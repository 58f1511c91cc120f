//! Jobs: each job serves a receiver once, even if several processes of that receiver run.

use std::fs;

use serde_json::Value;

use crate::delivery::support::{Place, files, need_multicast, wait_for_part, wait_until_or};
use crate::netns::process::{Ended, Running};

fn service(place: &Place, name: &str) -> Running {
    place.recv(name).args("--keep-going --json").start()
}

fn report(sent: &Ended) -> Value {
    sent.events("report").pop().unwrap_or_else(|| panic!("no report: {}{}", sent.out, sent.err))
}

/// Names and outcomes of the report's rows, sorted by name.
fn rows(sent: &Ended) -> Vec<(String, String)> {
    let report = report(sent);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = report["receivers"].as_array().expect("rows").iter();
    let mut rows: Vec<_> = rows.map(|row| (text(&row["name"]), text(&row["outcome"]))).collect();
    rows.sort();
    rows
}

/// Number of transfers that a service has reported.
fn reports(service: &Running) -> usize {
    service.out().matches("\"event\":\"report\"").count()
}

fn wait_for_reports(service: &Running, count: usize) {
    let told = || format!("{}\n{}", service.out(), service.err());
    wait_until_or("the service reports", told, || reports(service) >= count);
}

/// Two consecutive jobs. In the first one a receiver is killed and one starts late, so catch-up sessions follow.
#[test]
fn services_are_served_once_by_each_of_two_jobs() {
    need_multicast!();
    let place = Place::new();
    let (first, second) = (place.file("first", 4_000_000), place.file("second", 100_000));
    let services = ["a", "b", "c"].map(|name| service(&place, name));
    let mut killed = service(&place, "killed");
    let sender = place.send("s").arg(&first).args("--receivers 4 --rate 16Mbit/s --timeout 1 --json").start();
    wait_for_part(&place.path("killed"));
    killed.kill();
    drop(killed);
    let late = service(&place, "late");
    let sent = sender.end().expect(1);
    let verified = |name: &str| (name.to_owned(), "verified".to_owned());
    let all = ["a", "b", "c", "late"].map(verified);
    let mut expected = all.to_vec();
    expected.insert(3, ("killed".to_owned(), "lost".to_owned()));
    assert_eq!(rows(&sent), expected, "{}{}", sent.out, sent.err);
    let services: Vec<Running> = services.into_iter().chain([late]).collect();
    services.iter().for_each(|service| wait_for_reports(service, 1));
    let sent = place.send("s").arg(&second).args("--receivers 4 --json").run().expect(0);
    assert_eq!(rows(&sent), all, "{}{}", sent.out, sent.err);
    for (service, name) in services.into_iter().zip(["a", "b", "c", "late"]) {
        wait_for_reports(&service, 2);
        service.signal("TERM");
        let ended = service.end().expect(0);
        assert_eq!(ended.events("report").len(), 2, "{name}: {}{}", ended.out, ended.err);
        assert_eq!(files(&place.path(name)).len(), 2, "{name}");
    }
}

/// The second process waits for the next job, and reports that.
#[test]
fn the_next_process_of_one_output_gets_the_next_job() {
    need_multicast!();
    let place = Place::new();
    let write = |name: &str, text: String| {
        fs::write(place.path(name), text).unwrap();
        place.path(name)
    };
    let (first, second) = (write("first", "first\n".repeat(700_000)), write("second", "second\n".to_owned()));
    let piped = |log: &str| place.job("recv", log).args("--name p --stdout").start();
    let one = piped("one");
    let sender = place.send("s").arg(&first).args("--receivers 1 --rate 16Mbit/s").start();
    wait_until_or("it has begun", String::new, || !one.out().is_empty());
    let late = place.recv("late").start();
    one.end().expect(0);
    let two = piped("two");
    sender.end().expect(0);
    late.end().expect(0);
    place.send("s").arg(&second).args("--receivers 1").run().expect(0);
    let two = two.end().expect(0);
    assert!(two.out == "second\n" && two.err.contains("everything of this job already"), "{}", two.err);
}

/// Two receivers on one host with one name and different directories, like two machines with the same name.
#[test]
fn receivers_with_one_name_are_all_served() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 1000);
    let twins = ["one", "two", "three"].map(|out| {
        place.job("recv", out).arg("--name").arg("twin").arg("--out").arg(place.path(out)).start()
    });
    let sent = place.send("s").arg(&file).args("--receivers 3 --json").run().expect(0);
    twins.into_iter().for_each(|one| drop(one.end().expect(0)));
    let expected = ["twin", "twin#2", "twin#3"].map(|name| (name.to_owned(), "verified".to_owned()));
    assert_eq!(rows(&sent), expected);
    assert!(report(&sent)["receivers"][0]["address"].as_str().is_some_and(|at| at.starts_with("127.0.0.1:")));
}

#[test]
fn a_refused_service_says_why() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 1000);
    let (sender, other) = (place.send("s").arg(&file).args("--expect a").start(), service(&place, "b"));
    let told = || other.err();
    let why = "the sender expects no receiver of this name";
    wait_until_or("it says why", told, || other.err().contains(why));
    place.recv("a").run().expect(0);
    sender.end().expect(0);
    other.signal("TERM");
    other.end().expect(0);
}

/// Two jobs run at the same time in one group, and each receiver chooses one.
#[test]
fn receiver_takes_part_in_the_job_that_it_names() {
    need_multicast!();
    let place = Place::new();
    let (nightly, other) = (place.file("nightly", 1000), place.file("other", 1000));
    let receiver = place.recv("r").args("--job nightly --job weekly").start();
    let send = |job: &str| place.send("s").args("--receivers 1 --join-timeout 20").args(job);
    let nameless = send("").args("--name nameless").arg(&other).start();
    let hourly = send("--job hourly").args("--name hourly").arg(&other).start();
    let told = || receiver.err();
    wait_until_or("it hears others", told, || receiver.err().contains("--from or --job does not list it"));
    let sent = send("--job nightly").args("--name s").arg(&nightly).start().end();
    sent.expect(0);
    receiver.end().expect(0);
    drop((nameless, hourly));
    assert_eq!(files(&place.path("r")).into_keys().collect::<Vec<_>>(), ["nightly"]);
}
