//! Guarantee, trial and forgeries for tests of MSAW.

use super::retransmission;
use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of MSAW.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "msaw",
    // One bit distinguishes a message from the one before it, so links must keep the order.
    guarantee: DeliveryGuarantee::Acknowledged { in_order: true, idle_feedback: None },
    trial: |trial| {
        let polls = ["1", "2", "16", "64"];
        trial.pick("retransmission", &["multicast", "unicast"]).pick("poll_interval", &polls);
        let negative = trial.chance(0.5);
        retransmission::trial(trial, !negative);
        if negative {
            let wait = ["10 us", "5 ms"];
            trial.set("feedback", "nak").set("retransmission", "multicast").pick("nak_wait", &wait);
        }
    },
    ..ProtocolTests::BASE
};

/// Tests of its unicast equivalent, which always uses positive acknowledgments.
pub(super) const UNICAST_TESTS: ProtocolTests =
    ProtocolTests { name: "saw", trial: |trial| retransmission::trial(trial, true), ..TESTS };
