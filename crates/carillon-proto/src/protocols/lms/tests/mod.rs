//! Tests of one rule each, in packets at stated times. `[N]` refers to the author's agents for ns-2, `choice` to
//! docs/protocols/lms.md.

mod fixture;
mod receiving;
mod routing;
mod sending;

use carillon_core::{ConfigError, Role};

use super::{ENTRY, LmsReceiver};
use crate::blocks::Player;
use fixture::{config, context};

fn refusal(settings: &[(&str, &str)]) -> Option<ConfigError> {
    LmsReceiver::new(&context(1), &config(settings)).err()
}

#[test]
fn waits_are_not_zero() {
    assert!(refusal(&[("setup_ivl", "0 s")]).is_some());
    assert!(refusal(&[("retry_max", "0 s")]).is_some());
    assert_eq!(refusal(&[("setup_ivl", "1 ns"), ("retry_max", "1 ms"), ("heartbeat", "0 s")]), None);
}

#[test]
fn there_are_no_peers() {
    assert!((ENTRY.build)(Role::Peer, &context(0), &config(&[])).is_err());
}

#[test]
fn delivery_settings_are_settings() {
    assert_eq!(refusal(ENTRY.settings.delivery), None);
}

#[test]
fn hundred_thousand_idle_receivers_fit_in_100_mb() {
    assert!(size_of::<Player<LmsReceiver>>() < 900, "{} bytes", size_of::<Player<LmsReceiver>>());
}
