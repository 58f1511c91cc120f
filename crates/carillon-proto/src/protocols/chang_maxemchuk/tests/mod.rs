//! Tests of one rule each, in packets at stated times.
//!
//! Rules without another reference are from section 2.9.1 of the thesis; "choice" refers to
//! docs/protocols/chang-maxemchuk.md.

mod failures;
mod receiving;
mod site;
mod token;

use bytes::Bytes;
use carillon_core::{Config, ConfigError, Role};
use carillon_wire::chang_maxemchuk::{Ack, Id};
use carillon_wire::reformation::{Ballot, Ranks};

use super::config::Settings;
use super::context::Context;
use super::order::Order;
use super::{ENTRY, Peer};
use crate::blocks::reformation::View;
use site::context;

fn refusal(settings: &[(&str, &str)], sites: u32) -> Option<ConfigError> {
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in settings {
        config.set(ENTRY.parameters, key, value).unwrap();
    }
    let mut build = context(0);
    if sites != 3 {
        build.members = (0..sites).map(carillon_core::NodeId).collect();
    }
    Peer::new(&build, &config).err()
}

#[test]
fn intervals_are_not_zero() {
    for name in ["message_timeout", "transfer_timeout", "request_timeout", "confirm_timeout", "idle_timeout"]
    {
        assert!(refusal(&[(name, "0 ms")], 3).is_some(), "{name}");
    }
    assert_eq!(refusal(&[("tail", "none"), ("idle_timeout", "0 ms")], 3), None);
}

#[test]
fn a_group_is_not_larger_than_a_list_in_a_packet() {
    assert_eq!(refusal(&[], 128), None);
    assert!(refusal(&[], 129).is_some());
}

#[test]
fn every_node_is_a_peer() {
    let config = Config::defaults(ENTRY.parameters);
    for role in [Role::Sender, Role::Receiver] {
        assert!((ENTRY.build)(role, &context(0), &config).is_err());
    }
}

#[test]
fn delivery_settings_are_settings() {
    assert_eq!(refusal(ENTRY.settings.delivery, 3), None);
}

#[test]
fn entry_beyond_a_gap_is_held_once() {
    let build = context(1);
    let settings = Settings::new(&build, &Config::defaults(ENTRY.parameters)).unwrap();
    let mut context = Context::of_member(&build, 3).unwrap();
    let view = View { ballot: Ballot::default(), members: Ranks::below(3), joiners: Ranks::default() };
    let mut order = Order::new(&build, settings, view);
    let id = Id { source: 0, number: 1 };
    let ack = Ack { site: 0, timestamp: 1, next: 0, message: Some(id) };
    order.on_ack(&mut context, ack, Some(Bytes::from_static(b"m")));
    assert_eq!(order.held(), 1);
}
