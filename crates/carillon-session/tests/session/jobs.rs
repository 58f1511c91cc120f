//! A job across its sessions: each receiver is served once, under one name, whichever process speaks for it.

use std::collections::BTreeSet;

use carillon_core::{AssociationId, Duration, Machine as _, Seeds};
use carillon_session::{
    EarlierSessions, Gather, JobId, MemberOutcome, ReceiverFailure, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSession, SenderSessionConfig,
};
use carillon_wire::session::RefuseReason;

use super::harness::*;
use super::outcomes;

const JOB: JobId = JobId([7; 16]);

fn config(gather: Gather) -> SenderSessionConfig {
    let mut config = sender_config(gather);
    config.config.set(config.protocol.parameters, "limit", "1000000").expect("a setting");
    (config.job.further, config.job.id) = (true, JOB);
    config
}

/// A receiver of this process, which keeps waiting for sessions.
fn service(name: &str, process: u64) -> ReceiverSessionConfig {
    let mut config = ReceiverSessionConfig { keep_seeking: true, ..receiver_config(name) };
    config.origin.process = Some(process);
    config
}

fn start(config: ReceiverSessionConfig) -> ReceiverSession {
    let process = config.origin.process.unwrap_or_default();
    ReceiverSession::new(config, Seeds::new(process))
}

/// The next session of the job, for these.
fn follow(world: &mut World, awaited: &[&str], former: EarlierSessions) {
    let awaited: BTreeSet<String> = awaited.iter().map(|&name| name.to_owned()).collect();
    let gather = Gather::Again { awaited, only: None, settle: Duration::from_secs(1) };
    let mut next = SenderSessionConfig { association: AssociationId(8), ..config(gather) };
    next.job.earlier = former;
    let mut session = SenderSession::new(next, Seeds::new(2)).expect("the settings are good");
    session.start(world.now);
    world.sender = session;
    world.messages = world.total;
}

fn run_to_end(world: &mut World) {
    let end = world.now + Duration::from_secs(60);
    world.run_until(end, |world| world.sender.phase() == SenderPhase::Finished);
}

/// Job with one verified receiver and one that came late.
fn verified_and_late() -> (World, usize) {
    let mut world = World::new(sender_with(config(Gather::Count(1))), 300);
    world.join(start(service("a", 1)));
    world.run(ms(300));
    let late = world.join(start(service("late", 2)));
    run_to_end(&mut world);
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)]);
    assert_eq!(world.phase(0), ReceiverPhase::Finished);
    (world, late)
}

/// Its service goes on with a session that knows the job.
#[test]
fn a_verified_service_does_not_join_the_job_again() {
    let (mut world, late) = verified_and_late();
    let done = world.peers[0].session.done_jobs().clone();
    assert_eq!(done.find(JOB, world_host(0)), Some(true));
    let mut config = service("a", 1);
    config.origin.done = done;
    let again = world.join(start(config));
    let former = world.sender.earlier();
    follow(&mut world, &["late"], former);
    run_to_end(&mut world);
    assert_eq!(outcomes(&world), [("late", &MemberOutcome::Verified)]);
    assert_eq!((world.phase(again), world.phase(late)), (ReceiverPhase::Seeking, ReceiverPhase::Finished));
    assert!(
        world.peers[again].session.has_seen_done_job()
            && world.peers[again].session.missed_session().is_none()
    );
}

fn world_host(node: u32) -> Option<std::net::IpAddr> {
    use carillon_core::AddressBook as _;
    carillon_core::NumberedAddresses.of_node(carillon_core::NodeId(node))
}

/// A new session of the same process that has forgotten everything. While the session that verified it runs it is not taken for late.
#[test]
fn a_verified_receiver_that_asks_again_is_told_that_it_is_done() {
    let done = ReceiverFailure::Refused(RefuseReason::Done, String::new());
    let (mut world, _) = verified_and_late();
    let again = world.join(start(ReceiverSessionConfig { keep_seeking: false, ..service("a", 1) }));
    let former = world.sender.earlier();
    follow(&mut world, &["late"], former);
    run_to_end(&mut world);
    assert_eq!(outcomes(&world), [("late", &MemberOutcome::Verified)]);
    assert_eq!(world.phase(again), ReceiverPhase::Seeking);
    assert_eq!(world.peers[again].session.missed_session().map(|one| one.failure.clone()), Some(done));

    // The first one is verified, and another one keeps the session.
    let mut world = World::new(sender_with(config(Gather::Count(2))), 5);
    world.join(start(service("a", 1)));
    let other = world.join(start(service("b", 2)));
    world.peers[other].then = Then::Nothing;
    world.run_until(ms(3000), |world| world.sender.phase() == SenderPhase::Closing);
    world.run_until(ms(3000), |world| world.phase(0) == ReceiverPhase::Finished);
    world.peers[0].session = start(service("a", 1));
    world.run(ms(2000));
    assert!(world.sender.wanting().is_empty() && world.sender.unserved().is_empty());
}

/// Its reports were lost, and the sender has given it up.
#[test]
fn a_verified_receiver_whose_reports_were_lost_says_so_later() {
    let mut world = World::new(sender_with(config(Gather::Count(2))), 300);
    world.join(start(service("a", 1)));
    world.join(start(service("b", 2)));
    world.lose = Box::new(|now, source, _, _| source.0 == 1 && now > ms(300));
    world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
    let lost =
        |(name, outcome): &(&str, &MemberOutcome)| *name == "a" && matches!(outcome, MemberOutcome::Lost(_));
    assert!(outcomes(&world).iter().any(lost), "{:?}", outcomes(&world));
    world.peers[0].got = world.total;
    let now = world.now;
    world.peers[0].session.report(now, world.total * 10, Ok(()));
    let end = now + Duration::from_secs(20);
    world.run_until(end, |world| world.phase(0) == ReceiverPhase::Finished);
    let done = world.peers[0].session.done_jobs().clone();
    assert_eq!(done.find(JOB, world_host(0)), Some(false));
    world.lose = Box::new(|_, _, _, _| false);
    world.peers[0].dead = true;
    let mut config = service("a", 1);
    config.origin.done = done;
    let again = world.join(start(config));
    let former = world.sender.earlier();
    follow(&mut world, &["a"], former);
    let end = world.now + Duration::from_secs(3);
    world.run(end);
    assert_eq!(world.sender.reported_since().map(|(name, _)| name).collect::<Vec<_>>(), ["a"]);
    assert_eq!((world.phase(again), world.sender.members().len()), (ReceiverPhase::Seeking, 0));
}

/// Two clones of one that is served come late: they are served next, under names of their own.
#[test]
fn late_clones_are_served_under_names_of_their_own() {
    let mut world = World::new(sender_with(config(Gather::Count(1))), 300);
    world.join(start(service("web", 1)));
    world.run(ms(300));
    for process in [2, 3] {
        world.join(start(service("web", process)));
    }
    run_to_end(&mut world);
    let wanting: Vec<String> = world.sender.wanting().iter().cloned().collect();
    assert!(wanting.len() == 2 && wanting.iter().all(|name| name.starts_with("web@")), "{wanting:?}");
    let former = world.sender.earlier();
    follow(&mut world, &wanting.iter().map(String::as_str).collect::<Vec<_>>(), former);
    run_to_end(&mut world);
    let mut all = outcomes(&world);
    all.sort_by_key(|(name, _)| *name);
    assert_eq!(all.iter().map(|(name, _)| *name).collect::<Vec<_>>(), wanting);
    assert!(all.iter().all(|(_, outcome)| **outcome == MemberOutcome::Verified), "{all:?}");
}

/// A process moves to another address while the sender gathers: it is one receiver.
#[test]
fn a_process_at_a_new_address_takes_its_own_place() {
    let mut world = World::new(sender_with(config(Gather::Count(2))), 5);
    let old = world.join(start(service("a", 1)));
    world.run(ms(300));
    world.peers[old].dead = true;
    world.join(start(service("a", 1)));
    world.run(ms(4000));
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Active)]);
    world.join(start(service("b", 2)));
    run_to_end(&mut world);
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified), ("b", &MemberOutcome::Verified)]);
}

/// Processes with one number, as those of a machine that was copied while it ran: both live, so that both are served.
#[test]
fn copies_of_a_running_process_are_all_served() {
    let mut world = World::new(sender_with(config(Gather::Count(2))), 5);
    world.join(start(service("a", 1)));
    world.run(ms(50));
    world.join(ReceiverSession::new(service("a", 1), Seeds::new(9)));
    run_to_end(&mut world);
    let all = outcomes(&world);
    assert!(all.len() == 2 && all.iter().all(|(_, outcome)| **outcome == MemberOutcome::Verified), "{all:?}");
}
