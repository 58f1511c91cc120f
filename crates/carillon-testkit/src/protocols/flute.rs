//! Guarantee, trial and forgeries for tests of FLUTE.

use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of FLUTE.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "flute",
    // Nothing comes back: a file that neither parity nor the carousel repairs is lost.
    guarantee: DeliveryGuarantee::BestEffort,
    trial: |trial| {
        trial
            .pick("fec", &["reed-solomon", "no-code", "raptor", "raptorq"])
            .pick("block", &["4", "16", "64"]);
        trial.pick("parity", &["0", "2", "16"]).count("carousel", 1, 3).pick("version", &["1", "2"]);
        trial.pick("content_encoding", &["none", "gzip"]).set("rate", "500 kbit/s").set("burst", "0");
        trial.count("close_packets", 1, 3);
    },
    ..ProtocolTests::BASE
};
