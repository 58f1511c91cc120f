//! Every protocol of the registry with a receiver that crashes, freezes, or answers intermittently, at several rates
//! of the sender. A silent receiver is expelled in time, and the others are complete.

use carillon_core::{Duration, ProtocolEntry};
use carillon_proto::REGISTRY;
use carillon_session::{DEFAULT_MEMBER_TIMEOUT, MemberOutcome};
use carillon_testkit::{is_long_tier, sampling_step};

use super::cell::{Cell, Fault, Outcome};
use super::network::World;

const MBIT: u64 = 1_000_000;
const RATES: [Option<u64>; 4] = [Some(5 * MBIT), Some(20 * MBIT), Some(100 * MBIT), None];
const RECEIVERS: usize = 4;
/// Tolerance of a timeout.
const TIMEOUT_TOLERANCE: Duration = Duration::from_secs(1);

fn cell(protocol: &'static ProtocolEntry, rate: Option<u64>, fault: Fault, bytes: usize) -> Cell {
    let delay = Duration::from_micros(100);
    Cell {
        protocol,
        loss: 0.0,
        receivers: RECEIVERS,
        delay,
        bytes,
        seed: 1,
        settings: Vec::new(),
        rate,
        fault,
        midway: false,
        helpers: 0,
    }
}

/// Minimum time that a sender reports to have waited for a member silent for `missed`. A serial sender serves others
/// meanwhile.
fn min_wait(entry: &ProtocolEntry, missed: Duration) -> Duration {
    if super::is_serial(entry) { Duration::ZERO } else { missed.saturating_sub(TIMEOUT_TOLERANCE) }
}

/// Runs every protocol and panics with all failures.
fn for_all(
    rates: &[Option<u64>],
    fault: Fault,
    bytes: usize,
    check: impl Fn(&Cell, &Outcome) -> Result<(), String>,
) {
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (place, &protocol) in REGISTRY.iter().enumerate() {
        // Long runs try a sample of the protocols; the long tier tries all.
        if matches!(fault, Fault::Trickle(_)) && !is_long_tier() && place % 12 != 0 {
            continue;
        }
        // One of the rates; the next protocol tries another.
        for &rate in rates.iter().skip(place % sampling_step(rates.len())).step_by(sampling_step(rates.len()))
        {
            let cell = cell(protocol, rate, fault, bytes);
            let outcome = World::new(&cell).run(Duration::from_secs(300));
            assert!(outcome.messages > 0 && outcome.sent > 0, "{}: nothing was sent", protocol.name);
            tried += 1;
            println!(
                "{:16} {:9} {fault:?}: given up after {:?}, others done after {:?}, over after {:?}, {:?}",
                protocol.name,
                rate.map_or_else(|| "unlimited".to_owned(), |rate| format!("{} Mbit/s", rate / MBIT)),
                outcome.expelled_after,
                outcome.others,
                outcome.ended,
                outcome.last
            );
            if let Err(failure) = check(&cell, &outcome) {
                failures.push(format!("{} at {rate:?}: {failure}: {outcome:#?}", protocol.name));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let min = if matches!(fault, Fault::Trickle(_)) { 1 } else { REGISTRY.len() };
    assert!(tried >= min, "{tried} sessions were tried, of at least {min}");
}

fn others_verified(outcome: &Outcome) -> Result<(), String> {
    match outcome.over && outcome.verified >= RECEIVERS - 1 {
        true => Ok(()),
        false => Err("the others have not got everything".to_owned()),
    }
}

#[test]
fn killed_receiver_is_expelled_after_timeout_at_any_rate() {
    for_all(&RATES, Fault::Kill, 300_000, |cell, outcome| {
        others_verified(outcome)?;
        let (last, waited) = outcome.last.clone().ok_or("the last receiver is no member")?;
        if last != MemberOutcome::Lost("silent for 5 s".to_owned()) {
            return Err("it is not lost for its silence".to_owned());
        }
        let after = outcome.expelled_after.ok_or("it was not given up")?;
        // The last packet of the receiver may be older than the fault.
        let earliest = DEFAULT_MEMBER_TIMEOUT - TIMEOUT_TOLERANCE;
        if after < earliest || after > DEFAULT_MEMBER_TIMEOUT + TIMEOUT_TOLERANCE {
            return Err(format!("it was given up after {after:?}"));
        }
        // The sender was busy with the others until they were complete.
        let min = min_wait(cell.protocol, DEFAULT_MEMBER_TIMEOUT)
            .saturating_sub(outcome.others.unwrap_or_default());
        if cell.protocol.delivery.waits
            && (waited < min || waited > DEFAULT_MEMBER_TIMEOUT + TIMEOUT_TOLERANCE)
        {
            return Err(format!("it was waited for {waited:?}"));
        }
        Ok(())
    });
}

#[test]
fn receiver_frozen_for_three_seconds_is_kept() {
    let still = Duration::from_secs(3);
    for_all(&RATES, Fault::Freeze(still), 300_000, |cell, outcome| {
        let (last, waited) = outcome.last.clone().ok_or("the last receiver is no member")?;
        if !outcome.over || outcome.verified < RECEIVERS || last != MemberOutcome::Verified {
            return Err("not all are verified".to_owned());
        }
        if waited > still + TIMEOUT_TOLERANCE
            || (cell.protocol.delivery.waits && waited < min_wait(cell.protocol, still))
        {
            return Err(format!("it was waited for {waited:?}"));
        }
        Ok(())
    });
}

#[test]
fn intermittent_receiver_delays_others_for_bounded_time() {
    let cells = [(4600, Some(100 * MBIT)), (2500, None)];
    for (still, rate) in cells.into_iter().take(if is_long_tier() { 2 } else { 1 }) {
        for_all(&[rate], Fault::Trickle(Duration::from_millis(still)), 8_000_000, |cell, outcome| {
            others_verified(outcome)?;
            let others = outcome.others.ok_or("the others have not got everything")?;
            // Four timeouts, and then the rest of the transfer.
            let serial = if super::is_serial(cell.protocol) { RECEIVERS as u32 } else { 1 };
            let rest = Duration::from_secs(3) * serial;
            if others > DEFAULT_MEMBER_TIMEOUT * 4 + TIMEOUT_TOLERANCE + rest {
                return Err(format!("it held the others for {others:?}"));
            }
            Ok(())
        });
    }
}
