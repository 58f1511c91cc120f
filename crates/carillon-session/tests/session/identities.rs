//! Identities of members, what they keep before they are admitted, and ends that nothing confirms.

use carillon_core::{DropReason, Machine as _, NodeId};
use carillon_session::{Gather, MemberOutcome, ReceiverFailure, ReceiverPhase, SenderPhase};
use carillon_wire::lms;
use carillon_wire::session::{Body, Nonce, Packet, Proof, RefuseReason, State, Text};

use super::harness::*;
use super::strangers::{STRANGER, invitation, join, packet, registry_receiver, run, welcomed};

/// A name that is bound to an address is not to be had from elsewhere.
#[test]
fn a_receiver_expected_at_an_address_is_let_in_from_there_only() {
    let mut config = sender_config(Gather::Names(["a".to_owned()].into()));
    // The numbered addresses: node n is 10.0.0.1 + n.
    config.hosts.insert("a".to_owned(), [10, 0, 0, 3].into());
    let mut machine = sender_with(config);
    let refused = give(&mut machine, ms(0), STRANGER, &join(1, "a")).packets();
    assert!(refused.iter().any(|text| text.ends_with("not expected")), "{refused:?}");
    give(&mut machine, ms(1), NodeId(2), &join(2, "a"));
    assert_eq!((machine.members().len(), machine.phase()), (1, SenderPhase::Running));
}

/// The low half of an identity is all that some packets have room for.
#[test]
fn two_members_never_share_the_low_half_of_their_identities() {
    let low = |nonce: u64| identity(nonce) as u32;
    let mut seen = std::collections::BTreeMap::new();
    let pair = (0..1_000_000u64).find_map(|nonce| seen.insert(low(nonce), nonce).map(|old| (old, nonce)));
    let (one, other) = pair.expect("among a million there are two");
    let mut machine = sender(Gather::Count(2));
    give(&mut machine, ms(0), NodeId(1), &join(one, "a"));
    let told = give(&mut machine, ms(1), NodeId(2), &join(other, "b")).packets();
    assert!(told.iter().any(|text| text.ends_with("another nonce")), "{told:?}");
    // A refused receiver tries another sender.
    let mut machine = receiver("b");
    let invite = invitation(ASSOCIATION.0, State::Gathering, "repeat", "");
    give(&mut machine, ms(0), SENDER, &invite);
    let nonce = |outbox: Outbox| match Packet::parse(&outbox.sent[0].1).unwrap().body {
        Body::Join { nonce, .. } => nonce,
        other => panic!("{other:?}"),
    };
    let first = nonce(wake(&mut machine, ms(21)));
    let refuse = Body::Refuse { nonce: first, reason: RefuseReason::Nonce, text: Text::default() };
    give(&mut machine, ms(22), SENDER, &packet(ASSOCIATION, refuse));
    give(&mut machine, ms(200), SENDER, &invite);
    assert_ne!(nonce(wake(&mut machine, ms(221))), first);
}

/// Data kept before the welcome are bounded, whichever node sends them.
#[test]
fn what_is_kept_before_the_welcome_is_bounded() {
    let mut machine = receiver("a");
    let invite = invitation(ASSOCIATION.0, State::Gathering, "repeat", "");
    give(&mut machine, ms(0), SENDER, &invite);
    let mut data = vec![0xca, 1, 200, 1];
    data.extend_from_slice(&ASSOCIATION.0.to_be_bytes());
    data.resize(2_000, 0);
    let kept =
        (0..2000).filter(|_| give(&mut machine, ms(1), SENDER, &data).drops(DropReason::BufferFull) == 0);
    assert_eq!(kept.count(), (1 << 20) / 2_000);
    let tiny = &data[..9];
    let mut machine = receiver("a");
    give(&mut machine, ms(0), SENDER, &invite);
    let kept =
        (0..5000).filter(|_| give(&mut machine, ms(1), SENDER, tiny).drops(DropReason::BufferFull) == 0);
    assert_eq!(kept.count(), 1024);
}

/// However much came before the welcome, all of it is handed on, in order and before later packets, with a bounded
/// number of events that wait to be recorded at any time.
#[test]
fn what_was_kept_before_the_welcome_is_handed_on_in_order() {
    let mut machine = registry_receiver("a", 2);
    let invite = invitation(ASSOCIATION.0, State::Gathering, "lms", "buffer=2048");
    give(&mut machine, ms(0), SENDER, &invite);
    let sent = wake(&mut machine, ms(21)).sent;
    let Body::Join { nonce, .. } = Packet::parse(&sent[0].1).unwrap().body else { panic!("{sent:?}") };
    let data = |number: u32| {
        let mut bytes = Vec::new();
        let data = lms::Data { sequence: number, oldest: 0, payload: &number.to_be_bytes() };
        lms::Packet::Data(data).emit(ASSOCIATION, &mut bytes);
        bytes
    };
    for number in 0..1000 {
        give(&mut machine, ms(21), SENDER, &data(number));
    }
    let welcome = packet(ASSOCIATION, Body::Welcome { nonce, member: 0, terms: terms_of(&invite) });
    let mut most = give(&mut machine, ms(22), SENDER, &welcome).events.len();
    give(&mut machine, ms(22), SENDER, &data(1000));
    let mut got = Vec::new();
    loop {
        while let Some(delivery) = machine.as_receiver().unwrap().poll_delivery() {
            got.push(delivery.message.0);
        }
        let now = machine.poll_timeout().unwrap();
        if now > ms(30) {
            break;
        }
        most = most.max(wake(&mut machine, now).events.len());
    }
    assert_eq!(got, (0..=1000).collect::<Vec<_>>());
    assert!(most < 600, "{most} events at once");
}

#[test]
fn identities_are_not_nonces() {
    let present = packet(ASSOCIATION, Body::Present { proof: Proof(5) });
    assert!(Packet::parse(&present).is_ok());
    let mut machine = sender(Gather::Count(1));
    give(&mut machine, ms(0), NodeId(1), &join(5, "a"));
    // What the group hears of a member opens nothing at the sender.
    let public = identity(5);
    assert_ne!(public, 5);
    let leave = packet(ASSOCIATION, Body::Leave { nonce: Nonce(public), text: Text::default() });
    assert_eq!(give(&mut machine, ms(1), NodeId(1), &leave).drops(DropReason::NotAMember), 1);
    assert_eq!(machine.members()[0].outcome, MemberOutcome::Active);
}

/// An end that is not confirmed is believed, unless the sender goes on. A packet that was in flight already is no
/// evidence.
#[test]
fn an_end_that_nobody_confirms_counts_unless_the_sender_goes_on() {
    let invitation = |state| invitation(ASSOCIATION.0, state, "repeat", "");
    for (heard, goes_on) in [(None, false), (Some(130), false), (Some(400), true)] {
        let mut machine = receiver("a");
        welcomed(&mut machine, &invitation(State::Gathering));
        give(&mut machine, ms(100), SENDER, &invitation(State::Finished));
        if let Some(heard) = heard {
            run(&mut machine, ms(heard));
            assert_eq!(machine.phase(), ReceiverPhase::Running, "it asks");
            give(&mut machine, ms(heard), SENDER, &invitation(State::Running));
        }
        run(&mut machine, ms(1000));
        let expelled = ReceiverPhase::Failed(ReceiverFailure::Expelled);
        let phase = if goes_on { ReceiverPhase::Running } else { expelled };
        assert_eq!(machine.phase(), phase, "heard at {heard:?}");
    }
}
