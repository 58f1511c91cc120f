//! The library as programs use it: further senders, attachments, aborts, and kinds of errors.

use std::io::{self, Cursor, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use carillon_core::Probability;
use carillon_testkit::loopback_group;
use carillon_transfer::{
    Error, Handle, Outcome, ReceiveEvent, ReceiveReport, SendEvent, SendReport, Sending, help, join_reader,
    receive, receive_to, send_reader,
};

/// Gives bytes for ever.
struct Endless;

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        thread::sleep(Duration::from_millis(1));
        let len = buf.len().min(10_000);
        buf[..len].fill(7);
        Ok(len)
    }
}

/// Counts what it is given, and holds up whoever writes as long as the gate is shut.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<(bool, u64)>, Condvar)>);

impl Gate {
    fn open(&self) {
        self.0.0.lock().unwrap().0 = true;
        self.0.1.notify_all();
    }

    fn written(&self) -> u64 {
        self.0.0.lock().unwrap().1
    }
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.1.wait_while(self.0.0.lock().unwrap(), |state| !state.0).unwrap();
        state.1 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer with a defect.
struct Defective;

impl Write for Defective {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        panic!("as it is to be");
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn receiver(group: SocketAddr, name: &str, out: &Path) -> Handle<ReceiveEvent, ReceiveReport> {
    receive(out.join(name)).group(group).interface("lo").name(name).start()
}

fn sender(sending: Sending, group: SocketAddr) -> Handle<SendEvent, SendReport> {
    sending.group(group).interface("lo").name("s").start()
}

/// Waits until bytes are on their way.
fn wait_for_bytes(sender: &Handle<SendEvent, SendReport>) {
    let flows = |event| matches!(event, SendEvent::Progress { bytes: 100_000.., .. });
    assert!(sender.events().into_iter().any(flows), "nothing flows");
}

#[test]
fn attachment_arrives_with_the_name() {
    let Some(group) = loopback_group() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let attached: Vec<u8> = (0..=255).collect();
    let there = receive(out.path()).group(group).interface("lo").name("a").attach(attached.clone()).start();
    let here = sender(send_reader("text", Cursor::new("x")).receivers(1), group);
    let joined = here.events().into_iter().find_map(|event| match event {
        SendEvent::Joined { name, attached, .. } => Some((name, attached)),
        _ => None,
    });
    assert_eq!(joined, Some(("a".to_owned(), attached.clone())));
    let report = here.wait().expect("it can send");
    assert!(report.is_success() && there.wait().expect("it can receive").is_success());
    assert_eq!(report.receivers[0].attached, attached);
}

#[test]
fn oversized_attachment_is_an_error() {
    let Some(group) = loopback_group() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let result = receive(out.path()).group(group).interface("lo").attach([0; 257]).run();
    assert!(matches!(result, Err(Error::Attached(257))), "{result:?}");
}

#[test]
fn a_directory_that_is_none_is_an_error_of_its_kind() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let Err(Error::Local(error)) = receive(file.path()).run() else { panic!("it is no directory") };
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotADirectory), "{error}");
    assert_eq!(error.kind(), carillon_transfer::LocalErrorKind::System, "{error}");
    assert!(error.to_string().contains("not a directory"), "{error}");
}

#[test]
fn a_reader_joins_in_a_session_of_peers() {
    let Some(group) = loopback_group() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let there = receiver(group, "r", out.path());
    let other = join_reader("b.txt", Cursor::new("from b")).group(group).interface("lo").name("b").start();
    let sending = send_reader("s.txt", Cursor::new("from s")).protocol("sequencer").expect(["r", "b"]);
    let report = sender(sending, group).wait().expect("it can send");
    assert!(report.is_success(), "{report:?}");
    assert!(other.wait().expect("it can send").is_success());
    assert!(there.wait().expect("it can receive").is_success());
    let read = |name| std::fs::read_to_string(out.path().join("r").join(name)).expect("it came");
    assert_eq!((read("s/s.txt"), read("b/b.txt")), ("from s".to_owned(), "from b".to_owned()));
}

#[test]
fn aborted_sender_notifies_receivers_and_reports_it() {
    let Some(group) = loopback_group() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let there = receiver(group, "r", out.path());
    let here = sender(send_reader("endless", Endless).receivers(1), group);
    wait_for_bytes(&here);
    here.abort();
    let report = here.wait().expect("it can send");
    assert_eq!(report.failure.as_deref(), Some("the sender was aborted"));
    let outcome = there.wait().expect("it can receive").outcome;
    assert!(outcome.as_ref().is_err_and(|reason| reason.contains("the sender was aborted")), "{outcome:?}");
    assert_eq!(std::fs::read_dir(out.path().join("r")).expect("it is there").count(), 0, "a part is left");
}

#[test]
fn dropping_a_sender_handle_ends_its_receivers() {
    let Some(group) = loopback_group() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let there = receiver(group, "r", out.path());
    let here = sender(send_reader("endless", Endless).receivers(1), group);
    wait_for_bytes(&here);
    drop(here);
    let outcome = there.wait().expect("it can receive").outcome;
    assert!(outcome.as_ref().is_err_and(|reason| reason.contains("the sender was aborted")), "{outcome:?}");
}

#[test]
fn dropped_receiver_is_reported_and_delays_no_other() {
    let Some(group) = loopback_group() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let (gone, stays) = (receiver(group, "gone", out.path()), receiver(group, "stays", out.path()));
    let text = vec![1; 30_000_000];
    let rate = carillon_core::BitRate::mbps(100);
    let here = sender(send_reader("text", Cursor::new(text)).rate(rate).expect(["gone", "stays"]), group);
    wait_for_bytes(&here);
    drop(gone);
    let report = here.wait().expect("it can send");
    let outcome = |name| report.receivers.iter().find(|one| one.name == name).map(|one| one.outcome.clone());
    assert_eq!(outcome("stays"), Some(Outcome::Verified));
    let reason = outcome("gone").and_then(|outcome| outcome.reason().map(ToOwned::to_owned));
    assert!(reason.as_ref().is_some_and(|why| why.contains("the receiver was aborted")), "{reason:?}");
    assert!(stays.wait().expect("it can receive").is_success());
}

#[test]
fn slow_writer_slows_the_sender_and_loses_nothing() {
    let Some(group) = loopback_group() else { return };
    let gate = Gate::default();
    let there = receive_to(gate.clone()).group(group).interface("lo").name("r").start();
    let sending = send_reader("text", Cursor::new(vec![1; LONG_TRANSFER_BYTES]))
        .receivers(1)
        .timeout(Duration::from_secs(60));
    let here = sender(sending, group);
    wait_for_bytes(&here);
    thread::sleep(Duration::from_secs(1));
    let most = std::iter::from_fn(|| here.events().try_next()).filter_map(|event| match event {
        SendEvent::Progress { bytes, .. } => Some(bytes),
        _ => None,
    });
    assert!(
        most.max().is_none_or(|bytes| bytes < LONG_TRANSFER_BYTES as u64 / 2),
        "nothing holds the sender up"
    );
    assert!(!here.has_ended() && !there.has_ended());
    gate.open();
    assert!(here.wait().expect("it can send").is_success());
    assert_eq!(gate.written(), LONG_TRANSFER_BYTES as u64);
    assert!(there.wait().expect("it can receive").is_success());
}

#[test]
fn panicking_writer_fails_on_both_sides() {
    let Some(group) = loopback_group() else { return };
    let there = receive_to(Defective).group(group).interface("lo").name("r").start();
    let report =
        sender(send_reader("text", Cursor::new("x")).receivers(1), group).wait().expect("it can send");
    let Err(Error::Local(error)) = there.wait() else { panic!("it has not been told") };
    assert!(error.to_string().contains("panicked"), "{error}");
    assert!(
        matches!(&report.receivers[0].outcome, Outcome::Failed(why) if why.contains("panicked")),
        "{report:?}"
    );
}

/// Far more bytes than all buffers hold: a receiver may buffer 64 MiB.
const LONG_TRANSFER_BYTES: usize = 250_000_000;

/// A tree of helpers: receivers get repairs from their helpers, and the sender gets requests from helpers only.
#[test]
fn helpers_repair_for_their_members() {
    let Some(group) = loopback_group() else { return };
    let out = tempfile::tempdir().unwrap();
    let lossy = Probability::new(0.05).unwrap();
    let helpers = ["h1", "h2"].map(|name| {
        help("rmtp").group(group).interface("lo").name(name).drop_arriving(lossy).seed(1).start()
    });
    let receivers = ["a", "b", "c"].map(|name| {
        let receiving = receive(out.path().join(name)).group(group).interface("lo").name(name);
        receiving.drop_arriving(lossy).seed(2).start()
    });
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let sending =
        send_reader("file", Cursor::new(bytes.clone())).protocol("rmtp").datagram(1472).receivers(3);
    let sending = sending
        .expect_helpers(["h1", "h2"])
        .under("h2", "h1")
        .under("a", "h2")
        .under("b", "h2")
        .under("c", "h1");
    let report = sender(sending, group).wait().unwrap();
    assert!(report.is_success(), "{report:?}");
    assert_eq!((report.receivers.len(), report.helpers.len()), (3, 2));
    assert!(report.helpers.iter().all(|one| one.lost.is_none()), "{report:?}");
    for receiver in receivers {
        assert!(receiver.wait().unwrap().is_success());
    }
    for name in ["a", "b", "c"] {
        assert!(std::fs::read(out.path().join(name).join("file")).unwrap() == bytes, "{name}");
    }
    let reports = helpers.map(|helper| helper.wait().unwrap());
    let served = reports.each_ref().map(|report| {
        let mut served = report.served.clone();
        served.sort();
        served
    });
    assert_eq!(served, [vec!["c".to_owned(), "h2".to_owned()], vec!["a".to_owned(), "b".to_owned()]]);
    for report in &reports {
        assert!(
            report.is_success() && report.sender.as_deref() == Some("s") && report.repairs > 0,
            "{report:?}"
        );
    }
}

/// A designated receiver gets everything and repairs for its members.
#[test]
fn a_designated_receiver_receives_and_repairs() {
    let Some(group) = loopback_group() else { return };
    let out = tempfile::tempdir().unwrap();
    let lossy = Probability::new(0.05).unwrap();
    let receiving = |name: &str| {
        let receiving = receive(out.path().join(name)).group(group).interface("lo").name(name);
        receiving.drop_arriving(lossy).seed(2)
    };
    let designated = receiving("a").helping().start();
    let others = ["b", "c"].map(|name| receiving(name).start());
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let sending = send_reader("file", Cursor::new(bytes.clone())).protocol("rmtp").datagram(1472);
    let report = sender(sending.expect(["a", "b", "c"]).expect_helpers(["a"]), group).wait().unwrap();
    assert!(report.is_success() && report.receivers.len() == 3 && report.helpers.is_empty(), "{report:?}");
    let told = designated.events().into_iter().find_map(|event| match event {
        ReceiveEvent::Serving { members } => Some(members.len()),
        _ => None,
    });
    assert_eq!(told, Some(2));
    let report = designated.wait().unwrap();
    assert!(report.is_success() && report.repairs > 0 && report.served.len() == 2, "{report:?}");
    for receiver in others {
        let report = receiver.wait().unwrap();
        assert!(report.is_success() && report.served.is_empty(), "{report:?}");
    }
    for name in ["a", "b", "c"] {
        assert!(std::fs::read(out.path().join(name).join("file")).unwrap() == bytes, "{name}");
    }
}

#[test]
fn helper_error_lists_protocols_with_helpers() {
    let error = help("msaw").run().unwrap_err().to_string();
    assert!(error.contains("msaw") && error.contains("rmtp"), "{error}");
    let nobody = send_reader("file", Cursor::new("x"))
        .protocol("rmtp")
        .under("a", "h")
        .receivers(1)
        .run()
        .unwrap_err();
    assert!(nobody.to_string().contains("is to turn to \"h\""), "{nobody}");
}
