//! Tests of protocols, beyond their registry entries: the guarantee to which a protocol is held, how it
//! draws settings with which the guarantee holds, and how a dishonest member lies.
//!
//! A protocol has one file here and one line in [`PROTOCOLS`]. Suites find it by the name of the registry entry, and a
//! test checks that no entry is missing. Nothing of this is compiled into a product.

mod carillon;
mod chang_maxemchuk;
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

use carillon_core::{Config, ProtocolEntry};

pub use guarantee::{DeliveryGuarantee, FeedbackForger, Forgery, MessageService};
pub use trial::{Trial, TrialNetwork};

/// Knowledge of the suites about a protocol.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolTests {
    /// Name of the registry entry.
    pub name: &'static str,
    /// Delivery guarantee.
    pub guarantee: DeliveryGuarantee,
    /// Draws settings with which the guarantee holds under the conditions of a trial.
    pub trial: fn(&mut Trial<'_>),
    /// Service of the message with this number in a group of `nodes` nodes, with these settings, if senders choose it
    /// for each message. Otherwise all messages have that of the guarantee.
    pub service: Option<fn(settings: &Config, nodes: u32, number: u64) -> MessageService>,
    /// Forger of a dishonest member's feedback, if suites are to try one.
    pub forge_feedback: Option<FeedbackForger>,
    /// True if members send each other messages on a third party's order, so that any member can pass false messages
    /// to others.
    pub orders_members: bool,
    /// Transitions of the entry's [states](carillon_core::States) that no run of the suites takes.
    pub rare: &'static [RareTransition],
}

/// Transition that no run takes: owner of the states, source, target, and the reason.
pub type RareTransition = (&'static str, &'static str, &'static str, &'static str);

impl ProtocolTests {
    /// Base of the table: best effort, with default settings.
    const BASE: ProtocolTests = ProtocolTests {
        name: "",
        guarantee: DeliveryGuarantee::BestEffort,
        trial: |_| {},
        service: None,
        forge_feedback: None,
        orders_members: false,
        rare: &[],
    };
}

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
