//! `carillon metric`: its rows say what was measured, for protocols of every kind.

use std::process::Command;

use carillon_testkit::loopback_group;
use serde_json::Value;

fn metric(line: &str) -> Option<(bool, String, String)> {
    let group = loopback_group()?.to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_carillon"))
        .arg("metric")
        .args(line.split_whitespace())
        .args(["--interface", "lo", "--group", &group])
        .output()
        .expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((output.status.success(), text(&output.stdout), text(&output.stderr)))
}

fn rows(out: &str, event: &str) -> Vec<Value> {
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    lines.filter(|line| line["event"] == event).collect()
}

#[test]
fn a_row_for_each_size_of_the_buffer() {
    for protocol in ["rra", "xtp", "msaw", "pgm"] {
        let line = format!("--local 2 --protocol {protocol} --message 20000 --buffers 512,3000,20000 --json");
        let Some((success, out, err)) = metric(&line) else { return };
        assert!(success, "{protocol}: {out}{err}");
        let rows = rows(&out, "row");
        let calls: Vec<u64> = rows.iter().filter_map(|row| row["calls"].as_u64()).collect();
        assert_eq!(calls, [40, 7, 1], "{protocol}: {out}");
        for row in rows {
            let (bytes, ms) = (row["bytes"].as_u64(), row["milliseconds"].as_f64());
            assert_eq!(bytes, Some(20_000), "{protocol}: {out}");
            let (rate, ms) = (row["megabits_per_second"].as_f64().unwrap_or(0.0), ms.unwrap_or(0.0));
            // Throughput by time is the size.
            assert!((rate * ms / 8.0 * 1000.0 - 20_000.0).abs() < 1.0, "{protocol}: {out}");
        }
    }
}

#[test]
fn latency_has_its_percentiles_in_order() {
    let line = "--local 2 --protocol rra --buffers 100 --latency 500 --time 1 --json";
    let Some((success, out, err)) = metric(line) else { return };
    assert!(success, "{out}{err}");
    let received = rows(&out, "received");
    assert_eq!(received.len(), 2, "{out}");
    for one in received {
        let at = |name: &str| one["latency_us"][name].as_f64().expect("a time");
        assert!(0.0 < at("p50") && at("p50") <= at("p99") && at("p99") <= at("p99.9"), "{out}");
        assert!(at("p99.9") <= at("max") && one["calls"].as_u64() >= Some(400), "{out}");
    }
}

#[test]
fn what_cannot_be_measured_is_said() {
    for line in [
        "--local 2 --protocol nonsense",
        "--local 0",
        "-T -R",
        "--local 2 --buffers 0",
        "--local 2 --message 0",
    ] {
        let Some((success, out, err)) = metric(line) else { return };
        assert!(!success && !err.is_empty() && !err.contains("panicked"), "{line}: {out}{err}");
    }
}
