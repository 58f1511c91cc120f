//! Sessions that continue the stream of an earlier one, for receivers that join late or are started again.

use std::net::IpAddr;

use carillon_core::{
    AddressBook, Addresses, AssociationId, Duration, GroupId, Machine as _, NodeId, NumberedAddresses, Seeds,
};
use carillon_session::{
    Gather, JobId, JobKind, MemberOutcome, ReceiverFailure, ReceiverOrigin, ReceiverPhase, ReceiverSession,
    ReceiverSessionConfig, SenderPhase, SenderSession, SenderSessionConfig,
};

use super::harness::*;
use super::outcomes;

const JOB: JobId = JobId([3; 16]);
const OTHER_JOB: JobId = JobId([4; 16]);

fn config(receivers: usize) -> SenderSessionConfig {
    let mut config = sender_config(Gather::Count(receivers));
    config.config.set(config.protocol.parameters, "limit", "1000000").expect("a setting");
    (config.job.further, config.job.kind, config.job.id) = (true, JobKind::Series, JOB);
    config
}

/// A receiver that says whether it can resume a stream.
fn resuming(name: &str, resumes: bool) -> ReceiverSession {
    let mut config = receiver_config(name);
    config.origin.resumes = resumes;
    ReceiverSession::new(config, Seeds::new(1).part(name))
}

/// A session of these receivers with a stream of many messages.
fn world(names: &[&str], config: SenderSessionConfig) -> World {
    world_with(names, config, 1_000_000)
}

fn world_with(names: &[&str], config: SenderSessionConfig, messages: u64) -> World {
    let mut world = World::new(sender_with(config), messages);
    for name in names {
        world.join(resuming(name, true));
    }
    world.run(ms(300));
    assert_eq!(world.sender.phase(), SenderPhase::Running);
    world
}

#[test]
fn late_receiver_of_a_stream_waits_only_if_it_can_resume() {
    for resumes in [true, false] {
        let mut world = world(&["a"], config(1));
        let late = world.join(resuming("late", resumes));
        world.run(ms(1_000));
        assert_eq!(world.sender.wanting().contains("late"), resumes);
        assert_eq!(world.peers[late].session.is_served_later(), resumes, "{:?}", world.phase(late));
        world.sender.refuse_late();
        let later = world.join(resuming("later", true));
        world.run(ms(2_000));
        assert!(matches!(world.phase(later), ReceiverPhase::Failed(ReceiverFailure::Refused(..))));
    }
}

#[test]
fn member_that_has_a_part_of_a_stream_joins_the_next_session() {
    let mut world = world_with(&["a"], config(1), 300);
    world.sender.continue_later();
    world.run_until(ms(60_000), |world| world.sender.phase() == SenderPhase::Finished);
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Verified)]);
    let mut next = config(1);
    (next.association, next.job.earlier) = (AssociationId(8), world.sender.earlier());
    world.sender = SenderSession::new(next, Seeds::new(2)).expect("the settings are good");
    world.sender.start(world.now);
    world.join(resuming("a", true));
    world.run_until(world.now + Duration::from_secs(1), |world| world.sender.phase() == SenderPhase::Running);
    assert_eq!(outcomes(&world), [("a", &MemberOutcome::Active)]);
}

#[test]
fn returning_receiver_of_a_stream_joins_no_other_job() {
    for (job, joins) in [(JOB, true), (OTHER_JOB, false)] {
        let mut sender = config(1);
        sender.job.id = job;
        let mut world = World::new(sender_with(sender), 10);
        let config = ReceiverSessionConfig {
            returning: Some(ReceiverFailure::SenderSilent),
            origin: ReceiverOrigin { continues: Some(JOB), ..ReceiverOrigin::default() },
            ..receiver_config("a")
        };
        let mut session = ReceiverSession::new(config, Seeds::new(1).part("a"));
        session.start(world.now);
        let back = world.join(session);
        world.run(ms(1_000));
        assert_eq!(world.sender.members().len(), usize::from(joins));
        if !joins {
            assert_eq!(world.phase(back), ReceiverPhase::Seeking);
            world.run(ms(5_100));
            assert_eq!(world.phase(back), ReceiverPhase::Failed(ReceiverFailure::SenderSilent));
        }
    }
}

/// Addresses of nodes that are all at one host.
#[derive(Debug)]
struct OneHost;

impl AddressBook for OneHost {
    fn of_node(&self, _: NodeId) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, 1]))
    }

    fn node_at(&self, _: IpAddr) -> Option<NodeId> {
        None
    }

    fn of_group(&self, group: GroupId) -> IpAddr {
        NumberedAddresses::group(group).into()
    }
}

/// A receiver that is started again at its host replaces its former process once that has been silent for a while; a
/// second receiver of the same name does not.
#[test]
fn receiver_of_a_stream_that_is_started_again_replaces_itself() {
    for killed in [true, false] {
        let mut sender = config(2);
        sender.network.addresses = Addresses::new(OneHost);
        let mut world = world(&["a", "b"], sender);
        let started = world.now;
        world.peers[1].dead = killed;
        let mut again = receiver_config("b");
        (again.origin.process, again.origin.place, again.origin.resumes) = (Some(5), 5, true);
        world.join(ReceiverSession::new(again, Seeds::new(1).part("again")));
        world.run(started + Duration::from_millis(2_000));
        assert_eq!(world.sender.wanting().is_empty(), killed, "{:?}", world.sender.wanting());
        world.run(started + Duration::from_millis(4_500));
        let wanting: Vec<&str> = world.sender.wanting().iter().map(String::as_str).collect();
        if killed {
            assert_eq!(wanting, ["b"]);
            assert_eq!(lost(&world, "b").as_deref(), Some("was replaced by its new process"));
        } else {
            assert!(wanting.len() == 1 && wanting[0] != "b", "{wanting:?}");
            assert_eq!(outcomes(&world)[1].1, &MemberOutcome::Active);
        }
    }
}
