//! Best-effort protocols: they deliver nothing wrong, and everything without loss.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{lossy, same, with_drawn_settings};
use crate::{DeliveryGuarantee, Group, Link, TrialNetwork, protocol_tests};
use carillon_core::{BitRate, Event, Probability, ProtocolEntry, Seeds};
use carillon_sim::LanConfig;

/// Returns `Some` for the guarantee of these protocols.
pub fn best_effort(guarantee: &DeliveryGuarantee) -> Option<()> {
    matches!(guarantee, DeliveryGuarantee::BestEffort).then_some(())
}

/// Everything arrives over links that lose nothing.
///
/// # Errors
/// A violation of the guarantee.
pub fn lossless(entry: &'static ProtocolEntry, _promised: (), seed: u64) -> Result<(), String> {
    group(entry, seed, Link::default(), false).run().check_reliable()
}

/// Everything arrives through a port that carries a frame in 11 ms.
///
/// # Errors
/// A violation of the guarantee.
pub fn slow_port(entry: &'static ProtocolEntry, _promised: (), seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("best_effort.port");
    let group = Group::new(entry, seed).receivers(3).messages(20).max_payload(1400);
    let group = with_drawn_settings(group, entry, TrialNetwork::Ethernet, 4, &mut rng, |_| {});
    // A frame takes 11 ms.
    let (bit_rate, port_queue) = (BitRate::mbps(1), NonZeroU32::new(1 + rng.below(4) as u32));
    group.run_lan(LanConfig { bit_rate, port_queue, ..LanConfig::default() }).check_reliable()
}

/// Loss, duplication and reordering: nothing wrong is delivered, and each gap before the last message is reported.
///
/// # Errors
/// A violation of the guarantee.
pub fn unordered_links(entry: &'static ProtocolEntry, _promised: (), seed: u64) -> Result<(), String> {
    let mut rng = Seeds::new(seed).stream("best_effort.links");
    let link = Link {
        jitter: Duration::from_micros(rng.below(10_000)),
        duplication: Probability::new(rng.unit() * 0.3).expect("less than one"),
        ..lossy(&mut rng, 0.5)
    };
    let report = group(entry, seed, link, true).run();
    report.check_safety()?;
    for received in &report.receivers {
        let given_up = report.events.iter().filter_map(|event| match event.event {
            Event::LossFinal { message, .. } if event.node == received.node => Some(message.0),
            _ => None,
        });
        let mut known: Vec<u64> = received.deliveries.iter().map(|d| d.message.0).chain(given_up).collect();
        known.sort_unstable();
        // It cannot know of losses at the end.
        if known.iter().copied().ne(0..known.len() as u64) {
            return Err(format!("{} neither delivers nor tells of some", received.node));
        }
    }
    if !report.quiet {
        return Err("something is still to happen long after the sender has finished".to_owned());
    }
    Ok(())
}

/// Equal seeds give equal runs.
///
/// # Errors
/// A violation of the guarantee.
pub fn equal(entry: &'static ProtocolEntry, _promised: (), seed: u64) -> Result<(), String> {
    let group = group(entry, seed, Link::losing(0.2), true);
    same(|| group.run()).map(drop)
}

/// Runs a short form of the tests once.
///
/// # Errors
/// The first violation of the guarantee.
pub fn run_of_each_test(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let Some(()) = best_effort(&protocol_tests(entry).guarantee) else { return Ok(()) };
    group(entry, seed, Link::losing(0.2), true).run().check_safety()
}

fn group(entry: &'static ProtocolEntry, seed: u64, link: Link, is_lossy: bool) -> Group {
    let mut rng = Seeds::new(seed).stream("best_effort");
    let receivers = 1 + rng.below(8) as u32;
    let group = Group::new(entry, seed).receivers(receivers).messages(10 + rng.below(40)).all_links(link);
    with_drawn_settings(group, entry, TrialNetwork::Links, receivers + 1, &mut rng, |trial| {
        trial.is_lossy = is_lossy
    })
}
