//! Helpers on real sockets: a sender, three receivers and two helpers in a chain, one of which dies.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carillon_core::{
    Addresses, Application, AssociationId, BitRate, BuildContext, Config, Event, GroupId, HelperTable,
    Machine, NodeId, Notice, Observer, Probability, Role, Seeds, Time,
};
use carillon_net::{Driver, Endpoint, EndpointConfig, SELF, swapped};
use carillon_testkit::{Contents, MessageSource, Oracle, Received, SENDER, TREE, loopback_group};

const RECEIVERS: u32 = 3;
const HELPERS: [NodeId; 2] = [NodeId(4), NodeId(5)];
const NODES: u32 = 6;
const MESSAGES: u64 = 100;

/// Events of the machine, in the run's node numbers.
struct Watch {
    host: NodeId,
    lost: Vec<NodeId>,
    repairs: u64,
}

impl Observer for Watch {
    fn event(&mut self, _time: Time, _node: NodeId, event: &Event) {
        self.repairs += u64::from(matches!(*event, Event::Forwarded { repair: true, .. }));
    }

    fn notice(&mut self, _time: Time, _node: NodeId, notice: &Notice) {
        if let Notice::MemberLost { member } = notice {
            self.lost.push(swapped(self.host, *member));
        }
    }
}

struct Nothing;

impl Application for Nothing {
    fn poll(&mut self, _now: Time, _machine: &mut (dyn Machine + 'static)) -> bool {
        false
    }
}

type Host = Driver<dyn Machine, Box<dyn Application>, Watch>;

fn open(group: SocketAddr) -> Endpoint {
    let drop = Probability::new(0.05).expect("a probability");
    let config = EndpointConfig {
        interface: Some("lo".to_owned()),
        ttl: 1,
        listen: true,
        drop,
        ..EndpointConfig::new(group)
    };
    Endpoint::open(config).expect("multicast works")
}

#[test]
fn a_tree_of_helpers_delivers_over_sockets_though_one_dies() {
    let Some(group) = loopback_group() else { return };
    let mut endpoints: Vec<Endpoint> = (0..NODES).map(|_| open(group)).collect();
    let addresses: Vec<SocketAddr> = endpoints.iter().map(Endpoint::local_addr).collect();
    let receivers: Vec<NodeId> = (1..=RECEIVERS).map(NodeId).collect();
    let mut table = HelperTable::balanced(&HELPERS, &receivers, 1);
    let contents = Contents::new(&Seeds::new(1), 1000);
    let mut received: Vec<Arc<Mutex<Received>>> = Vec::new();
    let mut hosts: Vec<(NodeId, Host)> = Vec::new();
    for node in (0..NODES).map(NodeId).rev() {
        let mut endpoint = endpoints.pop().expect("one for each");
        for peer in (1..NODES).map(|number| swapped(node, NodeId(number))) {
            endpoint.keep_peer(Time::ZERO, addresses[peer.index()]).expect("the table has room");
        }
        let mut config = Config::defaults(TREE.parameters);
        config.set(TREE.parameters, "limit", "25").expect("a setting");
        let context = BuildContext {
            association: AssociationId(1),
            node: SELF,
            sender: swapped(node, SENDER),
            members: receivers.iter().map(|&member| swapped(node, member)).collect(),
            helpers: table.renumbered(|other| swapped(node, other)).into(),
            identities: Default::default(),
            addresses: Addresses::default(),
            group: GroupId(0),
            seeds: Seeds::new(1).node(node),
            bit_rate: BitRate::mbps(100),
            link_overhead: 28,
            max_payload: 1000,
            memory: usize::MAX,
            rejoining: false,
        };
        let (role, application): (_, Box<dyn Application>) = match node {
            SENDER => (Role::Sender, Box::new(MessageSource::new(contents.clone(), MESSAGES))),
            _ if HELPERS.contains(&node) => (Role::Helper, Box::new(Nothing)),
            _ => {
                let oracle = Oracle::new(node, swapped(node, SENDER), contents.clone(), Duration::ZERO);
                received.push(oracle.received());
                (Role::Receiver, Box::new(oracle))
            }
        };
        let machine = (TREE.build)(role, &context, &config).expect("a machine");
        let watch = Watch { host: node, lost: Vec::new(), repairs: 0 };
        hosts.push((node, Driver::new(endpoint, machine, application, watch)));
    }
    let limit = Instant::now() + Duration::from_secs(60);
    let mut repairs = 0;
    loop {
        assert!(Instant::now() < limit, "not done within a minute");
        let mut lost = Vec::new();
        for (_, host) in &mut hosts {
            host.step(Duration::from_micros(500)).expect("the driver works");
            lost.append(&mut host.observer_mut().lost);
        }
        for member in lost {
            let Some(next) = table.without(member) else { continue };
            table = next;
            for (node, host) in &mut hosts {
                let (now, seen) = (host.now(), table.renumbered(|other| swapped(*node, other)));
                host.machine_mut().update_helpers(now, &Arc::new(seen));
            }
        }
        let got = |received: &Arc<Mutex<Received>>| {
            received.lock().expect("no oracle panicked").deliveries.len() as u64
        };
        // The lower helper dies in the middle of it.
        if hosts.len() == NODES as usize && received.iter().any(|received| got(received) >= MESSAGES / 4) {
            repairs += hosts.iter().map(|(_, host)| host.observer().repairs).sum::<u64>();
            hosts.retain(|(node, _)| *node != HELPERS[1]);
        }
        let finished = hosts.iter_mut().any(|(node, host)| *node == SENDER && host.is_finished());
        if finished && received.iter().all(|received| got(received) == MESSAGES) {
            break;
        }
    }
    assert!(repairs > 0, "the helpers have repaired something");
    assert_eq!(table.edition(), 1, "the one that died was found lost, and no other");
    for received in received {
        assert_eq!(received.lock().expect("no oracle panicked").violations, Vec::<String>::new());
    }
}
