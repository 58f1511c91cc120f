//! Tests of protocols, beyond their registry entries: the guarantee to which a protocol is held, how it
//! draws settings with which the guarantee holds, and how a dishonest member lies.
//!
//! A protocol has one file here and one line in [`PROTOCOLS`]. Suites find it by the name of the registry entry, and a
//! test checks that no entry is missing. Nothing of this is compiled into a product.

mod carillon;
mod chang_maxemchuk;
mod entry;
mod erramilli_singh;
mod ff;
mod flute;
mod guarantee;
mod kfold;
mod lms;
mod mbap;
mod msaw;
mod mtp;
mod norm;
mod pf;
mod pgm;
mod ramp;
mod retransmission;
mod rmp;
mod rmtp;
mod rra;
mod sequencer;
mod srm;
mod status;
mod tree;
mod trial;
mod views;
mod xtp;

use carillon_core::ProtocolEntry;

pub use entry::{ProtocolTests, RareTransition};
pub use guarantee::{DeliveryGuarantee, FeedbackForger, Forgery, MessageService};
pub use trial::{Trial, TrialNetwork};

/// Table of the protocols of the registry, and of the protocols that suites add.
pub const PROTOCOLS: &[ProtocolTests] = &[
    msaw::TESTS,
    msaw::UNICAST_TESTS,
    mbap::TESTS,
    mbap::UNICAST_TESTS,
    carillon::TESTS,
    rra::TESTS,
    ff::TESTS,
    pf::TESTS,
    pf::TREE_TESTS,
    chang_maxemchuk::TESTS,
    erramilli_singh::TESTS,
    sequencer::TESTS,
    mtp::TESTS,
    mtp::MTP2_TESTS,
    lms::TESTS,
    srm::TESTS,
    pgm::TESTS,
    pgm::PLAIN_TESTS,
    norm::TESTS,
    rmp::TESTS,
    rmtp::TESTS,
    ramp::TESTS,
    status::SNR,
    status::DSP,
    status::CSP,
    status::CP,
    xtp::TESTS,
    xtp::DATAGRAM_TESTS,
    kfold::TESTS,
    flute::TESTS,
    tree::TESTS,
];

/// Knowledge of the suites about this protocol.
///
/// A protocol that is not in the table, such as one from Python, is tried with what follows from its entry: it is held
/// to acknowledged delivery if its senders learn of delivery, and to best effort otherwise. Its trials set the
/// parameters `max_attempts` and `expels`, if it has them.
pub fn protocol_tests(entry: &ProtocolEntry) -> ProtocolTests {
    if let Some(found) = PROTOCOLS.iter().find(|tests| tests.name == entry.name) {
        return *found;
    }
    let guarantee = match entry.delivery.confirmed {
        true => DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
        false => DeliveryGuarantee::BestEffort,
    };
    ProtocolTests { name: entry.name, guarantee, trial: trial::draw_common, ..ProtocolTests::BASE }
}
