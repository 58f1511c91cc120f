//! Guarantee, trial and forgeries for tests of SNR, DSP, CSP and CP, which exchange complete states.

use std::time::Duration;

use carillon_wire::status::Family;

use super::{DeliveryGuarantee, ProtocolTests, Trial, TrialNetwork};
use crate::formats::status::forge_feedback;

/// Tests of SNR.
pub(super) const SNR: ProtocolTests = ProtocolTests {
    name: "snr",
    forge_feedback: Some(|lie, packet| forge_feedback(Family::Snr, lie, packet)),
    trial: draw,
    ..FAMILY
};

/// Tests of DSP.
pub(super) const DSP: ProtocolTests = ProtocolTests {
    name: "dsp",
    forge_feedback: Some(|lie, packet| forge_feedback(Family::Dsp, lie, packet)),
    trial: |trial| {
        draw_local(trial);
        trial.pick("source_to", &["all", "representatives"]);
    },
    ..FAMILY
};

/// Tests of CSP.
pub(super) const CSP: ProtocolTests = ProtocolTests {
    name: "csp",
    forge_feedback: Some(|lie, packet| forge_feedback(Family::Csp, lie, packet)),
    trial: |trial| {
        draw(trial);
        trial.pick("repair_to", &["all", "lacking"]);
    },
    ..FAMILY
};

/// Tests of CP.
pub(super) const CP: ProtocolTests = ProtocolTests {
    name: "cp",
    forge_feedback: Some(|lie, packet| forge_feedback(Family::Cp, lie, packet)),
    orders_members: true,
    trial: draw_local,
    ..FAMILY
};

const FAMILY: ProtocolTests = ProtocolTests {
    // An idle receiver keeps sending its state slowly, because it cannot know that no more data will come.
    guarantee: DeliveryGuarantee::Acknowledged {
        in_order: false,
        idle_feedback: Some(Duration::from_millis(100)),
    },
    rare: &[(
        "sender, for a block",
        "Waiting",
        "[*]",
        "the last child has to be given up while blocks wait for room",
    )],
    ..ProtocolTests::BASE
};

fn draw(trial: &mut Trial<'_>) {
    trial.count("window", 1, 40);
    trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
    trial.set("patience", if trial.max_attempts.is_some() { "3 s" } else { "20 s" });
    trial.pick("status_interval", &["5 ms", "10 ms", "20 ms"]);
    trial.pick("interval_method", &["constant", "formula"]);
    trial.pick("r_f", &["100", "120", "300"]);
    if trial.network == TrialNetwork::Ethernet {
        // Each status takes time on the shared medium.
        trial.set("status_interval", "50 ms").set("interval_method", "constant");
    }
}

/// Draws settings of protocols with local multicast.
fn draw_local(trial: &mut Trial<'_>) {
    draw(trial);
    trial.pick("scope", &["1", "2", "255"]);
    trial.pick("retransmission_buffer", &["0", "8"]);
}
