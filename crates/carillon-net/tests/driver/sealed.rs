//! Endpoints with a key on real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{
    Talker, TestDriver, driver, group, in_namespace, listening, multicast_works, run, run_for, sending,
};
use carillon_core::{Dest, DropReason, Event, NodeId};
use carillon_net::{EndpointConfig, GROUP, Key, SEAL_BYTES, SELF, is_sealed};

const TO_GROUP: Dest = Dest::group(GROUP);

fn key(byte: u8) -> Option<Key> {
    Key::of(&[byte; 32])
}

fn sealed(config: EndpointConfig) -> EndpointConfig {
    EndpointConfig { key: key(b'k'), ..config }
}

/// A sender and a receiver that have proven their presence to each other.
fn pair(sender: EndpointConfig, receiver: EndpointConfig) -> [TestDriver; 2] {
    let only = Talker { only: b"data", ..Talker::default() };
    let mut pair = [driver(sealed(sender), Talker::default()), driver(sealed(receiver), only)];
    pair[0].machine_mut().say(TO_GROUP, "first");
    run(&mut pair, |pair| pair[1].stats().seal.unproven == 1 && pair[1].stats().seal.greetings == 2);
    run_for(&mut pair, Duration::from_millis(20));
    assert_eq!(pair[0].stats().seal.greetings, 1);
    pair
}

#[test]
fn sealed_sizes_arrive_once_with_and_without_gso() {
    if !multicast_works("sealed_sizes_arrive_once_with_and_without_gso") {
        return;
    }
    for segmentation in [true, false] {
        let group = group();
        let mut all = pair(sending(group), listening(group));
        all[0].endpoint_mut().set_segmentation(segmentation);
        let max = all[0].endpoint().max_datagram();
        assert_eq!(max, 65_507 - SEAL_BYTES);
        let runs = [(1434, 200), (20, 3), (1434, 1), (8192, 50), (4, 2), (max, 5), (9, 70), (max - 1, 2)];
        let sizes = runs.iter().flat_map(|&(size, count)| std::iter::repeat_n(size, count));
        let content = |(i, size): (usize, usize)| -> Vec<u8> {
            b"data".iter().copied().chain((4..size).map(|j| (i * 31 + j) as u8)).collect()
        };
        let sent: Vec<Vec<u8>> = sizes.enumerate().map(content).collect();
        let before = all[0].stats().clone();
        for part in sent.chunks(16) {
            let expected = all[1].machine().heard.len() + part.len();
            part.iter().for_each(|bytes| all[0].machine_mut().say(TO_GROUP, bytes.clone()));
            run(&mut all, |all| all[1].machine().heard.len() >= expected);
        }
        // The machine has held every slice until here.
        let received: Vec<&[u8]> = all[1].machine().heard.iter().map(|h| &h.bytes[..]).collect();
        assert!(received == sent, "contents");
        let stats = all[0].stats();
        let wire: usize = sent.iter().map(|bytes| bytes.len() + SEAL_BYTES).sum();
        assert_eq!(stats.bytes_sent - before.bytes_sent, wire as u64);
        if segmentation && cfg!(target_os = "linux") {
            assert!(stats.send_calls - before.send_calls < sent.len() as u64 / 2, "{stats:?}");
        }
        // Observers see the contents at both ends.
        for (end, from) in [(0, SELF), (1, NodeId(1))] {
            let seen = all[end].observer().datagrams.iter().filter(|one| one.bytes.starts_with(b"data"));
            assert!(seen.clone().all(|one| one.from == from));
            assert!(seen.map(|one| &one.bytes[..]).eq(sent.iter().map(|bytes| &bytes[..])), "end {end}");
        }
        assert_eq!(all[1].stats().seal.drops().map(|(_, count)| count), [0, 0, 0, 0, 1]);
    }
}

fn answers(group: SocketAddr) {
    let mut all = [driver(sealed(listening(group)), Talker { pings: 3, ..Talker::default() })];
    all[0].machine_mut().say(TO_GROUP, "ping0");
    // The ping is repeated by timer, as in every protocol.
    all[0].machine_mut().retry = Some(carillon_core::Time::ZERO + Duration::from_millis(20));
    let [one] = all;
    let mut both = [one, driver(sealed(listening(group)), Talker::default())];
    run(&mut both, |both| both[0].machine().pongs == 3);
    assert_eq!(both[1].endpoint().peers(), 1);
}

#[test]
fn challenged_endpoint_answers_on_ipv4() {
    if multicast_works("challenged_endpoint_answers_on_ipv4") {
        answers(group());
    }
}

#[test]
fn challenged_endpoint_answers_on_ipv6() {
    let setup = "ip link set lo up && ip -6 route add local ff00::/8 dev lo table local";
    if in_namespace("sealed::challenged_endpoint_answers_on_ipv6", setup) {
        answers("[ff15::1234]:5001".parse().expect("an address"));
    }
}

#[test]
fn endpoints_without_the_key_only_raise_a_counter() {
    if !multicast_works("endpoints_without_the_key_only_raise_a_counter") {
        return;
    }
    let group = group();
    let other = EndpointConfig { key: key(b'o'), ..listening(group) };
    let mut all = [
        driver(sealed(listening(group)), Talker::default()),
        driver(other, Talker::default()),
        driver(listening(group), Talker::default()),
    ];
    (0..3).for_each(|end| all[end].machine_mut().say(TO_GROUP, format!("data of {end}")));
    run(&mut all, |all| all.iter().all(|end| end.stats().datagrams_received == 2));
    for (end, other) in [(0, 1), (1, 0)] {
        let stats = all[end].stats();
        assert_eq!((stats.seal.unauthentic, stats.seal.unsealed, stats.seal.greetings), (1, 1, 0));
        assert_eq!(stats.seal.unauthentic_from, Some(all[other].endpoint().local_addr()));
        assert_eq!(stats.seal.unsealed_from, Some(all[2].endpoint().local_addr()));
        assert!(all[end].machine().heard.is_empty());
        assert_eq!(all[end].endpoint().peers(), 0);
        for reason in [DropReason::Unauthentic, DropReason::Unsealed] {
            let dropped = Event::Dropped { reason };
            assert_eq!(all[end].observer().events.iter().filter(|e| e.event == dropped).count(), 1);
        }
    }
    // Without a key everything arrives unchanged.
    assert_eq!(all[2].stats().seal.sealed, 2);
    assert!(all[2].machine().heard.iter().all(|heard| is_sealed(&heard.bytes)));
}
