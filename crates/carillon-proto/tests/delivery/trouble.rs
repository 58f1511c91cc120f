//! Members that fall silent, forge feedback, join late or leave, and helpers that crash, for every acknowledged
//! protocol, with a chain of helpers if it supports them. The other members are complete within the time stated in
//! docs/explanation/delivery.md, and no incomplete member is verified.

use carillon_core::{Duration, Helpers, ProtocolEntry};
use carillon_proto::REGISTRY;
use carillon_session::{DEFAULT_MEMBER_TIMEOUT, MemberOutcome};
use carillon_testkit::{DeliveryGuarantee, Forgery, chosen, is_long_tier, protocol_tests, seeds};

use super::cell::{Cell, Fault, Outcome};
use super::network::World;

const RECEIVERS: usize = 3;
const HELPERS: usize = 2;

fn cell(protocol: &'static ProtocolEntry, fault: Fault, midway: bool, seed: u64) -> Cell {
    Cell {
        protocol,
        loss: 0.05,
        receivers: RECEIVERS,
        delay: Duration::from_millis(10),
        bytes: 300_000,
        seed,
        settings: Vec::new(),
        // Slow enough that the fault comes while others wait.
        rate: Some(2_000_000),
        fault,
        midway,
        helpers: if protocol.helpers == Helpers::None { 0 } else { HELPERS },
    }
}

/// Protocols with acknowledged delivery that serve all receivers together.
fn acknowledged_protocols() -> impl Iterator<Item = &'static ProtocolEntry> {
    let all = REGISTRY.iter().copied();
    all.filter(|entry| {
        matches!(protocol_tests(entry).guarantee, DeliveryGuarantee::Acknowledged { .. })
            && !super::is_serial(entry)
    })
}

/// Runs these protocols and panics with all failures.
fn for_all(
    entries: impl Iterator<Item = &'static ProtocolEntry>,
    fault: Fault,
    midway: bool,
    check: impl Fn(&Outcome, Duration) -> Result<(), String>,
) {
    let entries: Vec<_> = entries.collect();
    assert!(!entries.is_empty(), "no protocol promises this");
    let mut failures = Vec::new();
    for entry in chosen(REGISTRY, entries) {
        for seed in seeds(if is_long_tier() { 2 } else { 1 }) {
            let run = |fault| World::new(&cell(entry, fault, midway, seed)).run(Duration::from_secs(300));
            let baseline = run(Fault::None).closed.expect("it comes to an end");
            let outcome = run(fault);
            assert!(outcome.messages > 0 && outcome.sent > 0, "{}: nothing was sent", entry.name);
            println!(
                "{:8} {fault:?} {seed}: {:?}, closed after {:?} ({baseline:?}), others done after {:?}, given up after {:?}, last {:?}",
                entry.name, outcome.got, outcome.closed, outcome.others, outcome.expelled_after, outcome.last
            );
            if let Err(failure) = check_honest(&outcome).and_then(|()| check(&outcome, baseline)) {
                failures.push(format!("{}, {fault:?}, {seed}: {failure}: {outcome:#?}", entry.name));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Checks that the session ends, the other members are complete, and no incomplete member is verified.
fn check_honest(outcome: &Outcome) -> Result<(), String> {
    if !outcome.over {
        return Err("it does not end".to_owned());
    }
    for (receiver, &(got, verified)) in (1..).zip(&outcome.got) {
        if verified && got < outcome.messages {
            return Err(format!("receiver {receiver} has not got what it is said to have"));
        }
        if receiver < RECEIVERS && !verified {
            return Err(format!("receiver {receiver} has not got everything"));
        }
    }
    Ok(())
}

fn all_verified(outcome: &Outcome) -> Result<(), String> {
    match outcome.got.iter().all(|(_, verified)| *verified) {
        true => Ok(()),
        false => Err("not all have everything".to_owned()),
    }
}

/// Checks that the time after the fault exceeds three times the usual by at most `extra`.
fn within(time: Option<Duration>, baseline: Duration, extra: Duration) -> Result<(), String> {
    let (time, max) = (time.unwrap_or(Duration::MAX), baseline * 3 + TIMEOUT_TOLERANCE + extra);
    if time > max { Err(format!("it took {time:?}, more than {max:?}")) } else { Ok(()) }
}

#[test]
fn silent_member_is_expelled_without_its_helper() {
    for_all(acknowledged_protocols(), Fault::Kill, true, |outcome, baseline| {
        within(outcome.closed, baseline, DEFAULT_MEMBER_TIMEOUT)?;
        match outcome.last.as_ref().map(|(last, _)| last) {
            Some(MemberOutcome::Lost(_)) => Ok(()),
            other => Err(format!("it is not lost but {other:?}")),
        }
    });
}

#[test]
fn member_that_leaves_is_not_awaited() {
    for_all(acknowledged_protocols(), Fault::Leave, true, |outcome, baseline| {
        within(outcome.closed, baseline, Duration::ZERO)?;
        match outcome.last.as_ref().map(|(last, _)| last) {
            Some(MemberOutcome::Failed(reason)) if reason.contains("no time") => Ok(()),
            // A lost LEAVE looks like silence.
            other => Err(format!("it has not left but {other:?}")),
        }
    });
}

#[test]
fn complete_member_that_leaves_is_not_awaited() {
    for_all(acknowledged_protocols(), Fault::LeaveVerified, true, |outcome, baseline| {
        within(outcome.closed, baseline, Duration::ZERO)
    });
}

#[test]
fn late_member_is_refused_and_reported() {
    for_all(acknowledged_protocols(), Fault::Late, true, |outcome, baseline| {
        all_verified(outcome)?;
        within(outcome.closed, baseline, Duration::ZERO)?;
        // A late receiver is named after it answered the challenge, unless the session ended before.
        let has_time = outcome.closed.is_some_and(|closed| closed >= JOIN_TIME);
        match outcome.unserved.is_empty() && has_time {
            true => Err("it is not named".to_owned()),
            false => Ok(()),
        }
    });
}

/// The forger forgoes messages that it claims to have; claims of unsent messages are ignored.
#[test]
fn forged_feedback_harms_the_forger_alone() {
    for forgery in [Forgery::Complete, Forgery::Ahead(2), Forgery::Ahead(1 << 18), Forgery::UnlimitedRoom] {
        let forging = acknowledged_protocols().filter(|entry| protocol_tests(entry).forge_feedback.is_some());
        for_all(forging, Fault::Forgery(forgery), false, |outcome, baseline| {
            within(outcome.others, baseline, DEFAULT_MEMBER_TIMEOUT * 2)?;
            // It still sends keepalives, but reports no progress.
            within(outcome.closed, baseline, DEFAULT_MEMBER_TIMEOUT * 5)
        });
    }
}

#[test]
fn crashed_helper_loses_no_message_of_its_children() {
    for helper in 0..HELPERS {
        for midway in [false, true] {
            let helped = acknowledged_protocols().filter(|entry| entry.helpers != Helpers::None);
            for_all(helped, Fault::KillHelper(helper), midway, |outcome, baseline| {
                all_verified(outcome)?;
                within(outcome.closed, baseline, DEFAULT_MEMBER_TIMEOUT * 2)
            });
        }
    }
}

/// The notice of one crash says nothing of the other.
#[test]
fn helper_and_member_crash_together_without_loss() {
    for helper in 0..HELPERS {
        let helped = acknowledged_protocols().filter(|entry| entry.helpers != Helpers::None);
        for_all(helped, Fault::KillBoth(helper), true, |outcome, baseline| {
            within(outcome.closed, baseline, DEFAULT_MEMBER_TIMEOUT * 2)
        });
    }
}

/// Tolerance of a timeout and of the recovery after it.
const TIMEOUT_TOLERANCE: Duration = Duration::from_secs(1);

/// Time for INVITE, JOIN, challenge and answer, each of which may be lost.
const JOIN_TIME: Duration = Duration::from_millis(200);
