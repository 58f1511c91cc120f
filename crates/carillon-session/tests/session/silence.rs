//! Expelled members, and members that stay, with a protocol that repeats without end and reports the members that it
//! awaits.

use carillon_core::{BitRate, Duration, Machine as _};
use carillon_session::{Gather, SenderPhase};

use super::harness::*;

/// Group of two with a protocol that expels no member.
fn patient(messages: u64, min_rate: Option<BitRate>) -> World {
    let mut config = sender_config(Gather::Count(2));
    config.config.set(config.protocol.parameters, "limit", "1000000").expect("a setting");
    config.min_rate = min_rate;
    // As large as messages of a real network.
    config.max_payload = 1400;
    let mut world = World::new(sender_with(config), messages);
    world.join(receiver("a"));
    world.join(receiver("b"));
    world
}

#[test]
fn live_member_without_acknowledgments_is_expelled() {
    let mut world = patient(1000, None);
    answers_each(&mut world, 2, Duration::from_secs(1000));
    world.run_until(ms(60_000), |world| lost(world, "b").is_some());
    assert_eq!(lost(&world, "b").as_deref(), Some("acknowledged nothing for 5 s"));
    assert!((ms(5500)..ms(6600)).contains(&world.now), "{}", world.now);
    let waited = world.sender.members().iter().find(|member| member.name == "b").expect("it is named").waited;
    assert!((Duration::from_millis(4500)..Duration::from_millis(5500)).contains(&waited), "{waited:?}");
    world.run_until(ms(120_000), |world| world.sender.phase() == SenderPhase::Finished);
    assert_eq!(lost(&world, "a"), None);
    assert_eq!(world.peers[0].got, 1000);
}

#[test]
fn member_that_holds_others_up_is_expelled() {
    let mut world = patient(1000, None);
    answers_each(&mut world, 2, Duration::from_millis(4600));
    world.run_until(ms(60_000), |world| lost(world, "b").is_some());
    assert!(lost(&world, "b").is_some_and(|reason| reason.starts_with("kept the others waiting for 10")));
    assert!(world.now < ms(21_500), "{}", world.now);
}

#[test]
fn one_that_is_slow_is_given_up_only_below_the_least_progress() {
    // A message of 1400 bytes each second, 11 kbit/s.
    for (least, given_up) in [(Some(16_000), true), (Some(8_000), false), (None, false)] {
        let mut world = patient(1000, least.and_then(BitRate::new));
        answers_each(&mut world, 2, Duration::from_millis(1000));
        world.run_until(ms(45_000), |world| lost(world, "b").is_some());
        let reason = lost(&world, "b");
        assert_eq!(reason.is_some(), given_up, "{least:?}: {reason:?} at {}", world.now);
        if let Some(reason) = reason {
            assert!(
                reason.starts_with("made ") && reason.ends_with("of at least 16 kbit/s for 20 s"),
                "{reason}"
            );
            assert!((ms(20_000)..ms(24_000)).contains(&world.now), "{}", world.now);
        }
    }
}

#[test]
fn a_sender_that_was_not_running_gives_nobody_up_for_it() {
    for start in (1000..1500).step_by(50) {
        let mut world = patient(3000, None);
        answers_each(&mut world, 2, Duration::from_millis(200));
        world.run(ms(start));
        // It stands still for nearly the time after which the receivers give it up.
        world.sender_dead = true;
        world.run(ms(start + 4950));
        world.sender_dead = false;
        let now = world.now;
        world.sender.handle_timeout(now);
        world.run(ms(start + 9000));
        assert_eq!((lost(&world, "a"), lost(&world, "b")), (None, None), "stopped at {start} ms");
    }
}
