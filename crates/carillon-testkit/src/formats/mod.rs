//! Packets of all formats for suites: fuzzed ones, and golden ones, which never change.
//!
//! A format has one file here and one line in [`FORMATS`]. Suites find it by the name of the format. Nothing of this is
//! compiled into a product.

mod alc;
mod carillon;
mod chang_maxemchuk;
mod entry;
mod erramilli_singh;
mod feedback;
pub(crate) mod ff;
mod kfold;
mod lms;
mod mbap;
mod msaw;
mod mtp;
mod norm;
pub(crate) mod pf;
mod pgm;
pub(crate) mod ramp;
mod reformation;
mod rmp;
pub(crate) mod rmtp;
mod rra;
mod sequencer;
mod srm;
pub(crate) mod status;
mod tree;
mod xtp;

use carillon_core::Format;

pub use entry::{FormatTests, Golden};

/// Packets of all formats of the registry, and of the tree protocol of the suites.
pub const FORMATS: &[&FormatTests] = &[
    &alc::TESTS,
    &carillon::TESTS,
    &chang_maxemchuk::TESTS,
    &erramilli_singh::TESTS,
    &ff::TESTS,
    &kfold::TESTS,
    &lms::TESTS,
    &mbap::TESTS,
    &msaw::TESTS,
    &mtp::TESTS,
    &norm::TESTS,
    &pf::TESTS,
    &pgm::TESTS,
    &ramp::TESTS,
    &rmp::TESTS,
    &rmtp::TESTS,
    &rra::TESTS,
    &sequencer::TESTS,
    &srm::TESTS,
    &xtp::TESTS,
    &status::SNR,
    &status::DSP,
    &status::CSP,
    &status::CP,
    &tree::TESTS,
];

/// Packets of this format.
///
/// # Panics
///
/// Panics if the table does not have it.
pub fn format_tests(format: &Format) -> &'static FormatTests {
    let found = FORMATS.iter().find(|tests| tests.format.name == format.name);
    found.unwrap_or_else(|| panic!("{} has no line in crates/carillon-testkit/src/formats", format.name))
}
