//! Guarantee, trial and forgeries for tests of RMP.

use carillon_core::{Config, Order};
use carillon_wire::rmp::Quality;

use super::views::{ALONE, CRASH};
use super::{DeliveryGuarantee, MessageService, ProtocolTests, TrialNetwork};

/// Tests of RMP.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "rmp",
    // A message with enough resilience survives as many crashes as leave a majority.
    guarantee: DeliveryGuarantee::Peers { crashes: |nodes| (nodes - 1) / 2 },
    service: Some(promise),
    trial: |trial| {
        trial.pick_any("qos").pick_any("other_qos").count("other_every", 0, 4);
        let crashes: u64 = trial.crashes.into();
        trial
            .count("resilience", crashes, (u64::from(trial.nodes) - crashes).max(1))
            .set("failures", crashes);
        trial.pick("nack", &["multicast", "source", "token-site"]).pick("flow", &["adaptive", "fixed"]);
        trial.ms("nack_delay", 0, 20).count("batch", 1, 16).count("window", 1, 16);
        trial.set("data_timeout", "50 ms").set("pass_timeout", "30 ms").ms("request_timeout", 15, 20);
        trial.pick("lists", &["ordered", "reformation"]);
        trial.pick("timeouts", &["measured", "fixed"]).ms("timeout_min", 5, 20);
        trial.ms("confirm_timeout", 1, 15).ms("idle_interval", 5, 50).ms("max_idle_interval", 50, 150);
        // Heavy loss without crashes needs many retries, so that no live member is expelled.
        let patient = trial.crashes == 0 || trial.network == TrialNetwork::Loopback;
        trial.set("retries", if patient { 40 } else { 8 });
    },
    rare: &[
        ("member, when views change", "Inviting", "Leading", ALONE),
        ("member, when views change", "Collecting", "Leading", ALONE),
        ("member, when views change", "Accepting", "Waiting", CRASH),
        ("member, when views change", "Ready", "Waiting", MEASURED),
        ("member, when views change", "Collecting", "Waiting", MEASURED),
    ],
    ..ProtocolTests::BASE
};

/// Reason for rare transitions at the end of a waiting time.
const MEASURED: &str = "answers come before the measured waiting times end, but in a divided network";

/// Service of the message with this number, with these settings in a group of `nodes` members.
fn promise(settings: &Config, nodes: u32, number: u64) -> MessageService {
    let quality = quality(settings, number);
    let others = nodes - 1;
    MessageService {
        is_reliable: quality != Quality::Unreliable,
        order: match quality {
            Quality::Unreliable | Quality::Reliable => Order::Arrival,
            Quality::SourceOrdered => Order::Source,
            _ => Order::Total,
        },
        // Crashed members leave the ring smaller, but this many members besides the token site hold the message when
        // it is delivered.
        crashes: match quality {
            Quality::Resilient(resilience) => others.min(resilience.into()),
            Quality::MajorityResilient => nodes / 2,
            Quality::TotallyResilient => others,
            _ => 0,
        },
    }
}

/// Quality of the message with this number: that of `qos`, and that of `other_qos` for every n-th one.
fn quality(settings: &Config, number: u64) -> Quality {
    let resilience = Quality::Resilient(settings.count("resilience") as u8);
    let named = |key: &str| match settings.choice(key) {
        "unreliable" => Some(Quality::Unreliable),
        "reliable" => Some(Quality::Reliable),
        "source" => Some(Quality::SourceOrdered),
        "total" => Some(Quality::TotallyOrdered),
        "resilient" => Some(resilience),
        "majority" => Some(Quality::MajorityResilient),
        "totally-resilient" => Some(Quality::TotallyResilient),
        _ => None,
    };
    let in_turn = [
        Quality::TotallyOrdered,
        Quality::Reliable,
        Quality::SourceOrdered,
        resilience,
        Quality::Unreliable,
        Quality::MajorityResilient,
        Quality::TotallyResilient,
    ];
    let every = settings.count("other_every");
    let is_other = every > 0 && number % every == every - 1;
    let other = named("other_qos").filter(|_| is_other);
    other.or_else(|| named("qos")).unwrap_or(in_turn[(number % 7) as usize])
}
