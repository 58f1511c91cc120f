//! Drivers over real multicast on loopback.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{
    Counter, Talker, Tape, TestDriver, driver, group, in_namespace, listening, multicast_works, run, run_for,
    sending,
};
use carillon_core::{
    BitRate, Dest, DropReason, Event, Machine, NodeId, PortId, PortSet, Probability, Received, Scope, Seeds,
    Time, Transmit,
};
use carillon_net::{DriveError, Driver, Endpoint, EndpointConfig, GROUP, SELF};

const TO_GROUP: Dest = Dest::group(GROUP);

fn heard(driver: &TestDriver) -> Vec<String> {
    driver.machine().heard.iter().map(|h| String::from_utf8_lossy(&h.bytes).into_owned()).collect()
}

/// A sender and `receivers` receivers.
fn party(group: SocketAddr, receivers: usize) -> Vec<TestDriver> {
    let mut all = vec![driver(sending(group), Talker::default())];
    all.extend((0..receivers).map(|_| driver(listening(group), Talker::default())));
    all
}

fn reaches_three_receivers_and_back(group: SocketAddr) {
    let mut all = party(group, 3);
    all[0].machine_mut().say(TO_GROUP, "ping1");
    all[0].machine_mut().say(TO_GROUP, "data");
    run(&mut all, |all| all[0].machine().heard.len() >= 3 && all[1..].iter().all(|r| heard(r).len() >= 2));
    run_for(&mut all, Duration::from_millis(20));
    for receiver in &all[1..] {
        assert_eq!(heard(receiver), ["ping1", "data"]);
        let first = &receiver.machine().heard[0];
        assert_eq!((first.from, &first.to), (NodeId(1), &TO_GROUP));
        assert_eq!(receiver.endpoint().peer(NodeId(1)), Some(all[0].endpoint().local_addr()));
    }
    assert_eq!(heard(&all[0]), ["pong1"; 3]);
    let mut sources: Vec<_> = all[0].machine().heard.iter().map(|h| (h.from, h.to.clone())).collect();
    sources.sort_by_key(|s| s.0);
    assert_eq!(sources, [1, 2, 3].map(|n| (NodeId(n), Dest::Node(SELF))));
}

#[test]
fn three_receivers_and_replies_work_on_ipv4() {
    if multicast_works("three_receivers_and_replies_work_on_ipv4") {
        reaches_three_receivers_and_back(group());
    }
}

#[test]
fn three_receivers_and_replies_work_on_ipv6() {
    // Loopback has no IPv6 multicast route by default.
    let setup = "ip link set lo up && ip -6 route add local ff00::/8 dev lo table local";
    if in_namespace("loopback::three_receivers_and_replies_work_on_ipv6", setup) {
        for group in ["[ff02::1234]:5000", "[ff15::1234]:5001"] {
            reaches_three_receivers_and_back(group.parse().expect("an address"));
        }
    }
}

#[test]
fn link_local_ipv6_works_without_other_addresses() {
    let setup = "ip link set lo up && ip link add v0 type veth peer name v1 && \
                 sysctl -q -w net.ipv6.conf.v0.accept_dad=0 && ip link set v1 up && ip link set v0 up && sleep 0.2";
    if in_namespace("loopback::link_local_ipv6_works_without_other_addresses", setup) {
        let on = |listen| EndpointConfig {
            interface: Some("v0".to_owned()),
            listen,
            ..EndpointConfig::new("[ff02::1234]:5000".parse().expect("an address"))
        };
        let mut all = [driver(on(true), Talker::default()), driver(on(true), Talker::default())];
        all[0].machine_mut().say(TO_GROUP, "ping");
        run(&mut all, |all| !all[0].machine().heard.is_empty() && all[0].stats().own == 1);
        assert_eq!(heard(&all[0]), ["pong"]);
    }
}

#[test]
fn an_endpoint_that_sends_and_listens_does_not_hear_itself() {
    if !multicast_works("an_endpoint_that_sends_and_listens_does_not_hear_itself") {
        return;
    }
    let group = group();
    let mut all = [driver(listening(group), Talker::default()), driver(listening(group), Talker::default())];
    all[0].machine_mut().say(TO_GROUP, "from 0");
    all[1].machine_mut().say(TO_GROUP, "from 1");
    run(&mut all, |all| all.iter().all(|d| d.stats().own == 1 && !d.machine().heard.is_empty()));
    assert_eq!(heard(&all[0]), ["from 1"]);
    assert_eq!(heard(&all[1]), ["from 0"]);
}

#[test]
fn every_size_arrives_in_order_with_and_without_gso() {
    if !multicast_works("every_size_arrives_in_order_with_and_without_gso") {
        return;
    }
    for segmentation in [true, false] {
        let mut all = party(group(), 1);
        all[0].endpoint_mut().set_segmentation(segmentation);
        let max = all[0].endpoint().max_datagram();
        let runs =
            [(1472, 200), (20, 3), (1472, 1), (8192, 50), (0, 2), (1, 1), (max, 5), (9, 70), (max - 1, 2)];
        let sizes = runs.iter().flat_map(|&(size, count)| std::iter::repeat_n(size, count));
        let sent: Vec<Vec<u8>> =
            sizes.enumerate().map(|(i, size)| (0..size).map(|j| (i * 31 + j) as u8).collect()).collect();
        // A few at a time, so that no receive buffer overflows.
        for part in sent.chunks(16) {
            let expected = all[1].machine().heard.len() + part.len();
            part.iter().for_each(|bytes| all[0].machine_mut().say(TO_GROUP, bytes.clone()));
            run(&mut all, |all| all[1].machine().heard.len() >= expected);
        }
        // The machine has held every slice until here.
        let received: Vec<&[u8]> = all[1].machine().heard.iter().map(|h| &h.bytes[..]).collect();
        assert!(received.iter().map(|r| r.len()).eq(sent.iter().map(Vec::len)), "sizes");
        assert!(received == sent, "contents");
        let stats = all[0].stats();
        assert_eq!(stats.datagrams_sent, sent.len() as u64);
        assert_eq!(stats.bytes_sent, sent.iter().map(|s| s.len() as u64).sum::<u64>());
        if !segmentation {
            assert_eq!(stats.send_calls - stats.busy, stats.datagrams_sent);
        } else if cfg!(target_os = "linux") {
            assert!(stats.send_calls < stats.datagrams_sent / 2, "{stats:?}");
        }
    }
}

#[test]
fn injected_drops_are_counted_and_reproducible() {
    if !multicast_works("injected_drops_are_counted_and_reproducible") {
        return;
    }
    let group = group();
    let faulty = |seed| EndpointConfig {
        drop: Probability::new(0.3).expect("a probability"),
        seeds: Seeds::new(seed),
        ..listening(group)
    };
    let mut all = vec![driver(sending(group), Talker::default())];
    all.extend([1, 1, 2].map(|seed| driver(faulty(seed), Talker::default())));
    for number in 0..200 {
        all[0].machine_mut().say(TO_GROUP, format!("{number}"));
    }
    run(&mut all, |all| all[1..].iter().all(|r| r.stats().datagrams_received == 200));
    assert_eq!(heard(&all[1]), heard(&all[2]));
    assert_ne!(heard(&all[1]), heard(&all[3]));
    for receiver in &all[1..] {
        let dropped = receiver.stats().injected_drops as usize;
        assert!((30..90).contains(&dropped), "{dropped} of 200");
        assert_eq!(receiver.machine().heard.len(), 200 - dropped);
        let injected = Event::Dropped { reason: DropReason::Injected };
        assert_eq!(receiver.observer().events.iter().filter(|e| e.event == injected).count(), dropped);
        assert_eq!(receiver.observer().datagrams.len(), 200 - dropped);
    }
    // Unicast is dropped like multicast.
    let mut pair = [
        driver(
            EndpointConfig { drop: Probability::new(1.0).expect("one"), ..sending(group) },
            Talker::default(),
        ),
        driver(listening(group), Talker::default()),
    ];
    pair[0].machine_mut().say(TO_GROUP, "ping");
    run(&mut pair, |pair| pair[0].stats().injected_drops == 1);
    assert!(pair[0].machine().heard.is_empty());
}

#[test]
fn datagrams_leave_at_their_departure_times_first_in_first_out() {
    if !multicast_works("datagrams_leave_at_their_departure_times_first_in_first_out") {
        return;
    }
    let mut all = party(group(), 1);
    let now = all[0].now();
    let at = |ms| Some(now + Duration::from_millis(ms));
    for (text, departure) in [("a", at(60)), ("b", at(30)), ("c", at(30)), ("d", None), ("e", at(0))] {
        all[0].machine_mut().say.push_back((Transmit { departure, ..Transmit::now(TO_GROUP) }, text.into()));
    }
    run(&mut all, |all| all[1].machine().heard.len() >= 5);
    assert_eq!(heard(&all[1]), ["d", "e", "b", "c", "a"]);
    let left: Vec<Time> = all[0].observer().datagrams.iter().map(|d| d.time).collect();
    for (left, due) in left.iter().zip([0, 0, 30, 30, 60]) {
        assert!(*left >= now + Duration::from_millis(due), "{left:?}");
    }
}

#[test]
fn the_rate_is_kept_and_nothing_is_lost_by_it() {
    if !multicast_works("the_rate_is_kept_and_nothing_is_lost_by_it") {
        return;
    }
    let group = group();
    let paced = EndpointConfig { rate: Some(BitRate::mbps(8)), ..sending(group) };
    let mut all = [driver(paced, Talker::default()), driver(listening(group), Talker::default())];
    // 200 x 1000 bytes with headers at a byte per microsecond.
    for _ in 0..200 {
        all[0].machine_mut().say(TO_GROUP, vec![7; 972]);
    }
    let start = Instant::now();
    run(&mut all, |all| all[1].machine().heard.len() >= 200);
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(197), "{took:?} is faster than 200 ms less the bucket");
    // The driver sleeps while the rate holds it back.
    println!("{took:?} for 200 ms worth of datagrams in {} polls", all[0].application().0);
}

#[test]
fn a_full_interface_holds_datagrams_up_and_loses_none() {
    let setup = "ip link set lo up && ip link add v0 type veth peer name v1 && ip link set v1 up && \
                 ip link set v0 up && ip addr add 10.7.7.1/24 dev v0 && \
                 tc qdisc add dev v0 root tbf rate 8mbit burst 4k limit 10m";
    if !in_namespace("loopback::a_full_interface_holds_datagrams_up_and_loses_none", setup) {
        return;
    }
    for segmentation in [true, false] {
        let group = group();
        let on = |listen| EndpointConfig { interface: Some("v0".to_owned()), listen, ..sending(group) };
        let mut all = [driver(on(false), Talker::default()), driver(on(true), Talker::default())];
        all[0].endpoint_mut().set_segmentation(segmentation);
        let sent: Vec<String> = (0..600).map(|n| format!("{n:0>1000}")).collect();
        sent.iter().for_each(|text| all[0].machine_mut().say(TO_GROUP, text.as_str()));
        // A long step continues when the interface has room.
        let start = Instant::now();
        while all[0].stats().datagrams_sent < 600 {
            all[0].step(Duration::from_secs(20)).unwrap_or_else(|error| panic!("{error}"));
        }
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        run(&mut all, |all| all[1].machine().heard.len() >= sent.len());
        assert_eq!(heard(&all[1]), sent);
        let stats = all[0].stats();
        assert!(stats.busy > 0 && stats.send_errors == 0, "{stats:?}");
        // A busy socket is waited for, not polled.
        assert!(stats.busy < 2000, "{stats:?}");
    }
}

#[test]
fn a_step_ends_when_a_timer_is_due_or_the_wait_is_over() {
    let mut one = driver(sending(group()), Talker::default());
    one.step(Duration::ZERO).expect("nothing to do");
    let start = Instant::now();
    one.step(Duration::from_millis(20)).expect("nothing to do");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(20) && took < Duration::from_secs(5), "{took:?}");

    let due = one.now() + Duration::from_millis(30);
    one.machine_mut().retry = Some(due);
    one.step(Duration::from_secs(20)).expect("the drain");
    assert_eq!(one.machine().timeouts, 0);
    one.step(Duration::from_secs(20)).expect("the timer");
    assert_eq!(one.machine().timeouts, 1);
    assert!(one.now() >= due && one.now() < due + Duration::from_secs(5));

    let due = one.now() + Duration::from_millis(30);
    one.application_mut().1 = Some(due);
    let polls = one.application().0;
    one.step(Duration::from_secs(20)).expect("the poll");
    one.step(Duration::from_secs(20)).expect("the next poll");
    assert_eq!(one.application().0, polls + 2);
    assert!(one.now() >= due && one.now() < due + Duration::from_secs(5));
}

#[test]
fn unroutable_datagrams_are_counted_and_noted() {
    let mut one = [driver(sending(group()), Talker::default())];
    one[0].machine_mut().say(
        Dest::Ports { ports: PortSet::from_iter([PortId(0)]), source: SELF, dest: Box::new(TO_GROUP) },
        "x",
    );
    one[0].machine_mut().say(Dest::Node(NodeId(77)), "x");
    one[0].machine_mut().say(Dest::Node(SELF), "x");
    run(&mut one, |one| one[0].stats().unroutable == 3);
    let notes = one[0]
        .observer()
        .events
        .iter()
        .filter(|e| matches!(&e.event, Event::Note(n) if n.name == "unroutable"));
    assert_eq!(notes.count(), 3);
    assert_eq!(one[0].stats().datagrams_sent, 0);
}

#[test]
fn datagram_above_the_mtu_is_an_error() {
    let mut one = driver(sending(group()), Talker::default());
    one.machine_mut().say(TO_GROUP, vec![0; 65_508]);
    let error = one.step(Duration::ZERO).expect_err("too large");
    assert!(matches!(error, DriveError::TooLarge { len: 65_508, max: 65_507, .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "a datagram of 65508 bytes does not fit interface lo (127.0.0.1), which carries 65507: choose smaller messages"
    );
}

#[test]
fn an_interface_that_shrinks_ends_the_run_with_a_reason() {
    let setup = "ip link set lo up && ip link add v0 type veth peer name v1 && ip link set v1 up && \
                 ip link set v0 up && ip addr add 10.7.7.1/24 dev v0";
    if !in_namespace("loopback::an_interface_that_shrinks_ends_the_run_with_a_reason", setup) {
        return;
    }
    let config = EndpointConfig { interface: Some("v0".to_owned()), ..sending(group()) };
    let mut one = driver(config, Talker::default());
    let status = std::process::Command::new("ip").args(["link", "set", "v0", "mtu", "1000"]).status();
    assert!(status.expect("ip").success());
    for _ in 0..4 {
        one.machine_mut().say(TO_GROUP, vec![0; 1200]);
    }
    // The run of four is first retried singly, in case segmentation caused the error.
    let error = one.step(Duration::ZERO).expect_err("too large");
    assert!(matches!(error, DriveError::TooLarge { len: 1200, .. }), "{error:?}");
    assert!(one.stats().send_calls >= 2 && one.stats().datagrams_sent == 0);
}

#[test]
fn a_peer_that_is_gone_is_not_the_end() {
    let mut one = [driver(sending(group()), Talker::default())];
    let gone = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("a free port");
    let node = one[0].endpoint_mut().keep_peer(Time::ZERO, gone).expect("room");
    for _ in 0..20 {
        one[0].machine_mut().say(Dest::Node(node), "anyone there?");
        run_for(&mut one, Duration::from_millis(2));
    }
    assert_eq!(one[0].stats().datagrams_sent + one[0].stats().send_errors, 20);
}

#[test]
fn full_receive_buffer_shows_in_the_kernel_counter() {
    if !multicast_works("full_receive_buffer_shows_in_the_kernel_counter") || !cfg!(target_os = "linux") {
        return;
    }
    let group = group();
    let mut sender = [driver(sending(group), Talker::default())];
    let small = driver(EndpointConfig { receive_buffer: 8192, ..listening(group) }, Talker::default());
    for _ in 0..100 {
        sender[0].machine_mut().say(TO_GROUP, vec![0; 1000]);
    }
    run(&mut sender, |sender| sender[0].stats().datagrams_sent == 100);
    assert!(small.endpoint().kernel_drops().is_some_and(|drops| drops > 0));
}

#[test]
fn multicast_hop_limit_is_the_smaller_of_scope_and_ttl() {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
    let group = group();
    let SocketAddr::V4(v4) = group else { unreachable!("the group is IPv4") };
    let witness = UdpSocket::bind(group).expect("a free port");
    witness.join_multicast_v4(v4.ip(), &[127, 0, 0, 1].into()).expect("loopback");
    setsockopt(&witness, sockopt::Ipv4RecvTtl, &true).expect("hop counts");
    let mut one = [driver(EndpointConfig { ttl: 5, ..sending(group) }, Talker::default())];
    for scope in [Scope(0), Scope(3), Scope::GLOBAL, Scope(5), Scope(0)] {
        one[0].machine_mut().say(Dest::Group { group: GROUP, scope }, "x");
    }
    run(&mut one, |one| one[0].stats().datagrams_sent == 5);
    let hops = || {
        let mut byte = [0];
        let mut space = nix::cmsg_space!(i32);
        let mut buffers = [std::io::IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<()>(witness.as_raw_fd(), &mut buffers, Some(&mut space), flags).ok()?;
        message.cmsgs().ok()?.find_map(|control| match control {
            ControlMessageOwned::Ipv4Ttl(hops) => Some(hops),
            _ => None,
        })
    };
    assert_eq!(std::iter::from_fn(hops).collect::<Vec<_>>(), [0, 3, 5, 5, 0]);
}

#[test]
fn the_observer_sees_what_leaves_and_what_arrives() {
    if !multicast_works("the_observer_sees_what_leaves_and_what_arrives") {
        return;
    }
    let mut all = party(group(), 1);
    all[0].machine_mut().say(TO_GROUP, "ping");
    run(&mut all, |all| !all[0].machine().heard.is_empty());
    let seen = |d: &TestDriver| -> Vec<(NodeId, Dest, Vec<u8>)> {
        d.observer().datagrams.iter().map(|h| (h.from, h.to.clone(), h.bytes.to_vec())).collect()
    };
    let ping = |from| (from, TO_GROUP, b"ping".to_vec());
    let pong = |from, to| (from, Dest::Node(to), b"pong".to_vec());
    assert_eq!(seen(&all[0]), [ping(SELF), pong(NodeId(1), SELF)]);
    assert_eq!(seen(&all[1]), [ping(NodeId(1)), pong(SELF, NodeId(1))]);
}

/// A machine with a slow timer, during which a peer sends; [`Tape`] records the time of reception.
#[derive(Debug)]
struct Slow {
    due: Option<Time>,
    peer: UdpSocket,
    to: SocketAddr,
    sent: Option<Instant>,
}

impl Machine for Slow {
    fn handle_datagram(&mut self, _now: Time, _datagram: Received<'_>) {}
    fn handle_timeout(&mut self, _now: Time) {
        self.due = None;
        std::thread::sleep(Duration::from_millis(5));
        self.sent = Some(Instant::now());
        self.peer.send_to(b"second", self.to).expect("loopback takes it");
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.due
    }
    fn poll_transmit(&mut self, _now: Time, _buf: &mut Vec<u8>) -> Option<Transmit> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

#[test]
fn drivers_sharing_a_clock_keep_causality() {
    let endpoint = Endpoint::open(sending(group())).expect("loopback is open");
    let (peer, to) = (UdpSocket::bind("127.0.0.1:0").expect("a port"), endpoint.local_addr());
    peer.send_to(b"first", to).expect("loopback takes it");
    let (clock, due) = (Instant::now(), Some(Time::ZERO));
    let slow = Slow { due, peer, to, sent: None };
    let mut driver = Driver::with_clock(clock, endpoint, Box::new(slow), Counter::default(), Tape::default());
    while driver.observer().datagrams.len() < 2 {
        driver.step(Duration::from_millis(200)).expect("a step");
    }
    let sent = driver.machine().sent.expect("the timer fired").duration_since(clock);
    let second = &driver.observer().datagrams[1];
    assert_eq!(&second.bytes[..], b"second");
    assert!(second.time >= Time::ZERO + sent, "heard at {:?}, sent at {sent:?}", second.time);
}

#[test]
fn a_turn_reads_at_most_one_batch_and_polls_the_application() {
    let mut one = driver(sending(group()), Talker::default());
    one.step(Duration::ZERO).expect("nothing to do");
    let sources = [(); 10].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    for number in 0..200 {
        sources[number % 10].send_to(b"junk", one.endpoint().local_addr()).expect("loopback");
    }
    let before = one.application().0;
    for turn in 1..=5 {
        one.step(Duration::ZERO).expect("a batch");
        assert_eq!(one.application().0, before + turn);
        assert_eq!(one.stats().datagrams_received, 32 * turn);
    }
}

#[test]
fn flood_of_sources_stops_no_conversation() {
    if !multicast_works("flood_of_sources_stops_no_conversation") {
        return;
    }
    const ROUNDS: u32 = 500;
    let group = group();
    let mut all = [
        driver(sending(group), Talker { only: b"nothing", ..Talker::default() }),
        driver(listening(group), Talker { only: b"nothing", ..Talker::default() }),
    ];
    let targets = [group, all[0].endpoint().local_addr(), all[1].endpoint().local_addr()];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = Seeds::new(1).stream("flood");
            let sources: Vec<socket2::Socket> = (0..300)
                .map(|_| {
                    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)
                        .expect("a socket");
                    socket.set_multicast_if_v4(&[127, 0, 0, 1].into()).expect("loopback");
                    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
                    socket
                })
                .collect();
            let mut junk = [0; 1500];
            while !stop.load(Ordering::Relaxed) {
                let len = rng.below(junk.len() as u64) as usize;
                rng.fill(&mut junk[..len]);
                let source = &sources[rng.below(sources.len() as u64) as usize];
                // A flood fills the buffers.
                let _ = source.send_to(&junk[..len], &targets[rng.below(3) as usize].into());
            }
        });
        let talk = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let under_flood = |d: &TestDriver| d.stats().datagrams_received > 5000;
            run(&mut all, |all| all.iter().all(under_flood));
            let now = all[0].now();
            all[0].machine_mut().pings = ROUNDS;
            all[0].machine_mut().retry = Some(now);
            run(&mut all, |all| all[0].machine().pongs == ROUNDS);
        }));
        stop.store(true, Ordering::Relaxed);
        talk.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    for driver in &all {
        let (stats, polled) = (driver.stats(), driver.application().0);
        println!(
            "{stats:?}, {polled} polls, {} known, {} lost",
            driver.endpoint().peers(),
            driver.machine().timeouts
        );
        // At most one batch of 32 per socket is read between two polls.
        assert!(polled * 64 >= stats.datagrams_received, "{polled} polls, {stats:?}");
    }
}
