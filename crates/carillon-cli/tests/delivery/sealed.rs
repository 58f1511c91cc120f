//! Sessions with a key under attack by outsiders. These capture every packet, unicast too, and send with any source
//! address: packets that are replayed, forged, changed, truncated, out of order, at the highest rate that they reach.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use carillon_core::{AssociationId, Rng, Seeds};
use carillon_testkit::{is_long_or_skipped, sampling_step};
use carillon_wire::session::{Body, Nonce, Packet, RefuseReason, Text};
use serde_json::Value;

use crate::delivery::forging::{CapturedDatagram, RawSocket};
use crate::delivery::support::{Running, files, wait_until};
use crate::netns::process::Ended;
use crate::netns::{Host, Net};

/// Captured datagrams: multicasts, and unicasts.
type Recording = [Vec<CapturedDatagram>; 2];

/// An attacker without the key, with the datagrams that it captured.
struct Outsider {
    hears: Vec<RawSocket>,
    sends: RawSocket,
    /// Address of the outsider.
    own: SocketAddrV4,
    group: SocketAddrV4,
    rng: Rng,
    /// Datagrams of an earlier session with the same key.
    old: Recording,
    seen: Recording,
}

impl Outsider {
    fn new(hears: Vec<RawSocket>, sends: RawSocket, own: Ipv4Addr, group: SocketAddrV4) -> Outsider {
        let own = SocketAddrV4::new(own, 666);
        Outsider {
            hears,
            sends,
            own,
            group,
            rng: Seeds::new(5).stream("outsider"),
            old: Recording::default(),
            seen: Recording::default(),
        }
    }

    /// Captures all datagrams of a millisecond except its own. It reads the whole queue, since its own datagrams
    /// would otherwise fill it.
    fn listen(&mut self) {
        std::thread::sleep(Duration::from_millis(1));
        for raw in &self.hears {
            let come = std::iter::from_fn(|| raw.next()).take(MAX_RECORDED_DATAGRAMS).flatten();
            for seen in come.filter(|seen| seen.bytes.len() > 40) {
                let heard = &mut self.seen[usize::from(seen.to != self.group)];
                if heard.len() < MAX_RECORDED_DATAGRAMS {
                    heard.push(seen);
                } else {
                    heard[self.rng.below(MAX_RECORDED_DATAGRAMS as u64) as usize] = seen;
                }
            }
        }
    }

    /// Captures datagrams until `over` returns true.
    fn listen_until(&mut self, mut over: impl FnMut() -> bool) {
        let start = Instant::now();
        while !over() {
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
            self.listen();
        }
    }

    /// Sends one attack of a random kind.
    fn send_attack(&mut self) {
        let rng = &mut self.rng;
        let from_old = rng.chance(0.3);
        let known = &(if from_old { &self.old } else { &self.seen })[rng.below(2) as usize];
        if known.is_empty() {
            return;
        }
        let mut one = known[rng.below(known.len() as u64) as usize].clone();
        let len = one.bytes.len() as u64;
        match rng.below(8) {
            // An exact replay.
            0 | 1 => {}
            2 => one.bytes.truncate(rng.below(len) as usize),
            3 => {
                for _ in 0..1 + rng.below(3) {
                    one.bytes[rng.below(len) as usize] ^= 1 << rng.below(8);
                }
            }
            // The recorded header, or one with another counter or salt, and random content.
            4 => {
                rng.fill(&mut one.bytes[22..]);
                if rng.chance(0.5) {
                    one.bytes[2 + rng.below(20) as usize] ^= 1 << rng.below(8);
                }
            }
            5 => one.from = self.own,
            // A replay to another destination.
            6 => {
                one.to = match one.to == self.group {
                    true => self.seen[1].last().map_or(self.group, |other| other.to),
                    false => self.group,
                };
            }
            // An unsealed refusal in the sender's name.
            _ => {
                one.bytes.clear();
                let text = Text::new("go away").expect("a text");
                let body = Body::Refuse { nonce: Nonce(rng.bits()), reason: RefuseReason::Full, text };
                Packet { association: AssociationId(rng.bits() as u32), body }.emit(&mut one.bytes);
            }
        }
        self.sends.send(&one);
    }

    /// Attacks until `over` is set. Returns the number of datagrams sent.
    fn attack(&mut self, over: &AtomicBool) -> u64 {
        let mut count = 0;
        while !over.load(Ordering::Relaxed) {
            self.listen();
            for _ in 0..20 {
                self.send_attack();
                count += 1;
            }
        }
        count
    }
}

/// Runs a session with an outsider that acts meanwhile. Returns the output of all members.
fn session(start: impl FnOnce() -> Vec<Running>, meanwhile: impl FnOnce(&AtomicBool)) -> Vec<Ended> {
    let over = AtomicBool::new(false);
    let running = start();
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| {
            let limit = Duration::from_secs(120);
            let ended: Vec<_> = running.into_iter().map(|one| one.end_within(limit).expect(0)).collect();
            over.store(true, Ordering::Relaxed);
            ended
        });
        // Set also after a failure, so that the other thread ends.
        meanwhile(&over);
        ended.join().expect("all end well")
    })
}

/// Maximum number of sessions until every attack was noticed.
const SESSIONS: usize = 4;
/// Maximum number of recorded datagrams of each kind.
const MAX_RECORDED_DATAGRAMS: usize = 4000;

fn report(ended: &Ended) -> Value {
    let reports = ended.events("report");
    assert_eq!(reports.len(), 1, "{}", ended.out);
    reports.into_iter().next().expect("one")
}

/// Checks that the members differ from an undisturbed session in counters only. The first one in `ended` is the
/// sender.
#[track_caller]
fn assert_untouched(ended: &[Ended], receivers: usize) {
    let sender = report(&ended[0]);
    assert_eq!(sender["receivers"].as_array().map(Vec::len), Some(receivers), "{sender}");
    for one in sender["receivers"].as_array().expect("receivers") {
        assert_eq!(one["outcome"], "verified", "{sender}");
    }
    for (what, empty) in [("unserved", true), ("rivals", true), ("helpers", true)] {
        assert_eq!(sender[what].as_array().map(Vec::is_empty), Some(empty), "{what}: {sender}");
    }
    assert_eq!((&sender["more_unserved"], &sender["failure"]), (&Value::from(0), &Value::Null), "{sender}");
    for one in ended {
        assert_eq!(report(one)["sealed"], true);
        assert_eq!(one.err, "", "nobody complains");
    }
}

fn drops(ended: &Ended, reason: &str) -> u64 {
    report(ended)["seal_drops"][reason].as_u64().expect("a count")
}

pub fn write_keys(directory: &std::path::Path) {
    for (name, byte) in [("key", b'k'), ("other", b'o')] {
        let path = directory.join(name);
        std::fs::write(&path, [byte; 44]).expect("a key file");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, private).expect("it is ours");
    }
}

/// Starts the receivers at these hosts and the sender. Returns the sender first.
fn ends<'a>(
    net: &'a Net,
    receivers: &'a [(Host<'a>, &'a str)],
    flags: &'a str,
) -> impl Fn() -> Vec<Running> + 'a {
    move || {
        let receive = |(host, name): &(Host<'_>, &str)| {
            let line = format!("recv --name {name} --out {name} --overwrite --json --key-file key {flags}");
            host.carillon(&line).start()
        };
        let mut all: Vec<_> = receivers.iter().map(receive).collect();
        let line = format!("send f --name s --json --rate 8Mbit/s --key-file key {flags} --receivers");
        all.insert(0, net.sender().carillon(&line).arg(receivers.len().to_string()).start());
        all
    }
}

/// Runs sessions with an outsider that has recorded an earlier one.
fn attacked(net: &Net, mut outsider: Outsider, start: impl Fn() -> Vec<Running>, names: &[&str]) {
    let ended = session(&start, |over| outsider.listen_until(|| over.load(Ordering::Relaxed)));
    assert_untouched(&ended, names.len());
    outsider.old = std::mem::take(&mut outsider.seen);
    assert!(outsider.old.iter().all(|heard| !heard.is_empty()), "it has heard what goes to one alone too");
    let expected = blake3::hash(&std::fs::read(net.path("f")).expect("the file"));
    // Chance decides which attack arrives where, and a busy machine may hardly schedule the outsider. Another session
    // then shows the rest.
    let mut found = String::new();
    for _ in 0..SESSIONS {
        let mut count = 0;
        let ended = session(&start, |over| count = outsider.attack(over));
        assert_untouched(&ended, names.len());
        for name in names {
            assert_eq!(files(&net.path(name)).into_iter().collect::<Vec<_>>(), [("f".to_owned(), expected)]);
        }
        let drops: Vec<_> = ended.iter().map(|one| report(one)["seal_drops"].to_string()).collect();
        eprintln!("{count} datagrams: {}", drops.join(" "));
        if are_all_dropped(&ended) {
            return;
        }
        found += &format!("{count} datagrams: {}\n", drops.join(" "));
    }
    panic!("something has never arrived:\n{found}");
}

/// Returns true if some member dropped each kind of attack, and every member dropped some. Multicasts of the earlier
/// session lack the proof of presence.
fn are_all_dropped(ended: &[Ended]) -> bool {
    let reasons = ["unsealed", "unauthentic", "replayed", "unproven"];
    reasons.iter().all(|reason| ended.iter().any(|one| drops(one, reason) > 0))
        && ended.iter().all(|one| reasons.iter().any(|reason| drops(one, reason) > 0))
}

/// The sessions run in a namespace, since a raw socket receives and disturbs every session of a host.
#[test]
fn outsiders_on_loopback_change_nothing_but_counters() {
    if !is_long_or_skipped() {
        return;
    }
    let Some(net) = Net::new(1) else { return };
    net.file("f", 2_000_000);
    write_keys(net.directory());
    let host = net.sender();
    let hears = vec![host.inside(RawSocket::open_receiver)];
    let sends = host.inside(|| RawSocket::open_sender(Ipv4Addr::LOCALHOST));
    let outsider = Outsider::new(hears, sends, Ipv4Addr::LOCALHOST, group());
    let receivers = [(host.clone(), "a"), (host.clone(), "b")];
    attacked(&net, outsider, ends(&net, &receivers, "--interface lo"), &["a", "b"]);
}

#[test]
fn outsiders_on_a_network_change_nothing_but_counters() {
    let Some(net) = Net::new(2) else { return };
    net.file("f", 2_000_000 / sampling_step(2));
    write_keys(net.directory());
    let hears = net
        .hosts()
        .filter(|host| host.name() != "x")
        .map(|host| host.inside(RawSocket::open_receiver))
        .collect();
    let x = net.extra();
    let sends = x.inside(|| RawSocket::open_sender(x.address()));
    let outsider = Outsider::new(hears, sends, x.address(), group());
    let receivers = [(net.receiver(1), "r1"), (net.receiver(2), "r2")];
    attacked(&net, outsider, ends(&net, &receivers, ""), &["r1", "r2"]);
}

/// An earlier session is replayed to a receiver that started later. It neither joins nor writes, reports the
/// stranger, and limits its greetings.
#[test]
fn a_session_played_again_is_no_sender() {
    let Some(net) = Net::new(1) else { return };
    net.file("f", 300_000);
    write_keys(net.directory());
    let hears = net
        .hosts()
        .filter(|host| host.name() != "x")
        .map(|host| host.inside(RawSocket::open_receiver))
        .collect();
    let x = net.extra();
    let sends = x.inside(|| RawSocket::open_sender(x.address()));
    let mut outsider = Outsider::new(hears, sends, x.address(), group());
    let receivers = [(net.receiver(1), "r1")];
    session(ends(&net, &receivers, ""), |over| outsider.listen_until(|| over.load(Ordering::Relaxed)));
    let recorded = std::mem::take(&mut outsider.seen[0]);
    assert!(recorded.len() > 10, "a session was recorded");
    let receiver = net.receiver(1).carillon("recv --name late --out late --json --key-file key").start();
    let mut next = recorded.iter().cycle();
    wait_until("it says what it hears", || {
        next.by_ref().take(200).for_each(|seen| outsider.sends.send(seen));
        receiver.err().contains("sealed with this key")
    });
    receiver.signal("INT");
    let ended = receiver.end().expect(1);
    assert!(ended.events("joined").is_empty(), "{}", ended.out);
    assert!(ended.err.contains("from an end that does not answer"), "{}", ended.err);
    assert!(files(&net.path("late")).is_empty());
    assert!(drops(&ended, "unproven") > 100, "{}", ended.out);
    // The first interval is 10 ms, and each further one is twice as long.
    outsider.seen[1].clear();
    (0..100).for_each(|_| outsider.listen());
    let greetings =
        outsider.seen[1].iter().filter(|seen| seen.from.ip() == &net.receiver(1).address()).count();
    assert!((1..40).contains(&greetings), "{greetings} greetings");
}

/// The default group.
fn group() -> SocketAddrV4 {
    carillon_transfer::DEFAULT_GROUP.parse().expect("an address")
}
