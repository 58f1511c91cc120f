//! A conversation that was recorded with this wire version is still understood, from the invitation to the report.
//!
//! The file has one line for each datagram: microseconds, the node that sent it (0 is the sender), and its bytes. A receiver
//! is given what the recorded sender said, and has everything; a sender is given what the recorded receiver said, and takes
//! it for a member. Nonces are drawn anew in each session, so that the recorded one is exchanged for the new one.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::rc::Rc;

use carillon_core::{Duration, NodeId, Receiver as _, Seeds, Time};
use carillon_proto::REGISTRY;
use carillon_session::{
    Gather, ReceiverPhase, ReceiverSession, ReceiverSessionConfig, SenderSession, SenderSessionConfig,
};
use carillon_wire::session::{Body, Nonce, Packet, WIRE_VERSION};

use super::harness::*;

/// Messages of the conversation.
const MESSAGES: usize = 30;

/// Datagram of the conversation.
struct Said {
    at: Time,
    from: NodeId,
    bytes: Vec<u8>,
}

fn path() -> PathBuf {
    let name = format!("tests/vectors/conversation-{WIRE_VERSION}.txt");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn new_sender() -> SenderSession {
    let entry = REGISTRY.iter().find(|entry| entry.name == "carillon").expect("it is in the registry");
    let mut config = SenderSessionConfig::new(ASSOCIATION, "source", GROUP, entry, 100);
    config.gather = Gather::Count(1);
    sender_with(config)
}

fn new_receiver(seed: u64) -> ReceiverSession {
    ReceiverSession::new(ReceiverSessionConfig::new("a", GROUP, REGISTRY), Seeds::new(seed))
}

/// Records a conversation with every seventh datagram lost in both directions.
fn record() -> String {
    let mut world = World::new(new_sender(), MESSAGES as u64);
    world.join(new_receiver(2));
    let lines = Rc::new(RefCell::new(String::new()));
    let (to, mut count) = (Rc::clone(&lines), 0);
    world.lose = Box::new(move |now, from, _, bytes| {
        count += 1;
        let is_lost = count % 7 == 0;
        if !is_lost {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(to.borrow_mut(), "{} {} {hex}", now.as_nanos() / 1000, from.0).expect("room for a line");
        }
        is_lost
    });
    world.run(ms(20_000));
    assert_eq!(world.peers[0].got, MESSAGES as u64);
    assert_eq!(world.phase(0), ReceiverPhase::Finished);
    drop(world);
    lines.take()
}

fn conversation() -> Vec<Said> {
    let text = carillon_testkit::recorded(&path(), record);
    let said = |line: &str| {
        let mut words = line.split(' ');
        let micros: u64 = words.next()?.parse().ok()?;
        let from: u32 = words.next()?.parse().ok()?;
        let digits = words.next()?.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        Some(Said { at: Time::ZERO + Duration::from_micros(micros), from: NodeId(from), bytes: bytes? })
    };
    text.lines().map(|line| said(line).expect("a line of a conversation")).collect()
}

fn join_nonce(bytes: &[u8]) -> Option<Nonce> {
    match Packet::parse(bytes).ok()?.body {
        Body::Join { nonce, .. } => Some(nonce),
        _ => None,
    }
}

/// The bytes with one nonce in the place of the other.
fn exchanged(bytes: &[u8], from: Nonce, to: Nonce) -> Vec<u8> {
    let (from, to) = (from.0.to_be_bytes(), to.0.to_be_bytes());
    let mut bytes = bytes.to_vec();
    while let Some(at) = bytes.windows(8).position(|window| window == from && from != to) {
        bytes[at..at + 8].copy_from_slice(&to);
    }
    bytes
}

#[test]
fn a_receiver_understands_the_recorded_sender() {
    let said = conversation();
    let old = said.iter().find_map(|one| join_nonce(&one.bytes)).expect("a JOIN");
    let mut machine = new_receiver(77);
    let (mut now, mut new, mut sent) = (Time::ZERO, None, Vec::new());
    let mut step = |machine: &mut ReceiverSession, now: Time, given: Option<&[u8]>| {
        let outbox = match given {
            Some(bytes) => give(machine, now, NodeId(0), bytes),
            None => wake(machine, now),
        };
        sent.extend(outbox.sent.into_iter().map(|(_, bytes)| bytes));
        sent.iter().find_map(|bytes| join_nonce(bytes))
    };
    let (mut got, mut reported) = (0, false);
    for one in said.iter().filter(|one| one.from == NodeId(0)) {
        now = now.max(one.at);
        // What goes to the receiver alone answers its JOIN.
        let is_answer = matches!(Packet::parse(&one.bytes), Ok(Packet { body: Body::Welcome { .. }, .. }));
        while is_answer && new.is_none() {
            now += Duration::from_millis(1);
            assert!(now < ms(5000), "the receiver asks to join");
            new = step(&mut machine, now, None);
        }
        let bytes = exchanged(&one.bytes, old, new.unwrap_or(old));
        new = new.or(step(&mut machine, now, Some(&bytes)));
        while machine.poll_delivery().is_some() {
            got += 1;
        }
        if got == MESSAGES && !std::mem::replace(&mut reported, true) {
            machine.report(now, 10 * MESSAGES as u64, Ok(()));
            step(&mut machine, now, None);
        }
    }
    assert_eq!(got, MESSAGES);
    assert_eq!(machine.phase(), ReceiverPhase::Finished);
    assert!(machine.report_acknowledged());
}

#[test]
fn a_sender_understands_the_recorded_receiver() {
    let said = conversation();
    let mut machine = new_sender();
    wake(&mut machine, Time::ZERO);
    let mut heard = 0;
    for one in said.iter().filter(|one| one.from == NodeId(1)) {
        let outbox = give(&mut machine, one.at, NodeId(1), &one.bytes);
        assert_eq!(outbox.drops(carillon_core::DropReason::Malformed), 0);
        heard += 1;
    }
    assert!(heard >= 3, "{heard}");
    assert_eq!(machine.members().len(), 1);
    assert_eq!(machine.members()[0].name, "a");
}

/// Names of the settings in an invitation.
fn invited_settings(bytes: &[u8]) -> Option<Vec<String>> {
    match Packet::parse(bytes).ok()?.body {
        Body::Invite(invite) => Some(invite.settings.pairs().map(|(name, _)| name.to_owned()).collect()),
        _ => None,
    }
}

/// A receiver refuses an invitation with a setting that it does not know, so a receiver of the recorded release
/// understands this one's sender only if no setting is new or renamed.
#[test]
fn invitations_have_the_recorded_settings() {
    let recorded = conversation().iter().find_map(|one| invited_settings(&one.bytes)).expect("an INVITE");
    let sent = wake(&mut new_sender(), Time::ZERO).sent;
    let own = sent.iter().find_map(|(_, bytes)| invited_settings(bytes)).expect("an INVITE");
    assert_eq!(own, recorded);
}
