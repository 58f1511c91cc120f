//! Metrics of `--metrics`, fetched during a transfer and after it, with a strict parser.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use carillon_testkit::sampling_step;
use carillon_transfer::monitor::{FAMILIES, Kind};
use serde_json::Value;

use crate::delivery::support::{Place, Running, need_multicast, wait_until};

/// Samples of a page: value by name with labels.
type Numbers = BTreeMap<String, f64>;

/// Waits until a process prints the address of its metrics, and returns it.
fn address(process: &Running) -> SocketAddr {
    let said = || process.err().split("http://").nth(1)?.split("/metrics").next()?.parse().ok();
    wait_until("no numbers are served", || said().is_some());
    said().expect("an address")
}

fn fetch(address: SocketAddr) -> Option<Numbers> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    Some(parse(body))
}

/// Parses the text format of Prometheus strictly: each name once, after its help and type, with its samples together.
fn parse(text: &str) -> Numbers {
    let (mut numbers, mut seen, mut lines) = (Numbers::new(), BTreeSet::new(), text.lines().peekable());
    assert!(text.is_empty() || text.ends_with('\n'), "the last line ends");
    while let Some(line) = lines.next() {
        let (name, help) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')).expect(line);
        let family = FAMILIES.iter().find(|family| family.name == name).expect(line);
        assert!(seen.insert(name) && help == family.help, "{line}");
        assert_eq!(lines.next(), Some(format!("# TYPE {name} {}", family.kind.name()).as_str()));
        let mut any = false;
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            any = true;
            let (sample, value) = line.rsplit_once(' ').expect(line);
            let value: f64 = value.parse().expect(line);
            assert!(value.is_finite() && value >= 0.0, "{line}");
            let rest = sample.strip_prefix(name).expect(line);
            let labels = match rest {
                "" => Vec::new(),
                rest => labels(rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).expect(line)),
            };
            assert!(labels.iter().all(|label| family.labels.contains(&label.as_str())), "{line}");
            assert!(numbers.insert(sample.to_owned(), value).is_none(), "{line} is there twice");
        }
        assert!(any, "{name} has no samples");
    }
    numbers
}

/// Names of the labels. The parser checks that values are quoted and escaped.
fn labels(mut text: &str) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let (name, rest) = text.split_once("=\"").expect(text);
        names.push(name.to_owned());
        let mut escaped = false;
        let end = rest.char_indices().find(|&(_, c)| {
            let ends = c == '"' && !escaped;
            assert!(!escaped || ['\\', '"', 'n'].contains(&c), "{text}");
            escaped = c == '\\' && !escaped;
            ends
        });
        let (at, _) = end.expect(text);
        match &rest[at + 1..] {
            "" => return names,
            more => text = more.strip_prefix(',').expect(text),
        }
    }
}

/// Checks that no counter has decreased.
fn assert_monotonic(before: &Numbers, after: &Numbers) {
    let counters = |name: &str| {
        FAMILIES
            .iter()
            .any(|family| family.kind == Kind::Counter && name.split('{').next() == Some(family.name))
    };
    for (name, value) in before.iter().filter(|(name, _)| counters(name)) {
        assert!(
            after.get(name).is_none_or(|after| after >= value),
            "{name}: {value}, then {:?}",
            after.get(name)
        );
    }
}

/// Fetches metrics until `holds` accepts them, and then once more.
fn fetch_until(address: SocketAddr, what: &str, holds: impl Fn(&Numbers) -> bool) -> Numbers {
    let mut last = Numbers::new();
    wait_until(what, || {
        let now = fetch(address).expect("it serves");
        assert_monotonic(&last, &now);
        last = now;
        holds(&last)
    });
    last
}

fn assert_metric(numbers: &Numbers, name: &str, value: &Value) {
    assert_close(name, numbers.get(name).copied(), value);
}

fn assert_close(what: &str, there: Option<f64>, value: &Value) {
    let equal = match (there, value.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * other.abs(),
        (there, _) => there.is_none() && value.is_null(),
    };
    assert!(equal, "{what}: {there:?}, and the report says {value}");
}

/// Sends to two receivers with `protocol`, fetches metrics throughout, and compares the last ones with the reports.
fn check_metrics(protocol: &str) {
    let place = Place::new();
    let file = place.file("f", 6_000_000);
    let served = "--json --metrics 127.0.0.1:0 --metrics-linger 60";
    let lossy = place.recv("a \"quoted\" \\").args("--drop 0.05 --seed 3").args(served).start();
    let plain = place.recv("b").start();
    let at = address(&lossy);
    let waiting = fetch_until(at, "it is told", |numbers| !numbers.is_empty());
    assert_eq!(waiting["carillon_session_state{state=\"seeking\"}"], 1.0);
    assert!(!waiting.contains_key("carillon_session_info"), "nothing is known of a session: {waiting:?}");
    let sender = place
        .send("s")
        .arg(file)
        // A receiver that a catch-up session serves would count twice.
        .args("--receivers 2 --datagram 1472 --slow wait")
        .args("--rate 40Mbit/s --protocol")
        .arg(protocol)
        .args(served)
        .start();
    let to = address(&sender);
    let running = fetch_until(to, "it runs", |numbers| {
        let moves = |name| numbers.get(name).is_some_and(|rate| *rate > 0.0);
        moves("carillon_payload_bytes_per_second") && moves("carillon_sent_bytes_per_second")
    });
    assert!(running.keys().any(|name| name.starts_with("carillon_limit{by=")), "{protocol}: {running:?}");
    assert_eq!(running["carillon_receiver_state{receiver=\"b\",state=\"receiving\"}"], 1.0);
    let end =
        fetch_until(to, "it ends", |numbers| numbers["carillon_session_state{state=\"finished\"}"] == 1.0);
    let came =
        fetch_until(at, "it ends", |numbers| numbers["carillon_session_state{state=\"finished\"}"] == 1.0);
    // A signal ends the wait for clients that fetch metrics.
    let ended = [sender, lossy].map(|process| {
        wait_until("it reports", || process.out().contains("\"report\""));
        process.signal("TERM");
        process.end().expect(0)
    });
    plain.end().expect(0);

    let report = &ended[0].events("report")[0];
    for (name, field) in [
        ("carillon_payload_bytes_total", "bytes"),
        ("carillon_repairs_total", "repairs"),
        ("carillon_datagrams_sent_total", "datagrams_sent"),
        ("carillon_sent_bytes_total", "bytes_sent"),
        ("carillon_unserved_total", "more_unserved"),
    ] {
        assert_metric(&end, name, &report[field]);
    }
    for one in report["receivers"].as_array().expect("a list") {
        let name = one["name"].as_str().expect("a name").replace('\\', "\\\\").replace('"', "\\\"");
        let of = |family: &str| format!("carillon_receiver_{family}{{receiver=\"{name}\"}}");
        assert_metric(&end, &of("bytes_total"), &one["bytes"]);
        assert_metric(&end, &of("repairs_total"), &one["repairs"]);
        assert_metric(
            &end,
            &format!("carillon_receiver_state{{receiver=\"{name}\",state=\"verified\"}}"),
            &1.into(),
        );
        let (sent, arrived) = (of("path_sent_packets_total"), of("path_arrived_packets_total"));
        let loss = end.get(&sent).map(|sent| (1.0 - end[&arrived] / sent).max(0.0));
        assert_close("loss", loss, &one["loss"]);
        assert!(one["goodput_bps"].as_f64() > Some(0.0), "{one}");
    }
    let report = &ended[1].events("report")[0];
    for (name, field) in [
        ("carillon_payload_bytes_total", "bytes"),
        ("carillon_files_total", "files"),
        ("carillon_repairs_total", "repairs"),
        ("carillon_datagrams_received_total", "datagrams_received"),
        ("carillon_datagrams_dropped_total{reason=\"injected\"}", "injected_drops"),
        ("carillon_kernel_drops_total", "kernel_drops"),
    ] {
        assert_metric(&came, name, &report[field]);
    }
    assert_eq!(came["carillon_transfers_total{outcome=\"verified\"}"], 1.0);
    assert!(came["carillon_datagrams_dropped_total{reason=\"injected\"}"] > 0.0);
}

#[test]
fn last_metrics_agree_with_the_reports() {
    need_multicast!();
    ["carillon", "rra", "pgm"].into_iter().step_by(sampling_step(3)).for_each(check_metrics);
}

#[test]
fn counters_go_on_from_one_transfer_to_the_next() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 1_000_000);
    let receiver = place.recv("a").args("--overwrite --keep-going --json --metrics 127.0.0.1:0").start();
    let at = address(&receiver);
    for transfers in 1..=3u32 {
        place.send("s").arg(&file).args("--receivers 1").run().expect(0);
        let numbers = fetch_until(at, "it is verified", |numbers| {
            numbers["carillon_transfers_total{outcome=\"verified\"}"] >= f64::from(transfers)
        });
        assert_eq!(numbers["carillon_payload_bytes_total"], 1e6 * f64::from(transfers));
        assert_eq!(numbers["carillon_files_total"], f64::from(transfers));
    }
    receiver.signal("INT");
    let end = &receiver.end().expect(0).events("end")[0];
    assert_eq!((end["transfers"].as_u64(), end["failed"].as_u64()), (Some(3), Some(0)));
}

#[test]
fn a_helper_and_a_daemon_serve_numbers_too() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 500_000);
    let serves = format!("--group {} --interface lo --metrics 127.0.0.1:0", place.group);
    let helper = place.bare("relay", "h").args("--protocol rmtp --name h").args(&serves).start();
    let receiver = place.recv("a").start();
    place.send("s").arg(file).args("--protocol rmtp --helpers h --expect a").run().expect(0);
    receiver.end().expect(0);
    // The helper keeps running, so it may show the next session or none.
    let at = address(&helper);
    let numbers = fetch_until(at, "it is told", |numbers| !numbers.is_empty());
    assert!(numbers["carillon_datagrams_received_total"] > 0.0, "{numbers:?}");
    let socket = place.path("daemon.sock");
    let daemon = place.bare("daemon", "d").arg("--socket").arg(socket).args("--metrics 127.0.0.1:0").start();
    let at = address(&daemon);
    let numbers = fetch_until(at, "it answers", |numbers| numbers.contains_key("carillon_daemon_sockets"));
    assert_eq!(numbers["carillon_daemon_sockets"], 0.0);
    assert!(numbers["carillon_daemon_connections_total"] > 0.0);
}

#[test]
fn a_delivery_goes_on_whatever_is_asked_of_its_numbers() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 4_000_000);
    let receiver = place.recv("a").start();
    let sender =
        place.send("s").arg(file).args("--receivers 1 --rate 20Mbit/s --metrics 127.0.0.1:0").start();
    let at = address(&sender);
    let open = || TcpStream::connect_timeout(&at, Duration::from_secs(5)).ok();
    let (mut silent, mut asked, mut fetched) = (Vec::new(), 0u32, 0);
    while let Some(mut stream) = open() {
        asked += 1;
        let junk: [&[u8]; 4] =
            [b"GET /metrics", b"\xff\0\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", &[b'x'; 20_000]];
        // The server may have closed the connection.
        let _ = stream.write_all(junk[asked as usize % junk.len()]);
        silent.push(stream);
        silent.drain(..silent.len().saturating_sub(60));
        if asked % 20 == 0 {
            fetched += u32::from(fetch(at).is_some());
        }
    }
    let ended = sender.end().expect(0);
    receiver.end().expect(0);
    assert!(ended.out.contains("1 of 1 verified"), "{}", ended.out);
    assert!(fetched > 0, "{asked} asked, {fetched} were answered");
}

#[test]
fn an_address_that_is_taken_is_said_before_anything_is_sent() {
    let place = Place::new();
    let file = place.file("f", 10);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let ended = place.send("s").arg(file).arg("--metrics").arg(&address).run().expect(2);
    ended.one_line(&["--metrics", &address]);
}
