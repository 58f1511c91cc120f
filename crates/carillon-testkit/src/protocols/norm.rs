//! Guarantee, trial and forgeries for tests of NORM.

use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of NORM.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "norm",
    // The sender repairs everything in its cache. Probes and FLUSH commands come once and half per round-trip time,
    // which is at least grtt_min; each receiver sends at most one NACK in K + 2 of them.
    guarantee: DeliveryGuarantee::ByRequest { control_per_node_and_second: 20.0, repeated_by_routers: None },
    // The cache holds all messages of a trial, and FLUSH commands go on until every receiver has what it lacks. Where
    // one packet in eight passes a path, a long wait before each NACK takes more than a trial lasts.
    trial: |trial| {
        trial.pick("block", &["1", "4", "16", "64"]).pick("parity", &["0", "1", "8", "32"]);
        trial.pick("auto_parity", &["0", "0", "2"]).count("backoff_factor", 0, 3);
        trial.pick("group_size", &["10", "1000"]).ms("grtt", 20, 300).ms("grtt_min", 50, 100);
        trial.ms("probe_max", 500, 1000).set("robust_factor", 1_000_000).set("cache_time", "600 s");
        trial.pick("feedback", &["multicast", "unicast"]).pick("nack_bytes", &["200", "1200"]);
    },
    ..ProtocolTests::BASE
};
