//! Tests of one rule each, in packets at stated times.
//!
//! Rules without another reference are from section 2.8 of the thesis; "choice" refers to
//! docs/protocols/erramilli-singh.md.

mod group;
mod member;
mod receiving;
mod sending;

use carillon_core::{Config, ConfigError, Role};

use super::{ENTRY, ErramilliSinghPeer};
use member::context;

fn refusal(settings: &[(&str, &str)]) -> Option<ConfigError> {
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in settings {
        config.set(ENTRY.parameters, key, value).unwrap();
    }
    ErramilliSinghPeer::new(&context(0, false), &config).err()
}

#[test]
fn sequence_space_exceeds_back_window() {
    assert!(refusal(&[("b", "256"), ("n", "256")]).is_some());
    assert_eq!(refusal(&[("b", "256"), ("n", "257")]), None);
}

#[test]
fn intervals_are_not_zero_and_t2_is_not_the_shorter_one() {
    assert!(refusal(&[("t1", "0 ms")]).is_some());
    assert!(refusal(&[("t1", "20 ms"), ("t2", "10 ms")]).is_some());
    assert!(refusal(&[("t3", "2 h")]).is_some());
    assert_eq!(refusal(&[("t1", "20 ms"), ("t2", "20 ms")]), None);
}

#[test]
fn every_node_is_a_peer() {
    let config = Config::defaults(ENTRY.parameters);
    for role in [Role::Sender, Role::Receiver] {
        assert!((ENTRY.build)(role, &context(0, false), &config).is_err());
    }
}

#[test]
fn delivery_settings_are_settings() {
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in ENTRY.settings.delivery {
        config.set(ENTRY.parameters, key, value).unwrap();
    }
    assert!(ErramilliSinghPeer::new(&context(0, false), &config).is_ok());
}
