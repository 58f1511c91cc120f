//! A sender that loses all its members does not hang, in any state.

use bytes::Bytes;
use carillon_core::{
    BitRate, BuildContext, Config, GroupId, Machine, NodeId, ProtocolEntry, Role, Seeds, Time,
};
use carillon_proto::REGISTRY;

/// Configurations of a sender: defaults, for deliveries, for live messages, and each value of each choice.
fn configurations(entry: &'static ProtocolEntry) -> Vec<Vec<(&'static str, &'static str)>> {
    let (delivery, live) = (entry.settings.delivery, entry.settings.live);
    let mut configurations = vec![Vec::new(), delivery.to_vec(), [delivery, live].concat()];
    for parameter in entry.parameters {
        if let carillon_core::Kind::Choice(values) = parameter.kind {
            configurations.extend(values.iter().map(|value| vec![(parameter.name, *value)]));
        }
    }
    configurations
}

fn sender(entry: &ProtocolEntry, way: &[(&str, &str)]) -> Option<Box<dyn Machine>> {
    let mut config = Config::defaults(entry.parameters);
    for (key, value) in way {
        config.set(entry.parameters, key, value).expect("it takes it");
    }
    if !entry.confirms(&config) {
        return None;
    }
    let context = BuildContext {
        association: carillon_core::AssociationId(7),
        node: NodeId(0),
        sender: NodeId(0),
        members: [NodeId(1), NodeId(2)].into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1).node(NodeId(0)),
        bit_rate: BitRate::mbps(10),
        link_overhead: 0,
        max_payload: 1000,
        memory: usize::MAX,
        rejoining: false,
    };
    // Settings that contradict each other are refused.
    (entry.build)(Role::Sender, &context, &config).ok()
}

/// Lets the machine send and time pass until no timer is left.
fn run(machine: &mut dyn Machine, now: &mut Time) {
    for _ in 0..200 {
        while machine.poll_transmit(*now, &mut Vec::new()).is_some() {}
        while machine.poll_event().is_some() {}
        let Some(due) = machine.poll_timeout() else { return };
        *now = due.max(*now);
        machine.handle_timeout(*now);
    }
}

#[test]
fn sender_without_members_finishes() {
    let (mut tried, mut taken_messages) = (0, 0);
    for entry in REGISTRY.iter().copied().filter(|entry| entry.roles.contains(&Role::Sender)) {
        for way in configurations(entry) {
            for packets in 0..8 {
                let Some(mut machine) = sender(entry, &way) else { continue };
                tried += 1;
                let (mut now, payload) = (Time::ZERO, Bytes::from_static(b"x"));
                machine.start(now);
                let mut offered = 0;
                for _ in 0..packets {
                    let sender = machine.as_sender().expect("a sender");
                    offered += u32::from(sender.offer(now, payload.clone()).is_ok());
                    if machine.poll_transmit(now, &mut Vec::new()).is_none()
                        && let Some(due) = machine.poll_timeout()
                    {
                        now = due.max(now);
                        machine.handle_timeout(now);
                    }
                }
                let sender = machine.as_sender().expect("a sender");
                [1, 2].into_iter().for_each(|member| sender.expel(now, NodeId(member)));
                run(&mut *machine, &mut now);
                let what = format!("{} {way:?}, {packets} packets, {offered} messages", entry.name);
                for _ in 0..4 {
                    let sender = machine.as_sender().expect("a sender");
                    let taken = sender.offer(now, payload.clone());
                    assert!(taken.is_ok(), "{what}: {taken:?}");
                    taken_messages += 1;
                    run(&mut *machine, &mut now);
                }
                let sender = machine.as_sender().expect("a sender");
                sender.finish(now);
                run(&mut *machine, &mut now);
                assert!(machine.as_sender().expect("a sender").is_finished(), "{what}: it does not finish");
            }
        }
    }
    assert!(tried >= 300 && taken_messages == 4 * tried, "{tried} senders took {taken_messages} messages");
}
