//! Guarantee, trial and forgeries for tests of MBAP.

use std::time::Duration;

use super::retransmission;
use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of MBAP.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "mbap",
    // The sequence space is two windows, so links must keep the order. The acknowledgment timer of the thesis never
    // stops.
    guarantee: DeliveryGuarantee::Acknowledged {
        in_order: true,
        idle_feedback: Some(Duration::from_millis(20)),
    },
    trial: |trial| {
        let negative = trial.chance(0.5);
        retransmission::trial(trial, !negative);
        if negative {
            trial.set("feedback", "nak");
        }
        trial.pick("ack_timer", &["restart", "until-full-window"]).count("window", 1, 16);
        // The acknowledgment timeout must exceed the duration of a window.
        trial.set("ack_timeout", "20 ms");
    },
    ..ProtocolTests::BASE
};

/// Tests of its unicast equivalent.
pub(super) const UNICAST_TESTS: ProtocolTests = ProtocolTests { name: "bap", ..TESTS };
