//! Transcripts of single rules of the protocol, as docs/protocols/rmp.md states them.

mod fixture;
mod group;
mod lists;
mod qualities;
mod repair;
mod token;

use carillon_core::Config;
use carillon_testkit::peer_context;

use super::{ENTRY, Peer};

#[test]
fn intervals_are_not_zero() {
    let nodes: Vec<_> = (0..3).map(carillon_core::NodeId).collect();
    let names = ["data_timeout", "pass_timeout", "request_timeout", "confirm_timeout", "idle_interval"];
    for name in names.into_iter().chain(["max_idle_interval", "reform_timeout"]) {
        let mut config = Config::defaults(ENTRY.parameters);
        config.set(ENTRY.parameters, name, "0 ms").unwrap();
        assert!(Peer::new(&peer_context(&nodes, 0, false), &config).is_err(), "{name}");
    }
}

#[test]
fn group_has_at_most_128_members() {
    let config = Config::defaults(ENTRY.parameters);
    for (members, fits) in [(128, true), (129, false)] {
        let nodes: Vec<_> = (0..members).map(carillon_core::NodeId).collect();
        assert_eq!(Peer::new(&peer_context(&nodes, 0, false), &config).is_ok(), fits);
    }
}
