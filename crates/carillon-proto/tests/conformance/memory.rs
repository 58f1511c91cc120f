//! Receivers hold a bounded part of a long stream, under every guarantee.

use std::time::Duration;

use carillon_core::{ProtocolEntry, Seeds};
use carillon_testkit::{DeliveryGuarantee, Exercise, Group, Link, TrialNetwork};

use super::{run_test_with_floor, with_drawn_settings};

#[path = "../shared/hoarders.rs"]
mod hoarders;

#[test]
fn receivers_hold_a_bounded_part_of_a_long_stream() {
    let floor = Exercise { datagrams: MESSAGES, deliveries: MESSAGES, timers: 0 };
    let test = "memory::receivers_hold_a_bounded_part_of_a_long_stream";
    run_test_with_floor(test, any, 1, floor, |entry, (), seed| long_stream(entry, seed));
}

fn any(_: &DeliveryGuarantee) -> Option<()> {
    Some(())
}

/// The check fails for receivers that keep everything.
#[test]
fn receivers_that_hoard_are_caught() {
    for entry in hoarders::HOARDERS {
        let failure = long_stream(entry, 1).expect_err(entry.name);
        assert!(failure.starts_with("a receiver held"), "{}: {failure}", entry.name);
    }
}

/// A stream much longer than the memory, to applications that read at once.
fn long_stream(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("conformance.memory");
    let link = Link { delay: Duration::from_millis(1), ..Link::default() };
    let group = Group::new(entry, seed).receivers(RECEIVERS).messages(MESSAGES).equal_payloads(PAYLOAD);
    let group = group.all_links(link).interval(Duration::from_millis(2)).memory(MEMORY);
    let group = with_drawn_settings(group, entry, TrialNetwork::Links, RECEIVERS + 1, &mut rng, |_| {});
    let report = group.run();
    report.check_safety()?;
    let delivered: usize = report.receivers.iter().map(|received| received.deliveries.len()).sum();
    if delivered < (MESSAGES * u64::from(RECEIVERS)) as usize {
        return Err(format!("{delivered} messages were delivered: {}", report.progress()));
    }
    let max = report.peaks.iter().skip(1).copied().max().unwrap_or(0);
    println!("{:16} {max:8} bytes at most", entry.name);
    match max {
        0 => Err("nothing was counted".to_owned()),
        max if max > MEMORY + MAX_TABLE_BYTES => Err(format!(
            "a receiver held {max} bytes, more than {MEMORY} of memory and {MAX_TABLE_BYTES} of tables"
        )),
        _ => Ok(()),
    }
}

const RECEIVERS: u32 = 2;
const MESSAGES: u64 = 300;
const PAYLOAD: usize = 1000;
/// Memory of a receiver, in bytes: a small part of the stream.
const MEMORY: usize = 64 << 10;
/// Allowance for tables, in bytes.
const MAX_TABLE_BYTES: usize = 64 << 10;
