//! Start after a quiet time: how soon a session starts without a list of receivers, and which receivers it misses.

use carillon_core::{Duration, Machine as _, NodeId, Seeds, Time};
use carillon_proto::session::{Gather, ReceiverSession, SenderPhase, SenderSession, SenderSessionConfig};
use carillon_testkit::sampling_step;
use carillon_wire::session::{Body, Packet};

use super::harness::*;
use super::kind;

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
