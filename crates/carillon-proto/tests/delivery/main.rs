//! Every protocol of the registry carries a file with its settings for delivery, over Ethernet that
//! loses packets: a matrix of loss, receivers and delay.
//!
//! The default tier runs a few cells. All of them: `CARILLON_CELLS=all cargo test --release -p
//! carillon-proto --test delivery -- --nocapture`, which prints what each costs. `CARILLON_PROTOCOL`,
//! `CARILLON_CELL` and `CARILLON_SEED` choose one, as the message of a failure says; `CARILLON_SET` adds
//! settings, such as `window=8,feedback=nak`.

mod network;

use std::env::var;
use std::panic::{AssertUnwindSafe, catch_unwind};

use carillon_core::{Duration, ProtocolEntry};
use carillon_proto::REGISTRY;

use network::{Cell, Outcome, World};

const LOSSES: [f64; 4] = [0.0, 0.01, 0.05, 0.2];
const RECEIVERS: [usize; 3] = [1, 4, 16];
const DELAYS: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(10)];

/// Whether it sends to one receiver after the other: then all takes so many times as long.
fn is_serial(entry: &ProtocolEntry) -> bool {
    REGISTRY.iter().any(|other| other.unicast_equivalent == Some(entry.name))
}

fn name(cell: &Cell) -> String {
    format!("{:.0}%,{},{}us", cell.loss * 100.0, cell.receivers, cell.delay.as_micros())
}

/// The cells of a tier.
fn cells(all: bool) -> Vec<(f64, usize, Duration)> {
    let every = LOSSES.iter().flat_map(|&loss| {
        RECEIVERS.iter().flat_map(move |&receivers| DELAYS.iter().map(move |&delay| (loss, receivers, delay)))
    });
    let default = [(0.0, 4, DELAYS[0]), (0.05, 4, DELAYS[1]), (0.2, 4, DELAYS[0]), (0.2, 1, DELAYS[1])];
    every.filter(|cell| all || default.contains(cell)).collect()
}

/// Runs a cell; what a panic says is on the standard error.
fn run(cell: &Cell) -> Option<Outcome> {
    catch_unwind(AssertUnwindSafe(|| World::new(cell).run(LIMIT))).ok()
}

fn judge(cell: &Cell, outcome: &Outcome) -> Result<(), String> {
    let Outcome { verified, over, .. } = outcome;
    if *verified < cell.receivers || !over {
        return Err(format!("{verified} of {} verified: {outcome:#?}", cell.receivers));
    }
    let (time, factor) = bounds(cell, outcome.messages);
    if outcome.time > time {
        return Err(format!("it took {:?}, more than {time:?}", outcome.time));
    }
    let useful = (outcome.messages * 1472) as f64;
    for (what, bytes) in [("sent", outcome.sent), ("returned", outcome.returned)] {
        let share = bytes as f64 / useful;
        if share > factor {
            return Err(format!("{share:.2} bytes {what} for each useful one, more than {factor:.2}"));
        }
    }
    Ok(())
}

/// What a cell may take: time, and bytes sent (and returned, by all together) for each useful one. Loose:
/// the dearest are those that send one message at a time and those that go back to what was lost.
fn bounds(cell: &Cell, messages: u64) -> (Duration, f64) {
    let serial = if is_serial(cell.protocol) { cell.receivers as u32 } else { 1 };
    let (each, factor) = match cell.loss {
        0.0 => (cell.delay * 4 + Duration::from_millis(2), 1.3),
        loss if loss <= 0.01 => (cell.delay * 6 + Duration::from_millis(10), 3.0),
        loss if loss <= 0.05 => (cell.delay * 10 + Duration::from_millis(50), 10.0),
        _ => (Duration::from_millis(2500), 18.0),
    };
    (Duration::from_secs(10) + each * messages as u32 * serial, factor * f64::from(serial))
}

#[test]
fn every_protocol_completes_a_file_through_loss_and_delay() {
    let tier = var("CARILLON_CELLS").is_ok_and(|cells| cells == "all");
    let wanted = var("CARILLON_PROTOCOL").ok();
    let only = var("CARILLON_CELL").ok();
    let seed = var("CARILLON_SEED").map_or(1, |seed| seed.parse().expect("a seed"));
    let bytes = var("CARILLON_BYTES").map_or(300_000, |bytes| bytes.parse().expect("bytes"));
    let settings: Vec<(String, String)> = var("CARILLON_SET")
        .unwrap_or_default()
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let mut complaints = Vec::new();
    for protocol in REGISTRY.iter().filter(|entry| wanted.as_ref().is_none_or(|name| name == entry.name)) {
        for (loss, receivers, delay) in cells(tier || only.is_some()) {
            let cell = Cell { protocol, loss, receivers, delay, bytes, seed, settings: settings.clone() };
            if only.as_ref().is_some_and(|only| *only != name(&cell)) {
                continue;
            }
            let Some(outcome) = run(&cell) else {
                complaints.push(format!("{} at {}: panicked", protocol.name, name(&cell)));
                println!("{:16} {:16} PANIC", protocol.name, name(&cell));
                continue;
            };
            let useful = (outcome.messages * 1472) as f64;
            println!(
                "{:16} {:16} {} {:9.3} s  wire {:7.2}  back {:7.2}  repairs {}",
                protocol.name,
                name(&cell),
                if outcome.verified == receivers && outcome.over { "ok  " } else { "FAIL" },
                outcome.time.as_secs_f64(),
                outcome.sent as f64 / useful,
                outcome.returned as f64 / useful,
                outcome.repairs,
            );
            if let Err(complaint) = judge(&cell, &outcome) {
                complaints.push(format!(
                    "{} at {}: {complaint}\nrun it again: CARILLON_PROTOCOL={} CARILLON_CELL={} CARILLON_SEED={seed} cargo test -p carillon-proto --test delivery",
                    protocol.name, name(&cell), protocol.name, name(&cell),
                ));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

/// No delivery takes as long.
const LIMIT: Duration = Duration::from_secs(3000);
