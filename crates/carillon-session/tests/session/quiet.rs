//! Start after a quiet time: how soon a session starts without a list of receivers, and which receivers it misses.

use carillon_core::{
    AssociationId, Dest, Duration, Machine as _, NodeId, PortId, Received, Scope, Seeds, Time,
};
use carillon_session::{
    Gather, ReceiverPhase, ReceiverSession, SenderPhase, SenderSession, SenderSessionConfig, UnservedReason,
};
use carillon_testkit::sampling_step;
use carillon_wire::session::{Body, Nonce, Packet};

use super::harness::*;
use super::kind;
use super::strangers::join;

/// Sender that waits for at most two seconds after the first join.
fn config() -> SenderSessionConfig {
    let mut config = sender_config(Gather::Quiet(Duration::from_secs(2)));
    config.job.further = true;
    config
}

/// A group of receivers that wait before the sender starts.
fn waiting(config: SenderSessionConfig, receivers: u64, seed: u64) -> World {
    let sender = SenderSession::new(config, Seeds::new(seed)).expect("the settings are good");
    let mut world = World::new(sender, 3);
    for receiver in 0..receivers {
        let config = receiver_config(&format!("r{receiver}"));
        world.join(ReceiverSession::new(config, Seeds::new(seed).part(&receiver.to_string())));
    }
    world.sender.start(Time::ZERO);
    world
}

/// Milliseconds until the session starts.
fn start(world: &mut World) -> u64 {
    world.run_until(ms(20_000), |world| world.sender.phase() == SenderPhase::Running);
    world.now.since(Time::ZERO).as_millis() as u64
}

/// JOINs come within 20 ms after the first invitation, and the session starts 190 ms and four round trips later.
#[test]
fn waiting_receivers_start_the_session_after_a_quiet_time() {
    for receivers in [1, 6] {
        let mut world = waiting(config(), receivers, 1);
        let at = start(&mut world);
        assert!((200..=225).contains(&at), "{at} ms");
        assert_eq!(world.sender.members().len(), receivers as usize);
    }
    let mut far = waiting(config(), 2, 1);
    far.way = |_, _| Duration::from_millis(50);
    let at = start(&mut far);
    assert!((790..=820).contains(&at), "two round trips, and 190 ms and four round trips: {at} ms");
    assert_eq!(far.sender.members().len(), 2);
}

/// A receiver that comes after the sender shows that receivers are being started. Without a catch-up session, a late
/// receiver would get nothing. With much data it would cost much.
#[test]
fn session_waits_for_the_whole_time_when_more_is_at_stake() {
    let mut later = World::new(SenderSession::new(config(), Seeds::new(1)).expect("good settings"), 3);
    later.sender.start(Time::ZERO);
    later.run(ms(1000));
    later.join(receiver("a"));
    let (mut alone, mut large) = (config(), config());
    alone.job.further = false;
    large.job.total_bytes = Some(1_000_000_000);
    for (mut world, from) in [(later, 1000), (waiting(alone, 1, 1), 0), (waiting(large, 1, 1), 0)] {
        let at = start(&mut world);
        assert!((from + 2000..from + 2230).contains(&at), "{at} ms");
    }
    let mut some = config();
    some.job.total_bytes = Some(250_000_000);
    let at = start(&mut waiting(some, 1, 1));
    assert!((500..530).contains(&at), "a quarter of two seconds: {at} ms");
}

/// The sender waits for a receiver of which it has received a JOIN, but no longer than for late ones.
#[test]
fn start_waits_for_a_receiver_whose_challenge_is_lost() {
    for (until, starts, members) in [(200, 1000..1990, 2), (20_000, 2000..2230, 1)] {
        let mut world = waiting(config(), 2, 1);
        world.lose = Box::new(move |now, _, to, bytes| {
            now < ms(until) && to == NodeId(2) && matches!(kind(bytes), Some(Body::Challenge { .. }))
        });
        let at = start(&mut world);
        assert!(starts.contains(&at), "{at} ms");
        assert_eq!(world.sender.members().len(), members);
        let unserved: Vec<_> = world.sender.unserved().iter().map(|one| (&*one.name, &one.reason)).collect();
        let left_out = [("r1", &UnservedReason::Unanswered)];
        assert_eq!(unserved, left_out[..2 - members], "the other one is named");
    }
}

/// A receiver that the longest datagrams do not reach joins after eight invitations, within the quiet time.
#[test]
fn receiver_of_shorter_datagrams_joins_before_the_start() {
    let mut config = config();
    config.sizes = vec![116, 90, 60];
    let mut world = waiting(config, 2, 1);
    world.lose = Box::new(|_, from, to, bytes| {
        let is_size = matches!(Packet::parse(bytes).map(|packet| packet.body), Ok(Body::Size(_)));
        from == SENDER && to == NodeId(2) && is_size && bytes.len() > 90
    });
    let at = start(&mut world);
    assert!(at <= 400, "{at} ms");
    assert_eq!(world.sender.members().len(), 2);
    assert_eq!(world.sender.shortened().map(|shortened| shortened.datagram), Some(90));
}

/// Nearly all sessions of six receivers with 5 % loss are complete (docs/benchmarks.md).
#[test]
fn six_receivers_with_loss_are_served_in_one_session() {
    let (mut sessions, mut incomplete) = (0, 0);
    for seed in (0..400).step_by(sampling_step(10)) {
        let mut config = config();
        config.sizes = vec![116, 90, 60];
        let mut world = waiting(config, 6, seed);
        world.seed(seed, 0.05);
        start(&mut world);
        sessions += 1;
        if world.sender.members().len() < 6 {
            incomplete += 1;
            world.run(ms(20_000));
            assert_eq!(world.sender.wanting().len(), 1, "a late receiver is promised a catch-up session");
        }
    }
    assert!(sessions >= 40 && incomplete * 40 <= sessions, "{incomplete} of {sessions}");
}

/// A host that has not resolved the sender's link address cannot send to it for a second. It can send to the group.
#[test]
fn start_waits_for_a_receiver_that_cannot_send_to_it_yet() {
    for receivers in [2, 40] {
        let mut world = waiting(config(), receivers, 1);
        let late = receivers as u32 / 2;
        world.lose = Box::new(move |now, from, to, bytes| {
            let is_knock = matches!(kind(bytes), Some(Body::Join { nonce: Nonce(0), .. }));
            now < ms(600) && from.0 > late && to == SENDER && !is_knock
        });
        let at = start(&mut world);
        assert!((1000..2000).contains(&at), "{at} ms");
        assert_eq!(world.sender.members().len(), receivers as usize);
        let knocks: Vec<&String> = world.log.iter().filter(|line| line.contains(KNOCK)).collect();
        assert!(
            knocks.iter().all(|line| !line.contains("process") && !line.contains("cookie")),
            "{knocks:?}"
        );
        let knocks = knocks.len();
        assert!((1..=3 * 20).contains(&knocks), "{knocks} of {:#?}", world.log);
    }
}

/// A receiver that asks the sender and the group at once gets the CHALLENGE that it can answer, in either order.
#[test]
fn join_to_the_group_replaces_no_challenge() {
    for knock_first in [false, true] {
        let mut sender = SenderSession::new(config(), Seeds::new(1)).expect("the settings are good");
        sender.start(Time::ZERO);
        Outbox::drain(&mut sender, ms(0));
        let mut joins = [(5, Dest::Node(SENDER)), (0, Dest::group(GROUP))];
        if knock_first {
            joins.reverse();
        }
        for (nonce, destination) in &joins {
            let (bytes, ingress, scope) = (join(*nonce, "r1").into(), PortId(0), Scope::GLOBAL);
            let datagram = Received { source: NodeId(1), destination, ingress, scope, bytes: &bytes };
            sender.handle_datagram(ms(1), datagram);
        }
        let sent = Outbox::drain(&mut sender, ms(1)).sent;
        let challenged: Vec<_> = sent
            .iter()
            .filter_map(|(_, bytes)| match kind(bytes) {
                Some(Body::Challenge { nonce, .. }) => Some(nonce),
                _ => None,
            })
            .collect();
        assert_eq!(challenged, [Nonce(5)]);
    }
}

/// Few receivers of a large group that gets no answers ask the group.
#[test]
fn few_receivers_of_a_large_group_ask_the_group() {
    let mut world = waiting(config(), 200, 1);
    world.lose = Box::new(|_, from, to, _| from != SENDER && to == SENDER);
    world.run(ms(3000));
    let knocks = world.log.iter().filter(|line| line.contains(KNOCK)).count();
    assert!((8..100).contains(&knocks), "{knocks}");
}

/// The acknowledgments of a verified receiver are lost, and its sender starts another session at once.
#[test]
fn receiver_leaves_a_session_for_another_one_at_the_same_node() {
    let mut world = waiting(config(), 2, 1);
    world.lose = Box::new(|_, _, to, bytes| {
        to == NodeId(2) && matches!(kind(bytes), Some(Body::ReportAck { .. } | Body::Answer { .. }))
    });
    world.run_until(ms(20_000), |world| world.sender.phase() == SenderPhase::Finished);
    assert_eq!((world.phase(0), world.phase(1)), (ReceiverPhase::Finished, ReceiverPhase::Reporting));
    world.lose = Box::new(|_, _, _, _| false);
    let next = SenderSessionConfig { association: AssociationId(99), ..config() };
    world.sender = SenderSession::new(next, Seeds::new(2)).expect("the settings are good");
    let since = world.now;
    world.sender.start(since);
    world.run_until(ms(20_000), |world| world.phase(1) == ReceiverPhase::Finished);
    assert!(world.now <= since + Duration::from_millis(20), "{:?}", world.now.since(since));
    // It joins the session as a new one.
    world.peers[1].session = receiver("r1");
    world.peers[1].got = 0;
    world.run_until(ms(40_000), |world| world.sender.phase() == SenderPhase::Running);
    assert_eq!(world.sender.members().len(), 1);
}

/// JOIN to the group, as the log shows it.
const KNOCK: &str = " join 0000000000000000 ";
