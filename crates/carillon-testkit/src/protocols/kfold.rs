//! Guarantee, trial and forgeries for tests of the example protocol.

use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of k-fold transmission.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "kfold",
    guarantee: DeliveryGuarantee::BestEffort,
    trial: |trial| {
        trial.count("copies", 1, 5).ms("interval", 2, 10);
    },
    ..ProtocolTests::BASE
};
