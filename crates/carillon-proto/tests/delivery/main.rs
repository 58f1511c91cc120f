//! Every protocol of the registry delivers a file with its delivery settings over a lossy Ethernet, in a matrix of
//! loss, receivers and delay.
//!
//! Each cell is one file; the default tier tries a sixth of the cells. `CARILLON_RUNS` sets the number of files per
//! cell, each with its own losses (`make nightly`). `CARILLON_PROTOCOL`, `CARILLON_CELL` and `CARILLON_SEED` select
//! one, as printed by a failure. `CARILLON_SET` adds settings, such as `window=8,feedback=ack`, and `CARILLON_BYTES`
//! sets the file size. `--nocapture` prints the cost of each cell.

mod cell;
mod long;
mod network;
mod silence;
mod silent;
mod trouble;

use std::env::var;
use std::panic::{AssertUnwindSafe, catch_unwind};

use carillon_core::{Duration, ProtocolEntry};
use carillon_proto::REGISTRY;
use carillon_testkit::{chosen, chosen_name, is_long_tier, seeds, variable};

use cell::{Cell, Fault, Outcome};
use network::World;

const LOSSES: [f64; 4] = [0.0, 0.01, 0.05, 0.2];
const RECEIVERS: [usize; 3] = [1, 4, 16];
const DELAYS: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(10)];

/// Returns true if the protocol sends to one receiver after the other, so that time and bytes grow with their number.
fn is_serial(entry: &ProtocolEntry) -> bool {
    REGISTRY
        .iter()
        .any(|other| other.study.unicast_equivalent.is_some_and(|unicast| unicast.protocol == entry.name))
}

fn name(cell: &Cell) -> String {
    name_of(cell.loss, cell.receivers, cell.delay)
}

fn name_of(loss: f64, receivers: usize, delay: Duration) -> String {
    format!("{:.0}%,{receivers},{}us", loss * 100.0, delay.as_micros())
}

fn cells() -> impl Iterator<Item = (f64, usize, Duration)> {
    LOSSES.iter().flat_map(|&loss| {
        RECEIVERS.iter().flat_map(move |&receivers| DELAYS.iter().map(move |&delay| (loss, receivers, delay)))
    })
}

/// Runs a cell. Returns `None` after a panic, which prints its message on standard error.
fn run(cell: &Cell) -> Option<Outcome> {
    catch_unwind(AssertUnwindSafe(|| World::new(cell).run(LIMIT))).ok()
}

fn judge(cell: &Cell, outcome: &Outcome) -> Result<(), String> {
    let Outcome { verified, over, .. } = outcome;
    if *verified < cell.receivers || !over {
        return Err(format!("{verified} of {} verified: {outcome:#?}", cell.receivers));
    }
    // Each repair serves some receiver; protocols that do not report receivers count none.
    let (all, max) = (outcome.rows.iter().sum::<u64>(), outcome.rows.iter().max().copied().unwrap_or(0));
    if all > 0 && (all < outcome.repairs || max > outcome.repairs) {
        return Err(format!("{} repairs, of which {:?} were for the members", outcome.repairs, outcome.rows));
    }
    let (time, factor) = bounds(cell, outcome.messages);
    if outcome.time > time {
        return Err(format!("it took {:?}, more than {time:?}", outcome.time));
    }
    let useful = (outcome.messages * 1472) as f64;
    for (what, bytes) in [("sent", outcome.sent), ("returned", outcome.returned)] {
        let share = bytes as f64 / useful;
        // Best-effort protocols send everything several times if told to.
        if share > factor && cell.protocol.delivery.repairs {
            return Err(format!("{share:.2} bytes {what} for each useful one, more than {factor:.2}"));
        }
    }
    Ok(())
}

/// Bounds of a cell: time, and bytes sent (or returned in total) per useful byte. They are loose, since stop-and-wait
/// and go-back-N cost most.
fn bounds(cell: &Cell, messages: u64) -> (Duration, f64) {
    let serial = if is_serial(cell.protocol) { cell.receivers as u32 } else { 1 };
    let (each, factor) = match cell.loss {
        0.0 => (cell.delay * 4 + Duration::from_millis(2), 1.3),
        loss if loss <= 0.01 => (cell.delay * 6 + Duration::from_millis(10), 4.0),
        loss if loss <= 0.05 => (cell.delay * 10 + Duration::from_millis(50), 12.0),
        _ => (Duration::from_millis(2500), 24.0),
    };
    (Duration::from_secs(10) + each * messages as u32 * serial, factor * f64::from(serial))
}

/// Formats a cell and its cost in one line.
fn line(cell: &Cell, outcome: &Outcome, is_ok: bool) -> String {
    let useful = (outcome.messages * 1472) as f64;
    format!(
        "{:16} {:16} {} {:9.3} s  wire {:7.2}  back {:7.2}  repairs {}",
        cell.protocol.name,
        name(cell),
        if is_ok { "ok  " } else { "FAIL" },
        outcome.time.as_secs_f64(),
        outcome.sent as f64 / useful,
        outcome.returned as f64 / useful,
        outcome.repairs,
    )
}

#[test]
fn every_protocol_delivers_file_through_loss_and_delay() {
    let is_chosen = var("CARILLON_PROTOCOL").is_ok();
    let only =
        chosen_name("CARILLON_CELL", cells().map(|(loss, receivers, delay)| name_of(loss, receivers, delay)));
    let seeds = seeds(1);
    let bytes = variable("CARILLON_BYTES").unwrap_or(300_000) as usize;
    let settings = var("CARILLON_SET").unwrap_or_default();
    let setting = |pair: &str| match pair.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => panic!("CARILLON_SET={settings}: expected settings such as window=8,feedback=ack"),
    };
    let settings: Vec<_> = settings.split(',').filter(|pair| !pair.is_empty()).map(setting).collect();
    let mut failures = Vec::new();
    let protocols = chosen(REGISTRY, REGISTRY.iter().copied());
    let count = protocols.len();
    let (mut files, mut delivered, mut repairs) = (0, 0, 0);
    for (place, protocol) in protocols.into_iter().enumerate() {
        // A sixth of the cells unless some are selected, with each delay; the next protocol tries others.
        let all = is_long_tier() || is_chosen || only.is_some();
        let meant = cells().enumerate().filter(|(cell, _)| all || (cell + cell / 3 + place) % 6 == 0);
        for ((loss, receivers, delay), seed) in
            meant.flat_map(|(_, cell)| seeds.clone().map(move |s| (cell, s)))
        {
            let settings = settings.clone();
            let cell = Cell {
                protocol,
                loss,
                receivers,
                delay,
                bytes,
                seed,
                settings,
                rate: None,
                fault: Fault::None,
                midway: false,
                helpers: 0,
            };
            // Best-effort protocols complete a file only without loss.
            if loss > 0.0 && !protocol.delivery.repairs {
                continue;
            }
            if only.as_ref().is_some_and(|only| *only != name(&cell)) {
                continue;
            }
            let verdict = match run(&cell) {
                Some(outcome) => {
                    let verdict = judge(&cell, &outcome);
                    files += 1;
                    delivered += outcome.messages * outcome.verified as u64;
                    repairs += outcome.repairs;
                    println!("{}", line(&cell, &outcome, verdict.is_ok()));
                    verdict
                }
                None => Err("it panicked".to_owned()),
            };
            if let Err(failure) = verdict {
                let (protocol, cell) = (protocol.name, name(&cell));
                failures.push(format!(
                    "{protocol} at {cell}: {failure}\nrun it again: CARILLON_PROTOCOL={protocol} \
                     CARILLON_CELL={cell} CARILLON_SEED={seed} CARILLON_BYTES={bytes} \
                     cargo test -p carillon-proto --test delivery"
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    println!("{count} protocols, {files} files, {delivered} deliveries, {repairs} repairs");
    // Best-effort protocols are tried without loss only, which a selected cell may exclude.
    if only.is_none() {
        assert!(files >= count, "{files} files of {count} protocols");
        let min = files as u64 * 10;
        assert!(delivered >= min, "{delivered} messages were delivered in {files} files, of at least {min}");
        assert!(repairs > 0 || is_chosen, "nothing was repaired");
    }
}

/// Maximum virtual time of a delivery.
const LIMIT: Duration = Duration::from_secs(3000);
