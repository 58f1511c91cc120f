//! Sockets through a daemon: the guarantees of direct sockets hold, and only misbehaving programs are refused.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use carillon_core::Role;
use carillon_testkit::{loopback_group, sampling_step};
use carillon_transfer::Error;
use carillon_transfer::daemon::{Daemon, DaemonOptions, DaemonStopper, status, stop};
use carillon_transfer::socket::{MAX_MESSAGE_LEN, Message, Socket, bind};
use carillon_wire::session::{Release, WIRE_VERSION};
use tempfile::TempDir;

/// A daemon of this test's own, in a thread.
struct Hosted {
    path: PathBuf,
    stopper: DaemonStopper,
    thread: Option<thread::JoinHandle<Result<(), Error>>>,
    _directory: TempDir,
}

impl Hosted {
    fn new(limit: impl FnOnce(DaemonOptions) -> DaemonOptions) -> Hosted {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("below/socket");
        let daemon = Daemon::open(limit(DaemonOptions::new(&path))).expect("it listens");
        let stopper = daemon.stopper();
        Hosted { path, stopper, thread: Some(thread::spawn(|| daemon.run())), _directory: directory }
    }

    fn at(&self, group: SocketAddr, name: &str) -> Socket {
        bind(group).interface("lo").name(name).through(&self.path)
    }

    fn listener(&self, group: SocketAddr, name: &str) -> thread::JoinHandle<Result<Vec<Message>, Error>> {
        let mut listener = self.at(group, name).listen().expect("it can listen");
        thread::spawn(move || listener.accept()?.collect())
    }

    /// Number of refusals for this reason.
    fn refused(&self, why: &str) -> u64 {
        let status = status(&self.path).expect("it answers");
        status.refused.iter().find(|(name, _)| name == why).expect("it is counted").1
    }

    /// Waits until this is so.
    #[track_caller]
    fn until(&self, what: &str, so: impl Fn(&Hosted) -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !so(self) {
            assert!(Instant::now() < until, "{what}: {:?}", status(&self.path));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(|thread| thread.join().expect("it does not panic"));
        if !thread::panicking() {
            ended.expect("it ran").expect("it ends in order");
        }
    }
}

fn texts(tag: u8) -> Vec<Vec<u8>> {
    let lengths = [0, 1, 2, 100, 1448, 1449, 32_700, 65_525, 65_526, 65_527, 200_000, 3];
    (0..).zip(lengths).map(|(at, length)| vec![tag.wrapping_add(at); length]).collect()
}

/// Connects a socket through the daemon with a direct one, in both directions.
#[test]
fn every_protocol_keeps_message_boundaries_via_daemon() {
    let hosted = Hosted::new(|options| options);
    for entry in carillon_proto::REGISTRY.iter().step_by(sampling_step(3)) {
        let Some(group) = loopback_group() else { return };
        let mut plain = bind(group).interface("lo").name("b").listen().expect("it can listen");
        let there = [hosted.listener(group, "a"), thread::spawn(move || plain.accept()?.collect())];
        let socket = hosted.at(group, "s").protocol(entry.name).expect(["a", "b"]);
        let mut outbound = socket.connect().expect(entry.name);
        let mut names: Vec<String> = outbound.members().iter().map(|member| member.name.clone()).collect();
        names.sort();
        assert_eq!(names, ["a", "b"], "{}", entry.name);
        for text in texts(7) {
            outbound.send(&text).expect(entry.name);
        }
        // This protocol learns of the last message only at the end; for the others the limit is generous, because the
        // test shares its processors with others.
        let settles = entry.name != "erramilli-singh";
        match outbound.settle(Duration::from_millis(if settles { 60_000 } else { 1500 })) {
            Err(Error::Unconfirmed) => assert!(!entry.delivery.confirmed, "{}", entry.name),
            Ok(false) => assert!(!settles, "{}", entry.name),
            settled => assert!(settled.expect(entry.name) && entry.delivery.confirmed, "{}", entry.name),
        }
        let report = outbound.close().expect(entry.name);
        assert!(report.is_success() && report.protocol == entry.name, "{}: {report:?}", entry.name);
        for one in there {
            let messages = one.join().expect("it does not panic").expect(entry.name);
            let came: Vec<&Vec<u8>> = messages.iter().map(|message| &message.bytes).collect();
            assert!(came.iter().copied().eq(&texts(7)), "{}: {:?}", entry.name, came.len());
            assert!(messages.iter().map(|message| message.number).eq(0..came.len() as u64));
            assert!(messages.iter().all(|message| &*message.sender == "s"));
        }
    }
}

#[test]
fn peers_via_daemon_receive_in_one_order() {
    let hosted = Hosted::new(|options| options);
    for entry in carillon_proto::REGISTRY.iter().filter(|entry| entry.roles.contains(&Role::Peer)) {
        let Some(group) = loopback_group() else { return };
        let there = [hosted.listener(group, "a"), hosted.listener(group, "b")];
        let socket = hosted.at(group, "t");
        let joined = thread::spawn(move || {
            let mut outbound = socket.join()?;
            assert!(outbound.members().iter().any(|member| member.name == "s"));
            texts(100).iter().try_for_each(|text| outbound.send(text))?;
            outbound.close()
        });
        let socket = hosted.at(group, "s").protocol(entry.name).expect(["a", "b", "t"]);
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
fn listener_via_daemon_takes_successive_sessions() {
    let hosted = Hosted::new(|options| options);
    let Some(group) = loopback_group() else { return };
    let mut listener = hosted.at(group, "a").listen().expect("it can listen");
    let there = thread::spawn(move || {
        (0..2).map(|_| listener.accept()?.map(|message| Ok(message?.bytes)).collect()).collect()
    });
    for text in [b"one", b"two"] {
        let mut outbound = hosted.at(group, "s").receivers(1).connect().expect("it connects");
        outbound.send(text).expect("it is open");
        assert!(outbound.close().expect("it ends").is_success());
    }
    let came: Result<Vec<Vec<Vec<u8>>>, Error> = there.join().expect("it does not panic");
    assert_eq!(came.expect("all came"), [[b"one"], [b"two"]]);
}

#[test]
fn longest_message_passes_through_the_daemon() {
    let hosted = Hosted::new(|options| options);
    let Some(group) = loopback_group() else { return };
    let there = hosted.listener(group, "a");
    let mut outbound = hosted.at(group, "s").receivers(1).connect().expect("it connects");
    let long: Vec<u8> = (0..MAX_MESSAGE_LEN).map(|at| (at / 251) as u8).collect();
    outbound.send(&long).expect("so long it may be");
    outbound.send(b"short").expect("it is open");
    assert!(outbound.close().expect("it ends").is_success());
    let came = there.join().expect("it does not panic").expect("everything came");
    assert!(came.len() == 2 && came[0].bytes == long && came[1].bytes == b"short");
}

#[test]
fn async_tasks_use_sockets_via_daemon() {
    let hosted = Hosted::new(|options| options);
    let Some(group) = loopback_group() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut listener = hosted.at(group, "a").listen().expect("it can listen");
        let receive = async {
            let mut inbound = listener.accept_async().await?;
            let mut bytes = 0;
            while let Some(message) = inbound.recv_async().await? {
                bytes += message.bytes.len();
            }
            Ok::<_, Error>(bytes)
        };
        let send = async {
            let mut outbound = hosted.at(group, "s").receivers(1).connect_async().await?;
            for _ in 0..1000 {
                outbound.send_async(&[7; 3000]).await?;
            }
            outbound.settle_async().await?;
            outbound.close_async().await
        };
        let (bytes, report) = tokio::join!(receive, send);
        assert!(bytes.expect("it comes") == 3_000_000 && report.expect("it ends").is_success());
    });
}

#[test]
fn leaving_or_stopped_client_receives_its_report() {
    let hosted = Hosted::new(|options| options);
    let Some(group) = loopback_group() else { return };
    let stays = hosted.listener(group, "stays");
    let mut leaving = hosted.at(group, "leaves").listen().expect("it can listen");
    let gone = thread::spawn(move || {
        let mut inbound = leaving.accept().expect("it is let in");
        assert_eq!(inbound.sender(), "s");
        inbound.recv().expect("one comes").expect("one comes");
        let outcome = inbound.leave().expect("it can leave").outcome;
        // The socket is there for the next session, until it is stopped.
        let stopper = leaving.stopper();
        let stops = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            stopper.stop();
        });
        let next = leaving.accept().map(drop);
        stops.join().expect("it does not panic");
        (outcome, next)
    });
    let mut outbound = hosted.at(group, "s").expect(["stays", "leaves"]).connect().expect("it connects");
    outbound.send(b"first").expect("it is open");
    let (outcome, next) = gone.join().expect("it does not panic");
    assert!(outcome.is_err() && next.is_err(), "{outcome:?} {next:?}");
    let until = Instant::now() + Duration::from_secs(20);
    while !outbound.members().iter().any(|member| member.name == "leaves" && member.gone.is_some()) {
        assert!(Instant::now() < until, "nobody says that it is gone");
        outbound.send(&[0; 5000]).expect("it is open");
        thread::sleep(Duration::from_millis(1));
    }
    // The sender leaves in the middle: its receiver is notified, and the sender has a report.
    assert!(!outbound.leave().expect("it can leave").is_success());
    let error = stays.join().expect("it does not panic").expect_err("there was no end");
    assert!(matches!(error, Error::Incomplete(_)), "{error}");
}

#[test]
fn errors_via_daemon_equal_direct_errors() {
    let hosted = Hosted::new(|options| options);
    let Some(group) = loopback_group() else { return };
    let nobody = hosted.at(group, "s").receivers(1).join_timeout(Duration::from_millis(300)).connect();
    assert!(matches!(nobody, Err(Error::NotConnected(_))), "{nobody:?}");
    assert!(matches!(hosted.at(group, "s").protocol("none").connect(), Err(Error::UnknownProtocol { .. })));
    let nowhere = hosted.at(group, "a").interface("nowhere").listen();
    assert!(matches!(&nowhere, Err(Error::Daemon(text)) if text.contains("nowhere")), "{nowhere:?}");
    let nothing = bind(group).through("/nonexistent/socket").listen();
    assert!(matches!(nothing, Err(Error::Daemon(_))), "{nothing:?}");
    let second = Daemon::open(DaemonOptions::new(&hosted.path)).expect_err("it has one");
    assert!(second.to_string().contains("already"), "{second}");
}

#[test]
fn stopped_daemon_frees_its_path_with_clients_connected() {
    let hosted = Hosted::new(|options| options);
    let Some(group) = loopback_group() else { return };
    let there = hosted.listener(group, "a");
    let idle = hosted.at(group, "idle").listen().expect("it can listen");
    let mut outbound = hosted.at(group, "s").receivers(1).connect().expect("it connects");
    outbound.send(b"first").expect("it is open");
    stop(&hosted.path).expect("it ends");
    assert!(there.join().expect("it does not panic").is_err(), "there was no end");
    assert!(!outbound.close().is_ok_and(|report| report.is_success()));
    drop(idle);
    assert!(!hosted.path.exists());
    Daemon::open(DaemonOptions::new(&hosted.path)).expect("another one may be there");
}

/// The next daemon starts at once after a stop: the old one has removed its path and still holds the lock.
#[test]
fn second_daemon_waits_for_the_ending_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let lock = File::create(directory.path().join("socket.lock")).expect("a file");
    lock.lock().expect("nobody has it");
    let ending = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        drop(lock);
    });
    Daemon::open(DaemonOptions::new(&path)).expect("the path is free");
    ending.join().expect("it does not panic");
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 1).to_be_bytes();
    [&length[..], &[kind], body].concat()
}

/// Final frame of the daemon after these bytes, as text.
fn answer(path: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(path).expect("it listens");
    // It may have hung up.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    said
}

#[test]
fn malformed_frames_are_refused_and_counted() {
    let hosted = Hosted::new(|options| options);
    let open = |role: u8, fields: &[u8]| frame(1, &opening(role, fields));
    let group = b"\x05group\0\x0e239.1.2.3:4567";
    for (number, bytes) in [
        vec![0xff; 100],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0, 0, 0, 0],
        vec![0x7f, 0xff, 0xff, 0xff, 2],
        frame(99, b""),
        frame(2, b"before it is open"),
        frame(1, &[2]),
        open(9, group),
        open(3, b"\x05group\0\xff239"),
        [open(4, b""), frame(3, b"")].concat(),
    ]
    .iter()
    .enumerate()
    {
        let said = answer(&hosted.path, bytes);
        assert!(said.get(4) == Some(&136), "{number}: {said:?}");
        assert_eq!(hosted.refused("malformed"), number as u64 + 1, "{said:?}");
    }
    for (number, fields) in
        [&b""[..], b"\x05group\0\x04here", b"\x05group\0\x0e239.1.2.3:4567\x01x\0\0"].iter().enumerate()
    {
        let said = answer(&hosted.path, &open(3, fields));
        assert!(said.get(4) == Some(&136), "{number}: {said:?}");
        assert_eq!(hosted.refused("wrong"), number as u64 + 1, "{said:?}");
    }
}

/// Records that no socket makes, in the middle of a session that others are in.
#[test]
fn misbehaving_sender_is_refused_and_its_session_ends() {
    let hosted = Hosted::new(|options| options);
    let Some(group) = loopback_group() else { return };
    let record = |kind: u8, number: u64, bytes: &[u8]| [&[kind], &number.to_be_bytes()[..], bytes].concat();
    let piece = [frame(2, &record(12, 0, &[0; 60_000])), frame(2, &record(7, 0, b""))].concat();
    let endless: Vec<u8> = (0..300).flat_map(|_| frame(2, &record(12, 0, &[0; 60_000]))).collect();
    // A PACK: the end, and a message.
    let late = [&[11, 0, 9][..], &record(7, 0, b""), &[0, 13], &record(6, 0, b"late")].concat();
    for bytes in [
        frame(2, b""),
        frame(2, b"\x01file"),
        frame(2, &record(6, 1, b"the second")),
        frame(2, &record(7, 5, b"")),
        frame(2, &late),
        frame(3, b""),
        piece,
        endless,
    ] {
        let before = hosted.refused("malformed");
        let there = hosted.listener(group, "a");
        let field = |key: &str, value: &str| {
            let (key, value) = (key.as_bytes(), value.as_bytes());
            [&[key.len() as u8], key, &(value.len() as u16).to_be_bytes(), value].concat()
        };
        let fields = [field("group", &group.to_string()), field("interface", "lo"), field("receivers", "1")];
        let mut stream = UnixStream::connect(&hosted.path).expect("it listens");
        stream.write_all(&frame(1, &opening(1, &fields.concat()))).expect("it reads");
        let mut said = Vec::new();
        while !said.windows(7).any(|words| words == b"started") {
            let mut some = [0; 1000];
            let len = stream.read(&mut some).expect("it answers");
            assert!(len > 0, "{}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&some[..len]);
        }
        // It may have hung up in the middle.
        let _ = stream.write_all(&bytes);
        let _ = stream.read_to_end(&mut said);
        assert_eq!(hosted.refused("malformed"), before + 1, "{}", String::from_utf8_lossy(&said));
        let came = there.join().expect("it does not panic");
        assert!(matches!(came, Err(Error::Incomplete(_))), "{came:?}");
    }
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let hosted = Hosted::new(|options| options.clients(6).per_client(4));
    let Some(group) = loopback_group() else { return };
    let mine: Vec<_> =
        (0..4).map(|at| hosted.at(group, &format!("l{at}")).listen().expect("a place")).collect();
    let more = hosted.at(group, "more").listen().expect_err("there is none");
    assert!(more.to_string().contains("this process has 4"), "{more}");
    // Hundreds of silent connections: the oldest are displaced and notified at once.
    let crowd: Vec<UnixStream> = (0..300).filter_map(|_| UnixStream::connect(&hosted.path).ok()).collect();
    hosted.until("the crowd is refused", |hosted| {
        UnixStream::connect(&hosted.path).is_ok() && mine.len() == 4 && crowd.len() > 100
    });
    hosted.until("the oldest have made room", |hosted| hosted.refused("greedy") > 200);
    drop(crowd);
    drop(mine);
    hosted.until("places are free", |hosted| hosted.at(group, "next").listen().is_ok());
}

/// The body of OPEN: version, wire version and release before the role and its fields.
fn opening(role: u8, fields: &[u8]) -> Vec<u8> {
    let Release { major, minor, patch } = Release::CURRENT;
    [&[2][..], &WIRE_VERSION.to_be_bytes(), &[major, minor, patch, role], fields].concat()
}
