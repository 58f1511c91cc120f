//! Nodes of other releases: both ends name them, and no session is made of it.

use std::collections::BTreeMap;

use carillon_core::{Dest, Machine, NodeId};
use carillon_session::{Gather, ReceiverPhase, SenderSession, UnservedReason};
use carillon_wire::session::{Opening, OtherRelease, Release, State, WIRE_VERSION};

use super::harness::*;
use super::strangers::invitation;

/// The association of a sender's session, as it stands in its packets.
fn association(machine: &SenderSession) -> [u8; 4] {
    machine.association().0.to_be_bytes()
}

/// Releases from before wire versions get notices in their own formats, and both ends learn of the other.
#[test]
fn earlier_releases_are_told_and_noticed() {
    let mut machine = sender(Gather::Count(1));
    // A session may start with the first that joins: the notices go out with the first invitation.
    let mut notices = BTreeMap::new();
    for beat in 0..10 {
        for (_, bytes) in wake(&mut machine, ms(beat * 200)).sent {
            if bytes[..4] != [0xca, 3, 0, 1] {
                *notices.entry(bytes[1]).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(notices, BTreeMap::from([(1, 2), (2, 4)]));
    // A receiver of version 2 asks back, is answered in its format, and declines.
    let session = association(&machine);
    let earlier = |kind: u8, rest: &[u8]| [&[0xca, 2, 0, kind], &session[..], rest].concat();
    let asked = give(&mut machine, ms(2000), NodeId(9), &earlier(13, &[7; 8]));
    let answer = earlier(14, &[7; 8]);
    let answers = |(to, bytes): &(Dest, Vec<u8>)| *to == Dest::Node(NodeId(9)) && bytes.starts_with(&answer);
    assert!(asked.sent.iter().any(answers), "{:?}", asked.sent);
    assert!(machine.unserved().is_empty(), "one packet may be a damaged one");
    // Its DECLINE may be lost, and another receiver may ask meanwhile: it is named when it asks again.
    give(&mut machine, ms(2020), NodeId(8), &earlier(13, &[6; 8]));
    give(&mut machine, ms(2050), NodeId(9), &earlier(13, &[7; 8]));
    let [unserved] = machine.unserved() else { panic!("{:?}", machine.unserved()) };
    assert_eq!(unserved.reason, UnservedReason::Release(OtherRelease::Earlier(2)));
    give(&mut machine, ms(2100), NodeId(9), &earlier(12, b"\x01\x02bno"));
    let [unserved] = machine.unserved() else { panic!("{:?}", machine.unserved()) };
    assert_eq!((unserved.name.as_str(), unserved.node), ("b", NodeId(9)));
    assert_eq!(unserved.reason, UnservedReason::Release(OtherRelease::Earlier(2)));

    let mut machine = receiver("a");
    let mut old = invitation(7, State::Gathering, "repeat", "");
    old[1] = 2;
    let heard = give_to(&mut machine, ms(0), SENDER, Dest::group(GROUP), &old);
    assert!(machine.other_sender().is_none(), "one packet may be a damaged one");
    assert!(
        give_to(&mut machine, ms(100), SENDER, Dest::group(GROUP), &old).sent.is_empty(),
        "told once in a while"
    );
    let told = machine.other_sender().expect("another release");
    assert_eq!((told.node, told.release, &told.name), (SENDER, OtherRelease::Earlier(2), &None));
    assert_eq!((machine.phase(), machine.poll_timeout()), (ReceiverPhase::Seeking, None));
    let [(Dest::Node(SENDER), decline)] = &heard.sent[..] else { panic!("{:?}", heard.sent) };
    assert_eq!(decline[..4], [0xca, 2, 0, 12]);
}

/// Noise claims another release with each packet, so a receiver believes none of them.
#[test]
fn noise_is_no_other_release() {
    let mut machine = receiver("a");
    let claim = |wire: u8| {
        let mut bytes = invitation(7, State::Gathering, "repeat", "");
        bytes[9] = wire;
        bytes
    };
    for wire in 100..200 {
        give_to(&mut machine, ms(wire.into()), SENDER, Dest::group(GROUP), &claim(wire));
    }
    assert!(machine.other_sender().is_none());
    // Among it, a sender of another release is found.
    for wire in [77, 5, 6, 77] {
        give_to(&mut machine, ms(300), SENDER, Dest::group(GROUP), &claim(wire));
    }
    let release = machine.other_sender().expect("another release").release;
    assert!(matches!(release, OtherRelease::Version { wire: 77, .. }), "{release:?}");
}

/// Both ends name the other's release, whatever follows the opening, and no transfer takes place.
#[test]
fn other_wire_versions_are_named_at_both_ends() {
    let mut machine = receiver("a");
    let mut later = invitation(7, State::Gathering, "repeat", "");
    later[9] = 77;
    later[10..13].copy_from_slice(&[9, 8, 7]);
    later.truncate(20);
    later.extend([0xff; 9]);
    let heard = give_to(&mut machine, ms(0), SENDER, Dest::group(GROUP), &later);
    let release = OtherRelease::Version { release: Release { major: 9, minor: 8, patch: 7 }, wire: 77 };
    give_to(&mut machine, ms(100), SENDER, Dest::group(GROUP), &later);
    let told = machine.other_sender().expect("another release");
    assert_eq!((told.release, told.name.as_deref()), (release, Some("source")));
    let [(Dest::Node(SENDER), decline)] = &heard.sent[..] else { panic!("{:?}", heard.sent) };
    assert!(decline.len() <= 3 * later.len());

    // Each end reads the opening of the other's answer.
    let (session, opening) = Opening::peek(decline).expect("an opening");
    assert_eq!((session.0, opening.wire, &*opening.name), (7, WIRE_VERSION, "a"));
    let mut machine = sender(Gather::Count(1));
    wake(&mut machine, ms(0));
    let mut decline = decline.clone();
    decline[4..8].copy_from_slice(&association(&machine));
    decline[9..13].copy_from_slice(&[77, 9, 8, 7]);
    give(&mut machine, ms(10), NodeId(9), &decline);
    assert!(machine.unserved().is_empty(), "one packet may be a damaged one");
    give(&mut machine, ms(10), NodeId(9), &decline);
    let [unserved] = machine.unserved() else { panic!("{:?}", machine.unserved()) };
    assert_eq!((unserved.name.as_str(), &unserved.reason), ("a", &UnservedReason::Release(release)));
}
