//! Files longer than the repair buffer: early losses are still repaired later, at a cost proportional to that of a
//! short file. `make nightly` adds longer files.

use std::env::var_os;

use carillon_core::{Duration, HostValue, ProtocolEntry};
use carillon_proto::REGISTRY;
use carillon_testkit::{DeliveryGuarantee, chosen, is_long_tier, protocol_tests};

use super::cell::{Cell, Fault, Outcome};
use super::{line, run};

/// Loss and number of receivers, with a delay of 10 ms each way.
const LOSS_AND_RECEIVERS: &[(f64, usize)] = &[(0.2, 4), (0.0, 4)];

#[test]
fn file_longer_than_repair_buffer_completes() {
    let chosen = chosen(REGISTRY, REGISTRY.iter().copied());
    let is_chosen = var_os("CARILLON_PROTOCOL").is_some();
    let mut files = 0;
    // The longest files only where several are requested.
    let longest = var_os("CARILLON_RUNS").is_some();
    let mut failures = Vec::new();
    for (place, &protocol) in REGISTRY.iter().enumerate() {
        let is_meant = is_long_tier() || is_chosen || place % 10 == 0;
        if !protocol.delivery.repairs || !is_meant || !chosen.iter().any(|entry| entry.name == protocol.name)
        {
            continue;
        }
        files += 1;
        for &(loss, receivers) in LOSS_AND_RECEIVERS.iter().take(if is_long_tier() { 2 } else { 1 }) {
            // Peers that do not wait for members guarantee only what their window holds.
            let is_bounded = loss > 0.0
                && !protocol.delivery.waits
                && matches!(protocol_tests(protocol).guarantee, DeliveryGuarantee::Peers { .. });
            let bytes = match longest {
                _ if is_bounded => 5 * SHORT_FILE_BYTES,
                true => LONG_FILE_BYTES,
                false => longer_than_kept(protocol),
            };
            failures.extend(compare(protocol, loss, receivers, bytes).err());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(files > 0 || is_chosen, "no protocol was tried");
}

/// File size beyond the sender's repair buffer, in bytes.
fn longer_than_kept(entry: &ProtocolEntry) -> usize {
    let kept = entry.settings.host.iter().filter_map(|(_, value)| match value {
        HostValue::Bytes(bytes) => Some(*bytes as usize),
        _ => None,
    });
    kept.max().unwrap_or(5 << 20) * 3 / 2
}

/// Compares a long file with a short one.
fn compare(
    protocol: &'static ProtocolEntry,
    loss: f64,
    receivers: usize,
    bytes: usize,
) -> Result<(), String> {
    let deliver = |bytes: usize, seed: u64| -> Result<Outcome, String> {
        let delay = Duration::from_millis(10);
        let cell = Cell {
            protocol,
            loss,
            receivers,
            delay,
            bytes,
            seed,
            settings: Vec::new(),
            rate: None,
            fault: Fault::None,
            midway: false,
            helpers: 0,
        };
        let outcome = run(&cell).ok_or_else(|| format!("{}: it panicked", protocol.name))?;
        let is_complete = outcome.verified == receivers && outcome.over;
        println!("{} {} KB", line(&cell, &outcome, is_complete), bytes / 1000);
        if is_complete { Ok(outcome) } else { Err(format!("{}\n{outcome:#?}", line(&cell, &outcome, false))) }
    };
    let share = |outcome: &Outcome| outcome.sent as f64 / (outcome.messages * 1472) as f64;
    // A short file has few messages, so that chance makes one cheap. The most expensive of three is the reference.
    let short = deliver(SHORT_FILE_BYTES, 1)?;
    let others = [deliver(SHORT_FILE_BYTES, 2)?, deliver(SHORT_FILE_BYTES, 3)?];
    let short_share = others.iter().map(share).fold(share(&short), f64::max);
    // A stop-and-wait sender gets a file that fits the time limit.
    let bytes = bytes
        .min((SHORT_FILE_BYTES as f64 * MAX_VIRTUAL_TIME.div_duration_f64(short.time)) as usize)
        .max(2 * SHORT_FILE_BYTES);
    let long = deliver(bytes, 1)?;
    let (max_time, max_share) = (
        FIXED_TIME_ALLOWANCE + 3 * short.time.mul_f64(bytes as f64 / SHORT_FILE_BYTES as f64),
        1.25 * short_share + 0.1,
    );
    if long.time > max_time || share(&long) > max_share {
        return Err(format!(
            "{} at {loss}, {receivers} receivers: a file of {bytes} bytes takes {:?} and {:.2} bytes for each of it, more than \
             {max_time:?} and {max_share:.2} after one of {SHORT_FILE_BYTES} bytes with {:?} and {:.2}",
            protocol.name,
            long.time,
            share(&long),
            short.time,
            short_share,
        ));
    }
    Ok(())
}

/// File size that fits every buffer, in bytes.
const SHORT_FILE_BYTES: usize = 300_000;
/// File size beyond every buffer, in bytes.
const LONG_FILE_BYTES: usize = 60_000_000;
/// Maximum virtual time of a long file, at the pace of the short one.
const MAX_VIRTUAL_TIME: Duration = Duration::from_secs(120);
/// Time allowed for a file of any size.
const FIXED_TIME_ALLOWANCE: Duration = Duration::from_secs(5);
