//! Registry of protocols: one module and one entry for each.

pub mod carillon;
pub mod chang_maxemchuk;
pub mod cp;
pub mod csp;
pub mod dsp;
pub mod erramilli_singh;
pub mod ff;
#[cfg(feature = "flute")]
pub mod flute;
pub mod kfold;
pub mod lms;
pub mod mbap;
pub mod msaw;
pub mod mtp;
pub mod norm;
pub mod pf;
pub mod pgm;
pub mod prmp;
pub mod ramp;
pub mod rmp;
pub mod rmtp;
pub mod rra;
pub mod sequencer;
pub mod snr;
pub mod srm;
pub mod xtp;

use carillon_core::ProtocolEntry;

/// Registered protocols, in the order in which `carillon protocols` lists them.
pub const REGISTRY: &[&ProtocolEntry] = &[
    &msaw::ENTRY,
    &msaw::UNICAST_ENTRY,
    &mbap::ENTRY,
    &mbap::UNICAST_ENTRY,
    &carillon::ENTRY,
    &rra::ENTRY,
    &ff::ENTRY,
    &pf::ENTRY,
    &prmp::ENTRY,
    &chang_maxemchuk::ENTRY,
    &erramilli_singh::ENTRY,
    &sequencer::ENTRY,
    &mtp::ENTRY,
    &mtp::MTP2_ENTRY,
    &lms::ENTRY,
    &srm::ENTRY,
    &pgm::ENTRY,
    &norm::ENTRY,
    &rmp::ENTRY,
    &rmtp::ENTRY,
    &ramp::ENTRY,
    &snr::ENTRY,
    &dsp::ENTRY,
    &csp::ENTRY,
    &cp::ENTRY,
    &xtp::ENTRY,
    &xtp::DATAGRAM_ENTRY,
    &kfold::ENTRY,
];

/// Protocols that have plain sessions only, and no sessions of Carillon.
pub const PLAIN_ONLY: &[&ProtocolEntry] = &[
    #[cfg(feature = "flute")]
    &flute::ENTRY,
];

/// Protocol with this name; `None` if it is not in the registry.
pub fn find(name: &str) -> Option<&'static ProtocolEntry> {
    REGISTRY.iter().copied().find(|entry| entry.name == name)
}

/// Protocol with this name that has plain sessions; `None` if there is none.
pub fn find_plain(name: &str) -> Option<&'static ProtocolEntry> {
    REGISTRY.iter().chain(PLAIN_ONLY).copied().find(|entry| entry.name == name && entry.plain.is_some())
}
