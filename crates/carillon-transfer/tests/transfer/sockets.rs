//! Sockets with every protocol: messages, streams, ends, slow and lost members.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use carillon_core::Role;
use carillon_testkit::{is_long_tier, loopback_group, sampling_step};
use carillon_transfer::Error;
use carillon_transfer::socket::{Inbound, MAX_MESSAGE_LEN, Message, Socket, bind};

fn at(group: SocketAddr, name: &str) -> Socket {
    bind(group).interface("lo").name(name)
}

/// Messages with lengths around datagram sizes, each distinguishable.
fn texts(tag: u8) -> Vec<Vec<u8>> {
    let lengths = [0, 1, 2, 100, 1448, 1449, 32_700, 32_768, 100_000, 3];
    (0..).zip(lengths).map(|(at, length)| vec![tag.wrapping_add(at); length]).collect()
}

/// A listener of this name in a thread: what it gets, of one session.
fn listener(group: SocketAddr, name: &str) -> thread::JoinHandle<Result<Vec<Message>, Error>> {
    let mut listener = at(group, name).listen().expect("it can listen");
    thread::spawn(move || listener.accept()?.collect())
}

#[test]
fn one_way_sender_learns_that_nothing_is_confirmed() {
    let Some(group) = loopback_group() else { return };
    let there = listener(group, "a");
    let one_way = [("feedback", "none"), ("redundancy", "1"), ("rate", "10 Mbit/s")];
    let end = one_way.into_iter().fold(at(group, "s").expect(["a"]), |end, (key, value)| end.set(key, value));
    let mut outbound = end.connect().expect("it is there");
    outbound.send(b"one").expect("it is taken");
    let settled = outbound.settle(Duration::from_secs(60));
    assert!(matches!(settled, Err(Error::Unconfirmed)), "{settled:?}");
    assert!(outbound.close().expect("it ends").is_success());
    assert_eq!(there.join().expect("it does not panic").expect("it came").len(), 1);
}

/// A program with an event loop waits at the descriptor only, and loses no message and no end.
#[test]
fn descriptor_announces_messages_and_the_end() {
    use carillon_transfer::socket::Timed;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(group) = loopback_group() else { return };
    let mut listener = at(group, "a").listen().expect("it can listen");
    let sender = thread::spawn(move || {
        let mut outbound = at(group, "s").expect(["a"]).connect().expect("it is there");
        for text in texts(3) {
            outbound.send(&text).expect("it is taken");
            thread::sleep(Duration::from_millis(3));
        }
        outbound.close().expect("it ends").is_success()
    });
    let mut inbound = listener.accept().expect("a session");
    let descriptor = inbound.descriptor().expect("a descriptor");
    let (mut came, mut polls) = (Vec::new(), 0);
    'session: loop {
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&minute)).expect("it can be polled"), 1, "{} came", came.len());
        polls += 1;
        loop {
            match inbound.recv_timeout(Duration::ZERO).expect("it goes on") {
                Timed::Message(message) => came.push(message.bytes),
                Timed::Timeout => break,
                Timed::End => break 'session,
            }
        }
    }
    assert!(came == texts(3) && (2..=2 + came.len()).contains(&polls), "{} came, {polls} polls", came.len());
    assert!(sender.join().expect("it does not panic"));
}

#[test]
fn every_protocol_keeps_the_boundaries_of_messages() {
    for entry in carillon_proto::REGISTRY {
        let Some(group) = loopback_group() else { return };
        let there = [listener(group, "a"), listener(group, "b")];
        let mut outbound =
            at(group, "s").protocol(entry.name).expect(["a", "b"]).connect().expect(entry.name);
        let mut names: Vec<String> = outbound.members().iter().map(|member| member.name.clone()).collect();
        names.sort();
        assert_eq!(names, ["a", "b"], "{}", entry.name);
        for text in texts(7) {
            outbound.send(&text).expect(entry.name);
        }
        // It learns of the last message at the end.
        let at_the_end = entry.name == "erramilli-singh";
        match outbound.settle(if at_the_end { Duration::from_millis(500) } else { Duration::from_secs(60) }) {
            Err(Error::Unconfirmed) => assert!(!entry.delivery.confirmed, "{}", entry.name),
            Ok(false) => assert!(at_the_end, "{}", entry.name),
            settled => assert!(settled.expect(entry.name) && entry.delivery.confirmed, "{}", entry.name),
        }
        let report = outbound.close().expect(entry.name);
        assert!(report.is_success(), "{}: {report:?}", entry.name);
        for one in there {
            let messages = one.join().expect("it does not panic").expect(entry.name);
            let came: Vec<&Vec<u8>> = messages.iter().map(|message| &message.bytes).collect();
            assert!(came.iter().copied().eq(&texts(7)), "{}: {:?}", entry.name, came.len());
            assert!(messages.iter().map(|message| message.number).eq(0..came.len() as u64));
        }
    }
}

#[test]
fn peers_receive_each_other_in_one_order() {
    for entry in carillon_proto::REGISTRY.iter().filter(|entry| entry.roles.contains(&Role::Peer)) {
        let Some(group) = loopback_group() else { return };
        let there = [listener(group, "a"), listener(group, "b")];
        let joined = thread::spawn(move || {
            let mut outbound = at(group, "t").join()?;
            assert!(outbound.members().iter().any(|member| member.name == "s"));
            texts(100).iter().try_for_each(|text| outbound.send(text))?;
            outbound.close()
        });
        let socket = at(group, "s").protocol(entry.name).expect(["a", "b", "t"]);
        let mut outbound = socket.connect().expect(entry.name);
        for text in texts(7) {
            outbound.send(&text).expect(entry.name);
        }
        let report = outbound.close().expect(entry.name);
        let joined = joined.join().expect("it does not panic").expect(entry.name);
        assert!(report.is_success() && joined.is_success(), "{}: {report:?}, {joined:?}", entry.name);
        let [a, b] = there.map(|one| one.join().expect("it does not panic").expect(entry.name));
        for (sender, tag) in [("s", 7), ("t", 100)] {
            let of = a.iter().filter(|message| *message.sender == *sender).map(|message| &message.bytes);
            assert!(of.eq(&texts(tag)), "{}: what {sender} sent", entry.name);
        }
        assert!(a == b, "{}: one order", entry.name);
    }
}

#[test]
fn a_listener_takes_one_session_after_the_other() {
    let Some(group) = loopback_group() else { return };
    let mut listener = at(group, "a").listen().expect("it can listen");
    let there = thread::spawn(move || {
        let session = |inbound: Inbound| inbound.map(|message| Ok(message?.bytes)).collect();
        let both: Result<Vec<Vec<Vec<u8>>>, Error> = (0..2).map(|_| session(listener.accept()?)).collect();
        both
    });
    for text in [b"one", b"two"] {
        let mut outbound = at(group, "s").receivers(1).connect().expect("it connects");
        outbound.send(text).expect("it is open");
        assert!(outbound.close().expect("it ends").is_success());
    }
    let came = there.join().expect("it does not panic").expect("all came");
    assert_eq!(came, [[b"one"], [b"two"]]);
}

/// A listener that comes late is admitted, with the history if there is one. The others get each message once.
#[test]
fn late_listener_continues_from_now_or_with_the_history() {
    use carillon_transfer::History;
    for (history, is_kept) in [(History::EMPTY, false), (History::Bytes(1 << 20), true)] {
        let Some(group) = loopback_group() else { return };
        let numbers = |messages: Vec<Message>| messages.iter().map(|one| one.number).collect::<Vec<_>>();
        let early = listener(group, "a");
        let socket = at(group, "s").receivers(1).history(history).timeout(Duration::from_secs(2));
        let mut outbound = socket.connect().expect("it connects");
        for number in 0..100u32 {
            outbound.send(&number.to_be_bytes()).expect("it is open");
        }
        let mut late = at(group, "b").listen().expect("it can listen");
        let there = thread::spawn(move || late.accept()?.collect::<Result<Vec<Message>, Error>>());
        let start = Instant::now();
        let mut sent = 100u32;
        // It is admitted while messages are sent, and gets some of them.
        while start.elapsed() < Duration::from_secs(3) {
            outbound.send(&sent.to_be_bytes()).expect("it is open");
            sent += 1;
            thread::sleep(Duration::from_millis(5));
        }
        let names: Vec<String> = outbound.members().iter().map(|member| member.name.clone()).collect();
        assert_eq!(names.len(), 2, "each member once: {names:?}");
        let report = outbound.close().expect("it ends");
        assert!(report.is_success() && report.messages == Some(sent.into()), "{report:?}");
        let all = numbers(early.join().expect("it does not panic").expect("all came"));
        assert!(all.into_iter().eq(0..u64::from(sent)));
        let came = numbers(there.join().expect("it does not panic").expect("the rest came"));
        assert!(came.iter().copied().eq(came[0]..u64::from(sent)), "{came:?}");
        assert_eq!(came[0] == 0, is_kept, "{}", came[0]);
        let row = report.receivers.iter().find(|one| one.name == "b").expect("a row");
        let part = row.stream.expect("a part of the stream");
        assert_eq!((part.first, part.missed, part.restarts), (Some(came[0]), came[0], 0));
    }
}

#[test]
fn a_stream_of_bytes_is_written_and_read() {
    let Some(group) = loopback_group() else { return };
    let mut listener = at(group, "a").listen().expect("it can listen");
    let there = thread::spawn(move || {
        let mut all = Vec::new();
        listener.accept().expect("it is let in").read_to_end(&mut all).map(|_| all)
    });
    let mut outbound = at(group, "s").receivers(1).connect().expect("it connects");
    let bytes: Vec<u8> = (0..1_000_000u32).map(|at| at as u8).collect();
    for piece in bytes.chunks(777) {
        outbound.write_all(piece).expect("it is open");
    }
    assert!(outbound.close().expect("it ends").is_success());
    assert!(there.join().expect("it does not panic").expect("it can be read") == bytes);
}

#[test]
fn slow_reader_slows_the_sender_and_loses_nothing() {
    let Some(group) = loopback_group() else { return };
    let mut listener = at(group, "a").listen().expect("it can listen");
    let sent = AtomicUsize::new(0);
    let when_it_began = thread::scope(|scope| {
        let there = scope.spawn(|| {
            let inbound = listener.accept().expect("it is let in");
            thread::sleep(Duration::from_secs(2));
            let when_it_began = sent.load(Ordering::Relaxed);
            let lengths = inbound.map(|message| message.expect("it is whole").bytes.len());
            (when_it_began, lengths.sum::<usize>())
        });
        let socket = at(group, "s").receivers(1).timeout(Duration::from_secs(60));
        let mut outbound = socket.connect().expect("it connects");
        // More than what the receiver (64 MiB) and the sender (16 MiB) may hold between them.
        for _ in 0..13_000 {
            outbound.send(&[1; 10_000]).expect("it is open");
            sent.fetch_add(1, Ordering::Relaxed);
        }
        assert!(outbound.close().expect("it ends").is_success());
        let (when_it_began, all) = there.join().expect("it does not panic");
        assert_eq!(all, 130_000_000);
        when_it_began
    });
    assert!(when_it_began < 13_000, "130 MB waited nowhere");
}

#[test]
fn leaving_member_is_reported_and_others_get_everything() {
    let Some(group) = loopback_group() else { return };
    let there = listener(group, "stays");
    let mut leaving = at(group, "leaves").listen().expect("it can listen");
    let gone = thread::spawn(move || {
        let mut inbound = leaving.accept().expect("it is let in");
        inbound.recv().expect("one comes").expect("one comes");
        inbound.leave().expect("it can leave").outcome
    });
    let mut outbound = at(group, "s").expect(["stays", "leaves"]).connect().expect("it connects");
    outbound.send(b"first").expect("it is open");
    assert!(gone.join().expect("it does not panic").is_err());
    let until = Instant::now() + Duration::from_secs(20);
    while !outbound.members().iter().any(|member| member.name == "leaves" && member.gone.is_some()) {
        assert!(Instant::now() < until, "nobody says that it is gone");
        outbound.send(&[0; 5000]).expect("it is open");
        thread::sleep(Duration::from_millis(1));
    }
    let sent = outbound.messages();
    let report = outbound.close().expect("it ends");
    assert_eq!(report.verified(), 1, "{report:?}");
    let came = there.join().expect("it does not panic").expect("everything came");
    assert_eq!(came.len() as u64, sent);
}

#[test]
fn a_sender_that_is_gone_is_an_error_and_no_end() {
    let Some(group) = loopback_group() else { return };
    let there = listener(group, "a");
    let mut outbound = at(group, "s").receivers(1).connect().expect("it connects");
    outbound.send(b"first").expect("it is open");
    drop(outbound);
    let error = there.join().expect("it does not panic").expect_err("there was no end");
    assert!(matches!(error, Error::Incomplete(_)), "{error}");
}

#[test]
fn stopped_listener_and_empty_connection_report_it() {
    let Some(group) = loopback_group() else { return };
    let mut listener = at(group, "a").listen().expect("it can listen");
    let stopper = listener.stopper();
    let waits = thread::spawn(move || (listener.accept().map(|_| ()), listener.accept().map(|_| ())));
    thread::sleep(Duration::from_millis(100));
    stopper.stop();
    let (first, second) = waits.join().expect("it does not panic");
    assert!(first.is_err() && second.is_err(), "{first:?} {second:?}");
    let nobody = at(group, "s").receivers(1).join_timeout(Duration::from_millis(300)).connect();
    assert!(matches!(nobody, Err(Error::NotConnected(_))), "{nobody:?}");
}

#[test]
fn unsendable_message_is_an_immediate_error() {
    let Some(group) = loopback_group() else { return };
    let there = listener(group, "a");
    let mut outbound = at(group, "s").receivers(1).connect().expect("it connects");
    assert!(matches!(outbound.send(&vec![0; MAX_MESSAGE_LEN + 1]), Err(Error::TooLong(_))));
    outbound.send(&vec![0; MAX_MESSAGE_LEN]).expect("so long it may be");
    assert!(outbound.close().expect("it ends").is_success());
    let came = there.join().expect("it does not panic").expect("everything came");
    assert_eq!(came[0].bytes.len(), MAX_MESSAGE_LEN);
    assert!(matches!(at(group, "s").protocol("none").connect(), Err(Error::UnknownProtocol { .. })));
}

#[test]
fn stuck_reader_is_expelled_and_others_lose_nothing() {
    thread::scope(|scope| {
        // Protocols that do not wait for receivers take longest until a status request.
        let tried = carillon_proto::REGISTRY.iter().filter(|entry| entry.delivery.waits || is_long_tier());
        for entry in tried.step_by(sampling_step(4)) {
            let Some(group) = loopback_group() else { return };
            scope.spawn(move || {
                let there = listener(group, "reads");
                let mut never = at(group, "sleeps").listen().expect("it can listen");
                let held = thread::spawn(move || never.accept().expect("it is let in"));
                let socket = at(group, "s").protocol(entry.name).expect(["reads", "sleeps"]);
                let mut outbound = socket.timeout(Duration::from_secs(2)).connect().expect(entry.name);
                let _held = held.join().expect("it does not panic");
                // More than all buffers hold; protocols that do not wait send at their own pace.
                let count = if entry.delivery.waits { 900 } else { 300 };
                for _ in 0..count {
                    outbound.send(&[1; 10_000]).expect(entry.name);
                }
                let report = outbound.close().expect(entry.name);
                assert_eq!(report.verified(), 1, "{}: {report:?}", entry.name);
                let came = there.join().expect("it does not panic").expect(entry.name);
                assert_eq!(came.len(), count, "{}", entry.name);
            });
        }
    });
}
