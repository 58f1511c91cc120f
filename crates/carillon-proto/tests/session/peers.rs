//! Sessions of peers in virtual time: one order of the messages of many senders.

use carillon_core::Sender as _;
use carillon_proto::session::{Gather, MemberOutcome, ReceiverPhase, SenderPhase, SenderSessionConfig};

use super::harness::*;
use super::toy::TOY;

fn organiser(members: usize) -> SenderSessionConfig {
    let gather = Gather::Count(members);
    SenderSessionConfig { gather, ..SenderSessionConfig::new(ASSOCIATION, "source", GROUP, &TOY, 100) }
}

/// The organiser and one more offer messages, two only receive.
fn group(messages: u64) -> World {
    let mut world = World::new(sender_with(organiser(3)), messages);
    world.join_offering("two", messages);
    world.join(receiver("alice"));
    world.join(receiver("bob"));
    world
}

fn over(world: &World) -> bool {
    let ended = |peer: &Peer| {
        peer.dead || matches!(peer.session.phase(), ReceiverPhase::Finished | ReceiverPhase::Failed(_))
    };
    (world.sender_dead || world.sender.is_finished()) && world.peers.iter().all(ended)
}

fn outcome<'w>(world: &'w World, name: &str) -> &'w MemberOutcome {
    let member = world.sender.members().iter().find(|member| member.name == name);
    &member.expect("it is a member").outcome
}

#[test]
fn all_deliver_everything_of_all_in_one_order() {
    let mut world = group(5);
    world.run_until(ms(10_000), over);
    assert_eq!(world.sender.phase(), SenderPhase::Finished, "{:#?}", world.log);
    assert_eq!(world.sender_order.len(), 10);
    for peer in &world.peers {
        assert_eq!(peer.session.phase(), ReceiverPhase::Finished);
        assert!(peer.session.report_acknowledged());
        assert_eq!(peer.order, world.sender_order);
    }
    for name in ["two", "alice", "bob"] {
        assert_eq!(*outcome(&world, name), MemberOutcome::Verified);
    }
    assert!(world.now < ms(500), "{}", world.now);
}
