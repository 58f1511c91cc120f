//! Shared test code: a group harness with scripted loss, a reliability oracle, fuzz bodies.
//!
//! Tests pass protocols to the testkit as [`carillon_core::ProtocolEntry`]s; it does not depend on them. What suites
//! have to know of a protocol beyond its entry stands here too, by name ([`protocol_tests`], [`format_tests`]).
//!
//! A [`Group`] is one sender and some receivers of a protocol in a simulated world, over an Ethernet or over a
//! [`Star`] with scripted links. An [`Oracle`] at each receiver checks its deliveries. A [`MachineFixture`] is one
//! machine alone, for transcripts of packets, and a [`PeerFixture`] one peer of a group. [`for_each_run`] repeats a
//! test with many seeds, and prints the command that repeats a failed run.

mod checked_machine;
pub mod conformance;
mod exercise;
mod formats;
pub mod fuzz;
mod group;
pub mod heap;
mod hoarding_machine;
mod loopback;
mod machine_fixture;
mod measure;
mod metered_machine;
mod oracle;
mod peer_fixture;
mod protocols;
mod replay;
mod report;
mod routed;
mod skip;
mod star;
mod states;
mod tree;
mod vectors;

pub use checked_machine::CheckedMachine;
pub use exercise::{Exercise, exercised};
pub use formats::{FORMATS, FormatTests, Golden, format_tests};
pub use group::{Group, SENDER};
pub use hoarding_machine::HoardingMachine;
pub use loopback::{fresh_group, loopback_group, take_port};
pub use machine_fixture::{ASSOCIATION, MachineFixture, bits};
pub use measure::{median, peak_bytes, resident_bytes};
pub use metered_machine::MeteredMachine;
pub use oracle::{Contents, MessageSource, Oracle, Received};
pub use peer_fixture::{PeerFixture, peer_context};
pub use protocols::{
    DeliveryGuarantee, FeedbackForger, Forgery, MessageService, PROTOCOLS, ProtocolTests, RareTransition,
    Trial, TrialNetwork, protocol_tests,
};
pub use replay::{
    TestLocation, chosen, chosen_name, first_seed, for_each_run, is_long_or_skipped, is_long_tier,
    sampling_step, seeds, variable,
};
pub use report::{Datagram, Recorder, Report};
pub use routed::random_network;
pub use skip::{REQUIRE_NETWORK, can_make_namespaces, is_installed, skip, skip_anywhere};
pub use star::{Link, Star};
pub use states::{StateWatch, Transition, transitions_taken};
pub use tree::TREE;
pub use vectors::{assert_wire_vectors, recorded};
