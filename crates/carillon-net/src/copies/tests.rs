use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use carillon_core::{BitRate, Dest, NodeId, Time};

use super::frame::{Frame, FrameKind, LEN, beacon, behind, is_frame, located, server_of_beacon};
use super::located::Located;
use super::server::{CopyServer, MAX_SUBSCRIBERS, Outcome};
use crate::outbox::{Outbox, Route, Run};
use crate::seal::{Key, Names};

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn host(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    SocketAddr::from(([10, 0, high, low], 4000))
}

/// Address of the sender.
const OWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 9, 9)), 7654);

fn server() -> CopyServer {
    CopyServer::new(BitRate::mbps(8), None, [7; 32])
}

fn ask(token: u64, cookie: u64, copying: bool) -> Frame {
    let (multicasts, copies) = (0, 0);
    Frame { kind: FrameKind::Ask, copying, unproven: false, full: false, token, cookie, multicasts, copies }
}

fn answered(server: &mut CopyServer, now: Time, from: SocketAddr, frame: Frame) -> Frame {
    assert_eq!(server.on_frame(now, from, OWN, &frame.emit(None)), Outcome::Done);
    let (to, bytes) = server.next_answer().expect("an answer");
    assert_eq!(to, from);
    assert!(bytes.len() <= frame.emit(None).len(), "an answer does not amplify");
    Frame::parse(&bytes, None).expect("a frame")
}

/// Recipients of the copies of a datagram with this many bytes, which leave at once.
fn recipients(server: &mut CopyServer, now: Time, bytes: usize) -> Vec<SocketAddr> {
    server.offer(now, &run(bytes), 0);
    std::iter::from_fn(|| server.next_copy(now)).map(|copy| copy.way.address).collect()
}

fn run(bytes: usize) -> Run {
    let mut outbox = Outbox::default();
    let way = Route { address: host(9), hops: Some(1), raw: false };
    outbox.push(Dest::Node(NodeId(0)), way, &mut vec![1; bytes], 1);
    outbox.pop().expect("a run")
}

/// Joins as a receiver that gets the answers does; returns the cookie.
fn join(server: &mut CopyServer, now: Time, from: SocketAddr, token: u64) -> u64 {
    let challenge = answered(server, now, from, ask(token, 0, true));
    assert!(challenge.unproven && !challenge.copying);
    let welcome = answered(server, now, from, ask(token, challenge.cookie, true));
    assert!(welcome.copying && !welcome.unproven);
    welcome.cookie
}

#[test]
fn frames_survive_and_authenticate() {
    let key = Key::of(&[1; 32]);
    let other = Key::of(&[2; 32]);
    let frame = Frame { multicasts: 5, copies: u64::MAX, full: true, ..ask(3, 4, true) };
    for key in [None, key.as_ref()] {
        let bytes = frame.emit(key);
        assert!(is_frame(&bytes));
        assert_eq!(Frame::parse(&bytes, key), Some(frame));
        for len in 0..bytes.len() {
            let parsed = Frame::parse(&bytes[..len], key);
            assert!(parsed.is_none() || key.is_none() && len >= LEN);
        }
    }
    let sealed = frame.emit(key.as_ref());
    assert_eq!(Frame::parse(&sealed, other.as_ref()), None);
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert_eq!(Frame::parse(&changed, key.as_ref()), None, "byte {at}");
    }
}

#[test]
fn copies_need_a_cookie_from_the_same_address() {
    let mut server = server();
    let cookie = join(&mut server, at(0), host(1), 1);
    assert_eq!(recipients(&mut server, at(1), 100), [host(1)]);
    // The cookie of one address is worth nothing at another, nor with another token.
    assert!(answered(&mut server, at(1), host(2), ask(1, cookie, true)).unproven);
    assert!(answered(&mut server, at(1), host(1), ask(2, cookie, true)).unproven);
    for guess in 0..1000 {
        assert!(answered(&mut server, at(1), host(3), ask(9, guess, true)).unproven);
    }
    assert_eq!(recipients(&mut server, at(2), 100), [host(1)]);
    // Nor is it after two slots.
    let stale = answered(&mut server, at(16_001), host(1), ask(1, cookie, true));
    assert!(stale.unproven && !stale.copying);
}

#[test]
fn silent_receiver_gets_no_more_copies() {
    let mut server = server();
    join(&mut server, at(0), host(1), 1);
    assert_eq!(recipients(&mut server, at(5000), 100), [host(1)]);
    assert!(recipients(&mut server, at(5001), 100).is_empty());
}

#[test]
fn receiver_with_multicast_gets_no_copies_until_it_asks() {
    let mut server = server();
    let cookie = join(&mut server, at(0), host(1), 1);
    let member = Frame { kind: FrameKind::Member, ..ask(1, 0, false) };
    let session = SocketAddr::from(([10, 0, 0, 1], 5000));
    assert_eq!(server.on_frame(at(1), session, OWN, &member.emit(None)), Outcome::Done);
    assert!(server.path(session).is_some_and(|path| path.unicast && path.changes == 0));
    answered(&mut server, at(2), host(1), Frame { multicasts: 8, ..ask(1, cookie, false) });
    assert!(recipients(&mut server, at(3), 100).is_empty());
    assert!(server.path(session).is_some_and(|path| !path.unicast && path.changes == 1));
    answered(&mut server, at(4), host(1), ask(1, cookie, true));
    assert_eq!(recipients(&mut server, at(5), 100), [host(1)]);
    assert!(server.path(session).is_some_and(|path| path.unicast && path.changes == 2));
    // The report names the path also after the receiver has left.
    server.forget(at(20_000));
    assert!(server.path(session).is_some_and(|path| path.changes == 2));
}

#[test]
fn stranger_cannot_name_the_session_of_another_receiver() {
    let mut server = server();
    join(&mut server, at(0), host(1), 1);
    let victim = SocketAddr::from(([10, 0, 0, 9], 5000));
    let member = Frame { kind: FrameKind::Member, ..ask(2, 0, false) };
    server.on_frame(at(1), victim, OWN, &member.emit(None));
    assert_eq!(server.path(victim), None);
    assert_eq!(recipients(&mut server, at(2), 100), [host(1)], "naming a session directs no copies there");
}

#[test]
fn budget_bounds_the_copies_and_serves_all_in_turn() {
    let mut server = server();
    for number in 1..=4 {
        join(&mut server, at(0), host(number), number.into());
    }
    let mut bytes = 0;
    let mut each = std::collections::BTreeMap::new();
    for millis in 0..1000 {
        for to in recipients(&mut server, at(millis), 1000) {
            bytes += 1000;
            *each.entry(to).or_insert(0) += 1;
        }
    }
    // 8 Mbit/s are 1 MB in this second, and the burst adds 2 ms.
    assert!((950_000..=1_025_000).contains(&bytes), "{bytes}");
    assert_eq!(each.len(), 4);
    assert!(each.values().all(|count| (200..=300).contains(count)), "{each:?}");
    // The queue holds 393 216 bytes.
    assert!((2500..2700).contains(&server.stats().dropped), "{:?}", server.stats());
    let waits = server.copy_at(at(999)).expect("copies wait").since(at(999));
    assert!(waits < Duration::from_millis(2), "{waits:?}");
    let mut later = at(1000);
    while let Some(next) = server.copy_at(later) {
        later = next;
        server.next_copy(later).expect("it is due");
    }
    // The queue is what the link would carry in this time.
    assert!((0.38..0.41).contains(&later.since(at(1000)).as_secs_f64()), "{later}");
}

#[test]
fn places_are_bounded_in_all_and_for_each_host() {
    let mut server = server();
    let port = |port| SocketAddr::from(([10, 9, 9, 9], port));
    let mut full = 0;
    for number in 0..MAX_SUBSCRIBERS as u16 {
        let from = port(1000 + number);
        let challenge = answered(&mut server, at(0), from, ask(number.into(), 0, true));
        full +=
            usize::from(answered(&mut server, at(0), from, ask(number.into(), challenge.cookie, true)).full);
    }
    assert_eq!(full, MAX_SUBSCRIBERS / 2);
    for number in 0..MAX_SUBSCRIBERS as u16 / 2 {
        join(&mut server, at(1), host(number), 9000 + u64::from(number));
    }
    let challenge = answered(&mut server, at(1), host(999), ask(1, 0, true));
    assert!(answered(&mut server, at(1), host(999), ask(1, challenge.cookie, true)).full);
    assert_eq!(server.copying(), MAX_SUBSCRIBERS);
    let later = at(1) + Duration::from_secs(6);
    join(&mut server, later, host(999), 1);
    assert_eq!(server.copying(), 1);
}

/// A host on an IPv6 network can use all addresses of 64 bits there.
#[test]
fn one_ipv6_network_has_half_of_the_places() {
    let mut server = server();
    let at_network =
        |network: u16, host: u16| SocketAddr::from(([0xfd77, 0, 0, network, 0, 0, 0, host], 4000));
    let mut full = 0;
    for number in 0..MAX_SUBSCRIBERS as u16 {
        let from = at_network(1, number);
        let challenge = answered(&mut server, at(0), from, ask(number.into(), 0, true));
        full +=
            usize::from(answered(&mut server, at(0), from, ask(number.into(), challenge.cookie, true)).full);
    }
    assert_eq!(full, MAX_SUBSCRIBERS / 2);
    join(&mut server, at(1), at_network(2, 1), 9000);
}

#[test]
fn beacons_name_senders_of_both_ip_versions() {
    for server in ["10.1.2.3:7654", "[2001:db8::1:2]:65535", "[::ffff:1.2.3.4]:1"] {
        let server: SocketAddr = server.parse().expect("an address");
        let frame = beacon(7, server);
        assert!(is_frame(&frame));
        assert_eq!(server_of_beacon(&frame), Some((7, server)));
        for len in 0..LEN {
            assert_eq!(server_of_beacon(&frame[..len]), None);
        }
    }
    assert_eq!(server_of_beacon(&ask(1, 2, true).emit(None)), None);
}

#[test]
fn unauthentic_frames_change_nothing() {
    let key = Key::of(&[1; 32]);
    let mut server = CopyServer::new(BitRate::mbps(8), key.clone(), [7; 32]);
    assert_eq!(server.on_frame(at(0), host(1), OWN, &ask(1, 0, true).emit(None)), Outcome::Refused);
    let other = Key::of(&[2; 32]);
    assert_eq!(server.on_frame(at(0), host(1), OWN, &ask(1, 0, true).emit(other.as_ref())), Outcome::Refused);
    assert_eq!(server.next_answer(), None);
    assert_eq!(server.on_frame(at(0), host(1), OWN, &ask(1, 0, true).emit(key.as_ref())), Outcome::Done);
    assert!(server.next_answer().is_some());
    // A relay without the key is answered only where that is permitted, and in the same way.
    let mut open = CopyServer::new(BitRate::mbps(8), key.clone(), [7; 32]).without_key();
    assert_eq!(open.on_frame(at(0), host(1), OWN, &ask(1, 0, true).emit(other.as_ref())), Outcome::Refused);
    join(&mut open, at(0), host(1), 1);
    assert_eq!(recipients(&mut open, at(1), 100), [host(1)]);
}

/// The report names the relay of a receiver, which cannot be invented.
#[test]
fn receiver_behind_a_relay_is_known_by_the_relays_token() {
    let mut server = server();
    join(&mut server, at(0), host(1), 77);
    let [near, far] = [SocketAddr::from(([10, 5, 0, 1], 4000)), SocketAddr::from(([10, 5, 0, 2], 4000))];
    server.on_frame(at(1), near, OWN, &behind(77, 0, None));
    server.on_frame(at(1), far, OWN, &behind(78, 0, None));
    assert_eq!(server.path(near).and_then(|path| path.relay), Some(host(1).ip()));
    assert_eq!(server.path(far), None);
}

/// Frames that request addresses, of a receiver's session and of one behind a relay.
fn locating(token: u64, request: u64, key: Option<&Key>) -> [Vec<u8>; 2] {
    let member = Frame { kind: FrameKind::Member, cookie: request, ..ask(token, 0, true) };
    [member.emit(key), behind(token, request, key)]
}

#[test]
fn session_with_a_key_is_told_the_addresses_of_both_ends() {
    let key = Key::of(&[1; 32]).expect("long enough");
    let mut server = CopyServer::new(BitRate::mbps(8), Some(key.clone()), [7; 32]);
    let first = ask(5, 0, true).emit(Some(&key));
    server.on_frame(at(0), host(1), OWN, &first);
    let (_, bytes) = server.next_answer().expect("a cookie");
    let cookie = Frame::parse(&bytes, Some(&key)).expect("a frame").cookie;
    server.on_frame(at(0), host(1), OWN, &ask(5, cookie, true).emit(Some(&key)));
    server.next_answer().expect("a place");
    let mut known = Located::default();
    for session in [SocketAddr::from(([10, 0, 0, 1], 5000)), "[2001:db8::7]:9".parse().expect("an address")] {
        for at_relay in [false, true] {
            let number = known.request();
            let request = &locating(5, number, Some(&key))[usize::from(at_relay)];
            server.on_frame(at(1), session, OWN, request);
            let mut told = Vec::new();
            while let Some((to, bytes)) = server.next_answer() {
                assert_eq!(to, session);
                told.push(bytes);
            }
            let bytes: usize = told.iter().map(Vec::len).sum();
            assert_eq!(bytes, 2 * request.len(), "a request is doubled at most");
            let other = Key::of(&[2; 32]).expect("long enough");
            let wrong = |known: &mut Located| {
                told.iter().all(|bytes| {
                    known.on_frame(bytes, 6, &key).is_none() && known.on_frame(bytes, 5, &other).is_none()
                })
            };
            assert!(wrong(&mut known), "another token or key");
            let names = told.iter().filter_map(|bytes| known.on_frame(bytes, 5, &key)).last();
            // The second request of a session brings nothing new.
            assert_eq!(names, (!at_relay).then_some(Names { own: session, theirs: OWN }));
        }
    }
    // Without a place there is no answer.
    for request in locating(6, 1, Some(&key)) {
        server.on_frame(at(1), host(2), OWN, &request);
        assert_eq!(server.next_answer(), None);
    }
}

#[test]
fn addresses_are_told_to_holders_of_the_key_alone() {
    let key = Key::of(&[1; 32]).expect("long enough");
    let mut server = CopyServer::new(BitRate::mbps(8), Some(key.clone()), [7; 32]).without_key();
    join(&mut server, at(0), host(1), 5);
    for request in locating(5, 1, None) {
        assert_eq!(server.on_frame(at(1), host(1), OWN, &request), Outcome::Done);
        assert_eq!(server.next_answer(), None);
    }
}

/// An attacker forwards requests from its own address, and the answers to the receiver.
#[test]
fn first_answer_to_each_request_counts() {
    let key = Key::of(&[1; 32]).expect("long enough");
    let mut known = Located::default();
    let tell = |known: &mut Located, number: u64, address: SocketAddr, is_sender: bool| {
        let request = Frame { cookie: number, ..ask(5, 0, true) };
        known.on_frame(&located(&request, address, is_sender, &key), 5, &key)
    };
    for number in 1..=40 {
        assert_eq!(tell(&mut known, number, host(9), false), None, "of a request that was not made");
        assert_eq!(known.request(), number);
        assert_eq!(tell(&mut known, number, OWN, true), None);
        let names = Names { own: host(1), theirs: OWN };
        assert_eq!(tell(&mut known, number, host(1), false), (number == 1).then_some(names));
        for earlier in 0..=number {
            assert_eq!(tell(&mut known, earlier, host(9), false), None, "after the true answer");
        }
    }
    // The mapping of a translator has changed.
    known.request();
    let names = Names { own: host(2), theirs: OWN };
    assert_eq!(tell(&mut known, 41, host(2), false), Some(names));
}
