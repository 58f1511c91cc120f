//! Tests of the sequencer protocol, one rule each, as packets at given times. Rules without a reference are in
//! section 2.7 of the thesis or in `docs/protocols/sequencer.md`.

mod fixture;
mod group;
mod member;
mod membership;
mod order;
mod sequencing;

use carillon_core::{Config, Role};

use super::{ENTRY, SequencerPeer};
use fixture::context;

#[test]
fn every_node_is_a_peer() {
    let config = Config::defaults(ENTRY.parameters);
    for role in [Role::Sender, Role::Receiver] {
        assert!((ENTRY.build)(role, &context(0, false), &config).is_err());
    }
}

#[test]
fn group_size_is_limited_by_rank_set() {
    let config = Config::defaults(ENTRY.parameters);
    let group = |count: u32| {
        let members = (0..count).map(carillon_core::NodeId).collect();
        let node = carillon_core::NodeId(0);
        SequencerPeer::new(&carillon_core::BuildContext { node, members, ..context(0, false) }, &config)
    };
    assert!(group(256).is_ok());
    assert!(group(257).is_err());
}

#[test]
fn delivery_settings_are_settings() {
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in ENTRY.settings.delivery {
        config.set(ENTRY.parameters, key, value).unwrap();
    }
    assert!(SequencerPeer::new(&context(0, false), &config).is_ok());
}
