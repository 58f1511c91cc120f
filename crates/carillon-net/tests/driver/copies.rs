//! Unicast copies of multicasts, and what strangers can make a sender do. Their frames are written by hand, after
//! `docs/reference/copy-frames.md`.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use carillon_core::{BitRate, Dest};
use carillon_net::{EndpointConfig, GROUP};

use crate::common::*;

const TO_GROUP: Dest = Dest::group(GROUP);

fn serving(group: SocketAddr) -> EndpointConfig {
    EndpointConfig { copies: Some(BitRate::mbps(1000)), ..sending(group) }
}

fn frame(kind: u8, flags: u8, token: u64, cookie: u64) -> Vec<u8> {
    let mut frame = vec![0xC9, b'c', b'p', b'y', 1, kind, flags, 0];
    for number in [token, cookie, 0, 0] {
        frame.extend_from_slice(&number.to_be_bytes());
    }
    frame
}

/// A host without a driver.
struct Stranger(UdpSocket);

impl Stranger {
    fn new() -> Stranger {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_nonblocking(true).expect("set up");
        Stranger(socket)
    }

    fn say(&self, to: SocketAddr, bytes: &[u8]) {
        self.0.send_to(bytes, to).expect("sent");
    }

    /// Returns the datagrams that have arrived.
    fn heard(&self) -> Vec<Vec<u8>> {
        let mut buf = [0; 2000];
        std::iter::from_fn(|| self.0.recv(&mut buf).ok().map(|len| buf[..len].to_vec())).collect()
    }
}

fn cookie_of(answer: &[u8]) -> u64 {
    u64::from_be_bytes(answer[16..24].try_into().expect("eight bytes"))
}

#[test]
fn endpoint_without_multicast_gets_what_goes_to_the_group() {
    let group = group();
    let sender = driver(serving(group), Talker::default());
    let from = Some(sender.endpoint().local_addr());
    let receiver = driver(EndpointConfig { from, ..sending(group) }, Talker::default());
    let mut all = [sender, receiver];
    run(&mut all, |all| all[1].endpoint().subscription().is_some_and(|state| state.answered));
    for number in 0..200 {
        all[0].machine_mut().say(TO_GROUP, vec![number; 700]);
    }
    run(&mut all, |all| all[1].machine().heard.len() >= 200);
    let heard = &all[1].machine().heard;
    assert!(heard.iter().enumerate().all(|(at, one)| one.bytes[..] == vec![at as u8; 700][..]));
    assert!(heard.iter().all(|one| one.to == TO_GROUP), "a copy counts as multicast");
    let member = all[1].endpoint().local_addr();
    let path = all[0].endpoint().path(member).expect("a path");
    assert!(path.unicast && path.changes == 0);
    // An answer goes to the sender, which is the peer that the copies come from.
    let node = heard[0].from;
    all[1].machine_mut().say(Dest::Node(node), "back");
    run(&mut all, |all| !all[0].machine().heard.is_empty());
}

#[test]
fn copies_stop_where_multicast_arrives() {
    if !multicast_works("copies_stop_where_multicast_arrives") {
        return;
    }
    let group = group();
    let sender = driver(serving(group), Talker::default());
    let from = Some(sender.endpoint().local_addr());
    let mut all = [sender, driver(EndpointConfig { from, ..listening(group) }, Talker::default())];
    run(&mut all, |all| all[1].endpoint().subscription().is_some_and(|state| state.answered));
    while all[1].endpoint().subscription().is_some_and(|state| state.unicast) {
        all[0].machine_mut().say(TO_GROUP, "hello");
        run_for(&mut all, Duration::from_millis(20));
    }
    run_for(&mut all, Duration::from_millis(100));
    let before = all[0].endpoint().copy_stats().expect("copies").sent;
    assert!(before >= 8, "unicast comes first: {before}");
    for _ in 0..20 {
        all[0].machine_mut().say(TO_GROUP, "hello");
        run_for(&mut all, Duration::from_millis(20));
    }
    assert_eq!(all[0].endpoint().copy_stats().expect("copies").sent, before);
}

/// A host that has not answered from its address gets at most what it sent, however often it asks.
#[test]
fn unproven_address_gets_no_more_than_it_sent() {
    let group = group();
    let mut all = [driver(serving(group), Talker::default())];
    let to = all[0].endpoint().local_addr();
    let stranger = Stranger::new();
    let (mut sent, mut got) = (0, 0);
    for round in 0..50 {
        for kind in 0..6 {
            let ask = frame(kind, 1, round, 0x1234_5678 + round);
            stranger.say(to, &ask);
            sent += ask.len();
        }
        for _ in 0..20 {
            all[0].machine_mut().say(TO_GROUP, vec![1; 1400]);
        }
        run_for(&mut all, Duration::from_millis(2));
        got += stranger.heard().iter().map(Vec::len).sum::<usize>();
    }
    assert!(got > 0 && got * 6 <= sent, "{got} bytes for {sent}");
    assert_eq!(all[0].endpoint().copy_stats().expect("copies").sent, 0);
}

/// The cookie of one address is of no use for another, so nothing directs copies to a victim.
#[test]
fn cookie_directs_no_copies_to_another_address() {
    let group = group();
    let mut all = [driver(serving(group), Talker::default())];
    let to = all[0].endpoint().local_addr();
    let [stranger, victim] = [Stranger::new(), Stranger::new()];
    stranger.say(to, &frame(0, 1, 7, 0));
    run_for(&mut all, Duration::from_millis(20));
    let answer = stranger.heard().pop().expect("an answer");
    assert_eq!((answer.len(), answer[6] & 3), (40, 2), "a request for proof");
    let cookie = cookie_of(&answer);
    // As if the stranger forged the victim's address.
    victim.say(to, &frame(0, 1, 7, cookie));
    victim.say(to, &frame(2, 1, 7, cookie));
    victim.say(to, &frame(4, 1, 7, cookie));
    (0..50).for_each(|_| all[0].machine_mut().say(TO_GROUP, vec![1; 1400]));
    run_for(&mut all, Duration::from_millis(50));
    assert!(victim.heard().iter().map(Vec::len).sum::<usize>() <= 3 * 40);
    // The same cookie serves the address that it was made for, as long as that goes on asking.
    stranger.say(to, &frame(0, 1, 7, cookie));
    run_for(&mut all, Duration::from_millis(20));
    (0..50).for_each(|_| all[0].machine_mut().say(TO_GROUP, vec![1; 1400]));
    run_for(&mut all, Duration::from_millis(50));
    assert_eq!(stranger.heard().iter().filter(|bytes| bytes.len() == 1400).count(), 50);
    // The session of the stranger can be named, and gets nothing by that.
    victim.say(to, &frame(2, 1, 7, 0));
    (0..50).for_each(|_| all[0].machine_mut().say(TO_GROUP, vec![1; 1400]));
    run_for(&mut all, Duration::from_millis(50));
    assert!(victim.heard().is_empty());
}

/// Datagrams of other hosts to the socket for copies reach no machine.
#[test]
fn only_the_sender_is_heard_at_the_socket_for_copies() {
    let group = group();
    let sender = driver(serving(group), Talker::default());
    let from = Some(sender.endpoint().local_addr());
    let mut all = [sender, driver(EndpointConfig { from, ..sending(group) }, Talker::default())];
    run(&mut all, |all| all[1].endpoint().subscription().is_some_and(|state| state.answered));
    let port = all[1].endpoint().subscription().expect("a subscription").port;
    let stranger = Stranger::new();
    stranger.say(SocketAddr::from(([127, 0, 0, 1], port)), b"forged");
    all[0].machine_mut().say(TO_GROUP, "genuine");
    run(&mut all, |all| !all[1].machine().heard.is_empty());
    run_for(&mut all, Duration::from_millis(50));
    let heard: Vec<&[u8]> = all[1].machine().heard.iter().map(|one| &one.bytes[..]).collect();
    assert_eq!(heard, [b"genuine"]);
    assert_eq!(all[1].stats().refused_peers, 1);
}
