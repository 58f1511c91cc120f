//! Reasons why no run takes some transitions when views change.

/// Reason for rare transitions: the coordinator crashes within a few milliseconds.
pub(super) const CRASH: &str = "a coordinator would have to crash between two of its packets";
/// Reason for rare transitions: no run leaves out a live member.
pub(super) const LIVE: &str =
    "a live member would have to be left out: its coordinator has enough votes sooner";
/// Reason for rare transitions: no other member is left.
pub(super) const ALONE: &str = "a host would have to know that all others are gone for good";
