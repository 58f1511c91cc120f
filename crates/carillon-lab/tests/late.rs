//! A receiver of XTP comes late, over UDP on loopback: it joins in three steps and has everything from then on.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carillon_core::{
    Addresses, Application, AssociationId, BitRate, BuildContext, Config, GroupId, Identities, Machine,
    NodeId, Role, Seeds, Time,
};
use carillon_net::{Driver, Endpoint, EndpointConfig};
use carillon_testkit::{Contents, MessageSource, Oracle, Received, Recorder, loopback_group};

const MESSAGES: u64 = 60;
const PAYLOAD: usize = 1_000;
/// Numbers at each end: its own number is 0, and the node it receives from first is 1.
const OWN: NodeId = NodeId(0);
const SENDER: NodeId = NodeId(1);

type Host = Driver<dyn Machine, Box<dyn Application>, Recorder>;

fn machine(role: Role, number: u32, addresses: Addresses) -> Box<dyn Machine> {
    let entry = carillon_proto::find("xtp").expect("it is in the registry");
    let mut settings = Config::defaults(entry.parameters);
    // Completion requires the first receiver only, so that the sender does not wait for the second one before it
    // joins.
    for (key, value) in
        [("late_join", "true"), ("reliability", "named"), ("named", "1"), ("wtimer_min", "40 ms")]
    {
        settings.set(entry.parameters, key, value).expect("it takes it");
    }
    let sends = role == Role::Sender;
    let context = BuildContext {
        association: AssociationId(1),
        node: OWN,
        sender: if sends { OWN } else { SENDER },
        members: if sends { [NodeId(1), NodeId(2)].into() } else { [].into() },
        helpers: Default::default(),
        identities: Identities::default(),
        addresses,
        group: GroupId(0),
        seeds: Seeds::new(number.into()).part("machine"),
        bit_rate: BitRate::mbps(10),
        link_overhead: 18,
        max_payload: PAYLOAD as u32,
        memory: usize::MAX,
        rejoining: false,
    };
    (entry.build)(role, &context, &settings).unwrap_or_else(|error| panic!("{error}"))
}

fn contents() -> Contents {
    Contents::new(&Seeds::new(1), PAYLOAD)
}

fn receiver(
    mut endpoint: Endpoint,
    number: u32,
    sender: std::net::SocketAddr,
) -> (Host, Arc<Mutex<Received>>) {
    assert_eq!(endpoint.keep_peer(Time::ZERO, sender), Some(SENDER));
    let oracle = Oracle::new(OWN, SENDER, contents(), Duration::ZERO).from_anywhere();
    let received = oracle.received();
    let machine = machine(Role::Receiver, number, endpoint.addresses(OWN));
    (Driver::new(endpoint, machine, Box::new(oracle), Recorder::default()), received)
}

#[test]
fn late_receiver_over_udp_has_everything_since_its_join() {
    let Some(group) = loopback_group() else { return };
    let open = || {
        let config = EndpointConfig {
            interface: Some("lo".to_owned()),
            ttl: 1,
            listen: true,
            ..EndpointConfig::new(group)
        };
        Endpoint::open(config).unwrap_or_else(|error| panic!("{error}"))
    };
    let (mut sends, first) = (open(), open());
    let at = sends.local_addr();
    assert_eq!(sends.keep_peer(Time::ZERO, first.local_addr()), Some(NodeId(1)));
    let (mut early, early_has) = receiver(first, 1, at);
    let offers: Box<dyn Application> =
        Box::new(MessageSource::new(contents(), MESSAGES).every(Duration::from_millis(3)));
    let machine = machine(Role::Sender, 0, sends.addresses(OWN));
    let mut sender: Host = Driver::new(sends, machine, offers, Recorder::default());
    let mut late: Option<(Host, Arc<Mutex<Received>>)> = None;
    let numbers = |received: &Arc<Mutex<Received>>| -> Vec<u64> {
        let received = received.lock().expect("no host panics");
        assert_eq!(received.violations, [""; 0]);
        received.deliveries.iter().map(|delivery| delivery.message.0).collect()
    };
    let limit = Instant::now() + Duration::from_secs(60);
    let is_done = |late: &Option<(Host, Arc<Mutex<Received>>)>| {
        late.as_ref().is_some_and(|(_, has)| numbers(has).last() == Some(&(MESSAGES - 1)))
            && numbers(&early_has).len() as u64 == MESSAGES
    };
    // One thread runs all of them, so that none runs ahead while the second receiver is still missing.
    while !is_done(&late) && Instant::now() < limit {
        sender.step(Duration::from_millis(1)).expect("loopback works");
        early.step(Duration::from_millis(1)).expect("loopback works");
        if late.is_none() && numbers(&early_has).len() >= 10 {
            late = Some(receiver(open(), 2, at));
        }
        if let Some((host, _)) = &mut late {
            host.step(Duration::from_millis(1)).expect("loopback works");
        }
    }
    if numbers(&early_has).is_empty() {
        return carillon_testkit::skip("a multicast sent on loopback does not arrive");
    }
    let got = late.as_ref().map(|(_, has)| numbers(has)).unwrap_or_default();
    assert!(is_done(&late), "{got:?}");
    assert!(got[0] >= 10, "no history: {got:?}");
    assert_eq!(got, (got[0]..MESSAGES).collect::<Vec<_>>());
}
