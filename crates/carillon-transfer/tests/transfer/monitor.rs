//! Snapshots of a monitor, and the metrics page.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use carillon_core::{BitRate, Probability};
use carillon_testkit::{loopback_group, skip};
use carillon_transfer::monitor::{FAMILIES, Limit, Monitor, ReceiverView, Snapshot};
use carillon_transfer::{SendReport, join_reader, receive, receive_to, send, send_reader};

const PAGE: &str = include_str!("../../../../docs/reference/monitoring.md");

#[test]
fn every_name_is_on_the_page_and_no_other() {
    let mut table = "| name | type | labels | ends | what |\n|---|---|---|---|---|\n".to_owned();
    for family in FAMILIES {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (family.name, family.kind.name(), family.help.trim_end_matches('.'));
        table += &format!("| `{name}` | {kind} | {} | {} | {help} |\n", labels.join(", "), family.ends);
    }
    let (begin, end) = ("<!-- families -->\n", "\n<!-- end of families -->");
    let (before, rest) = PAGE.split_once(begin).expect("where it begins");
    let (there, after) = rest.split_once(end).expect("where it ends");
    if there != table && std::env::var_os("CARILLON_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/monitoring.md");
        fs::write(path, format!("{before}{begin}{table}{end}{after}")).expect("the page");
        return;
    }
    assert_eq!(
        there, table,
        "CARILLON_BLESS=1 cargo test -p carillon-transfer --test transfer monitor writes the table"
    );
}

/// Sends with this protocol to two, one of which loses datagrams; the sender's last snapshot and report.
fn transfer(protocol: &str) -> Option<(Arc<Snapshot>, SendReport)> {
    let group = loopback_group()?;
    let directory = tempfile::tempdir().expect("a directory");
    let out = |name: &str| directory.path().join(name);
    let (to, at) = (Monitor::default(), Monitor::default());
    let losing = receive(out("a")).group(group).interface("lo").name("a").seed(7);
    let losing = losing.drop_arriving(Probability::new(0.1).expect("a share")).monitor(at.clone()).start();
    let other = receive(out("b")).group(group).interface("lo").name("b").start();
    let bytes = Cursor::new(vec![7; 3_000_000]);
    let sender = send_reader("x", bytes).group(group).interface("lo").protocol(protocol).datagram(1472);
    let report = sender.expect(["a", "b"]).monitor(to.clone()).run().expect("a network");
    assert!(report.is_success(), "{protocol}: {report:?}");
    let received = losing.wait().expect("a network");
    assert!(other.wait().expect("a network").is_success());

    let end = at.latest().expect("it was told");
    let traffic = end.traffic.clone().expect("there was some");
    assert_eq!(
        (end.role, end.name.as_str(), end.phase.map(|phase| phase.0)),
        ("receiver", "a", Some("finished"))
    );
    assert_eq!(
        (end.amounts.bytes, end.amounts.files, end.amounts.transfers),
        (received.bytes, Some(1), Some((1, 0)))
    );
    assert_eq!(traffic.datagrams_received, received.datagrams_received);
    assert!(traffic.dropped["injected"] > 0 && end.protocol.as_deref() == Some(protocol), "{end:?}");
    assert_eq!((end.senders.len(), end.senders[0].state, end.senders[0].bytes), (1, "verified", 3_000_000));
    Some((to.latest()?, report))
}

#[test]
fn last_snapshot_agrees_with_the_report() {
    for protocol in ["rra", "carillon", "mbap", "srm"] {
        let Some((end, report)) = transfer(protocol) else { return skip("no multicast on loopback") };
        let traffic = end.traffic.as_ref().expect("there was some");
        assert_eq!((end.role, end.phase.map(|phase| phase.0)), ("sender", Some("finished")));
        assert_eq!(
            (end.amounts.bytes, end.amounts.size, end.amounts.repairs),
            (report.bytes, None, Some(report.sent.repairs))
        );
        assert_eq!(
            (traffic.datagrams_sent, traffic.bytes_sent),
            (report.sent.datagrams_sent, report.sent.bytes_sent)
        );
        assert_eq!(traffic.ip_bytes_sent, traffic.bytes_sent + 28 * traffic.datagrams_sent);
        assert!(
            end.limit.is_none() && end.amounts.rate.is_none() && end.amounts.sent_rate.is_none(),
            "nothing runs any more: {end:?}"
        );
        assert_eq!(end.receivers.len(), report.receivers.len());
        let measures = ["rra", "carillon"].contains(&protocol);
        for (view, one) in end.receivers.iter().zip(&report.receivers) {
            assert_eq!((&view.name, view.bytes, view.repairs), (&one.name, Some(one.bytes), one.repairs));
            assert_eq!((view.state, view.waited), ("verified", Some(one.waited)));
            assert!(ReceiverView::STATES.contains(&view.state));
            assert_eq!(view.path.map(|path| path.total_loss()), one.loss);
            assert_eq!(view.path.is_some(), measures, "{protocol}");
            assert!(one.goodput().is_some_and(|goodput| goodput > 0.0));
            if let Some(loss) = one.loss {
                let expected = if one.name == "a" { 0.05..0.15 } else { 0.0..0.02 };
                assert!(expected.contains(&loss), "{protocol}, {}: {loss}", one.name);
            }
        }
        // Only srm does not attribute repairs to receivers.
        assert_eq!(report.receivers.iter().any(|one| one.repairs.is_some()), protocol != "srm", "{protocol}");
    }
}

#[test]
fn snapshot_covers_a_sender_without_receivers() {
    let Some(group) = loopback_group() else { return skip("no multicast on loopback") };
    let monitor = Monitor::default();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let sender =
        send([file.path()]).group(group).interface("lo").expect(["nobody"]).monitor(monitor.clone()).start();
    while monitor.latest().is_none() {
        std::thread::yield_now();
    }
    let now = monitor.latest().expect("it was told");
    assert_eq!(
        (now.phase.map(|phase| phase.0), now.receivers.len(), now.limit.clone()),
        (Some("gathering"), 0, None)
    );
    sender.abort();
    assert!(!sender.wait().expect("a network").is_success());
    assert_eq!(monitor.latest().and_then(|end| end.phase).map(|phase| phase.0), Some("aborted"));
}

#[test]
fn snapshot_covers_a_catch_up_sender() {
    let Some(group) = loopback_group() else { return skip("no multicast on loopback") };
    let directory = tempfile::tempdir().expect("a directory");
    let monitor = Monitor::default();
    let receiver = receive(directory.path()).group(group).interface("lo").name("a").start();
    let text = |text: &str| Cursor::new(text.to_owned());
    let other = join_reader("other", text("of another")).group(group).interface("lo").name("b");
    let other = other.monitor(monitor.clone()).start();
    let sender = send_reader("one", text("of the first")).group(group).interface("lo").protocol("sequencer");
    assert!(sender.receivers(2).run().expect("a network").is_success());
    let (report, came) = (other.wait().expect("a network"), receiver.wait().expect("a network"));
    assert!(report.is_success() && came.is_success());
    let end = monitor.latest().expect("it was told");
    let traffic = end.traffic.as_ref().expect("there was some");
    assert_eq!(
        (end.role, end.amounts.bytes, end.amounts.transfer_bytes),
        ("joined_sender", report.bytes, 10)
    );
    assert_eq!((traffic.datagrams_sent, traffic.bytes_sent), (report.datagrams_sent, report.bytes_sent));
    assert_eq!((end.protocol.as_deref(), &end.organiser), (Some("sequencer"), &report.organiser));
}

/// Gives a little now and then.
struct Drips(u32);

impl Read for Drips {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let Some(left) = self.0.checked_sub(1) else { return Ok(0) };
        self.0 = left;
        thread::sleep(Duration::from_millis(10));
        buf[..100].fill(1);
        Ok(100)
    }
}

/// Takes nothing until it is let.
struct Blocked(mpsc::Receiver<()>);

impl Write for Blocked {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        // It is let for good when the other end is gone.
        let _ = self.0.recv();
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Waits for this limit; returns all limits until then.
fn wait_for(monitor: &Monitor, limit: &Limit) -> Vec<Option<Limit>> {
    let (mut told, begun) = (Vec::new(), Instant::now());
    loop {
        let now = monitor.latest().and_then(|now| now.limit.clone());
        if told.last() != Some(&now) {
            told.push(now);
        }
        if told.last() == Some(&Some(limit.clone())) {
            return told;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{limit:?} is not told, but {told:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn snapshot_names_the_limit_of_a_sender() {
    let Some(group) = loopback_group() else { return skip("no multicast on loopback") };
    let directory = tempfile::tempdir().expect("a directory");
    let receiver = || receive(directory.path()).group(group).interface("lo");

    let monitor = Monitor::default();
    let other = receiver().name("other").start();
    let sender = send_reader("drips", Drips(60)).group(group).interface("lo").receivers(1);
    let sender = sender.monitor(monitor.clone()).start();
    wait_for(&monitor, &Limit::Input);
    assert!(sender.wait().expect("a network").is_success());
    assert!(other.wait().expect("a network").is_success());

    let other = receiver().name("other").start();
    let sender = send_reader("zeros", std::io::repeat(0)).group(group).interface("lo").receivers(1);
    let rate = BitRate::new(20_000_000).expect("a rate");
    let sender = sender.rate(rate).monitor(monitor.clone()).start();
    wait_for(&monitor, &Limit::Rate);
    sender.abort();
    assert!(!sender.wait().expect("a network").is_success());
    assert!(!other.wait().expect("a network").is_success());

    // The disk of one of three receivers is stuck; with `carillon` it can buffer everything.
    for (protocol, limit) in [
        ("rra", Limit::Room { receiver: "slow".to_owned() }),
        ("carillon", Limit::Report { receiver: Some("slow".to_owned()) }),
        ("mbap", Limit::Path { receiver: Some("slow".to_owned()) }),
    ] {
        let monitor = Monitor::default();
        let (let_go, blocked) = mpsc::channel::<()>();
        let slow = receive_to(Blocked(blocked)).group(group).interface("lo").name("slow").start();
        let others = ["one", "two"].map(|name| {
            let out = directory.path().join(format!("{protocol}-{name}"));
            receive(out).group(group).interface("lo").name(name).start()
        });
        let bytes = Cursor::new(vec![1; 40_000_000]);
        let sender = send_reader("bytes", bytes).group(group).interface("lo").protocol(protocol).receivers(3);
        let sender = sender.timeout(Duration::from_secs(30)).monitor(monitor.clone()).start();
        wait_for(&monitor, &limit);
        drop(let_go);
        assert!(sender.wait().expect("a network").is_success(), "{protocol}");
        for one in others.into_iter().chain([slow]) {
            assert!(one.wait().expect("a network").is_success(), "{protocol}");
        }
    }
}
