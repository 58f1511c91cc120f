//! Guarantee, trial and forgeries for tests of the tree protocol for tests of helpers.

use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of the tree.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "test-tree",
    guarantee: DeliveryGuarantee::Acknowledged { in_order: true, idle_feedback: None },
    ..ProtocolTests::BASE
};
