//! Several senders in one session, with every peer protocol of the registry.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use carillon_core::{Order, ProtocolEntry, Role};
use carillon_proto::REGISTRY;
use carillon_testkit::sampling_step;
use serde_json::Value;

use crate::delivery::support::{
    CARILLON, Ended, Job, Place, Running, files, in_parallel, need_multicast, wait_until_or,
};

const SENDERS: [&str; 3] = ["s1", "s2", "s3"];
const RECEIVERS: [&str; 3] = ["r1", "r2", "r3"];

fn protocols() -> impl Iterator<Item = &'static ProtocolEntry> {
    let peers = REGISTRY.iter().copied().filter(|entry| entry.roles.contains(&Role::Peer));
    peers.inspect(|entry| eprintln!("protocol {}", entry.name))
}

/// Runs a test with the peer protocols side by side, by default with every other one. Most of its time is waiting.
fn with_each(test: impl Fn(&'static ProtocolEntry) + Sync) {
    in_parallel(usize::MAX, &protocols().step_by(sampling_step(2)).collect::<Vec<_>>(), |entry| test(entry));
}

/// Adds a drop rate of 2 % to a command. The seed makes all runs drop the same datagrams.
fn lossy(job: Job, name: &str) -> Job {
    let seed: u32 = name.bytes().map(u32::from).sum();
    job.args(&format!("--drop 0.02 --seed {seed} --name {name}"))
}

/// Prepares a receiver of live streams.
fn stream_receiver(place: &Place, name: &str) -> Job {
    lossy(place.wrapped(CARILLON, &[], "recv", name).arg("--stream"), name)
}

/// Prepares the first sender, which opens the session and waits for all the others.
fn organiser(place: &Place, protocol: &ProtocolEntry) -> Job {
    lossy(place.send("s1").args("--expect r1,r2,r3,s2,s3 --protocol").arg(protocol.name), "s1")
}

fn further(place: &Place, name: &str) -> Job {
    lossy(place.send(name).arg("--join"), name)
}

/// Three receivers and three senders of live streams.
struct Live {
    receivers: [Running; 3],
    senders: [Running; 3],
    /// Lines that were written to each sender.
    said: BTreeMap<&'static str, Vec<String>>,
}

impl Live {
    fn start(place: &Place, protocol: &ProtocolEntry) -> Live {
        let receivers = RECEIVERS.map(|name| stream_receiver(place, name).start());
        let senders = SENDERS.map(|name| {
            let job = if name == "s1" { organiser(place, protocol) } else { further(place, name) };
            job.args("- --stream").start_fed()
        });
        Live { receivers, senders, said: SENDERS.map(|name| (name, Vec::new())).into() }
    }

    /// Writes some lines to each of these senders.
    fn say(&mut self, senders: &[usize], lines: usize) {
        for _ in 0..lines {
            for &sender in senders {
                let said = self.said.get_mut(SENDERS[sender]).expect("one of the three");
                said.push(format!("{} says {}", SENDERS[sender], said.len()));
                self.senders[sender].feed(&format!("{}\n", said[said.len() - 1]));
            }
        }
    }

    /// Waits until these receivers have written all lines of these senders.
    fn wait(&self, receivers: &[usize], senders: &[usize]) {
        for &receiver in receivers {
            wait_until_or(
                "all that was said",
                || self.told(),
                || {
                    let out = self.receivers[receiver].out();
                    senders.iter().all(|&sender| of(&out, SENDERS[sender]) == self.said[SENDERS[sender]])
                },
            );
        }
    }

    /// Output of all processes until now.
    fn told(&self) -> String {
        let all = self.senders.iter().zip(SENDERS).chain(self.receivers.iter().zip(RECEIVERS));
        let told = |(one, name): (&Running, &str)| format!("{name} {}\n{}", one.err(), one.out());
        all.map(told).collect::<Vec<_>>().join("\n")
    }

    fn close(&mut self) {
        self.senders.iter_mut().for_each(Running::close);
    }
}

/// Lines of one sender.
fn of(out: &str, sender: &str) -> Vec<String> {
    out.lines().filter(|line| line.starts_with(&format!("{sender} "))).map(str::to_owned).collect()
}

/// Waits for the end of all processes, with this exit code.
#[track_caller]
fn all_end<const N: usize>(running: [Running; N], code: i32) -> [Ended; N] {
    running.map(|one| one.end().expect(code))
}

/// Checks that these receivers wrote the same bytes, if the protocol promises one order.
#[track_caller]
fn same_order(protocol: &ProtocolEntry, ended: &[&Ended]) {
    if protocol.delivery.order == Order::Total {
        assert!(ended.windows(2).all(|two| two[0].out == two[1].out), "{}: {ended:#?}", protocol.name);
    }
}

#[test]
fn files_of_three_senders_reach_three_receivers_through_losses() {
    need_multicast!();
    with_each(|protocol| {
        let place = Place::new();
        let mut expected = BTreeMap::new();
        for (name, len) in SENDERS.iter().zip([3_000_000, 1_000_000, 10]) {
            let file = place.file(&format!("from/{name}/f"), len);
            expected.insert(format!("{name}/f"), blake3::hash(&fs::read(file).unwrap()));
        }
        let from = |name: &str| place.path("from").join(name).join("f");
        let receivers = RECEIVERS.map(|name| {
            let seed = name[1..].to_owned();
            place.recv(name).args("--json --drop 0.02 --seed").arg(seed).start()
        });
        let others = ["s2", "s3"].map(|name| further(&place, name).arg(from(name)).arg("--json").start());
        let first = organiser(&place, protocol).arg(from("s1")).arg("--json").run().expect(0);
        for other in others {
            let report = &other.end().expect(0).events("report")[0];
            assert_eq!((&report["outcome"], &report["organiser"]), (&"sent".into(), &"s1".into()));
        }
        for (receiver, name) in receivers.into_iter().zip(RECEIVERS) {
            let ended = receiver.end().expect(0);
            assert_eq!(files(&place.path(name)), expected, "{name}");
            let report = &ended.events("report")[0];
            assert_eq!(report["bytes"], 4_000_010);
            assert_eq!(report["lost"].as_array().map(Vec::len), Some(0), "{report}");
            let senders = report["senders"].as_array().expect("a list");
            assert!(senders.len() == 3 && senders.iter().all(|one| one["outcome"] == "verified"), "{report}");
        }
        let report = &first.events("report")[0];
        let members = report["receivers"].as_array().expect("a list");
        assert!(members.len() == 5 && members.iter().all(|member| member["outcome"] == "verified"));
        let sends: Vec<&Value> = members.iter().filter(|member| member["sends"] == true).collect();
        assert_eq!(sends.len(), 2, "{report}");
    });
}

#[test]
fn live_streams_of_three_senders_reach_three_receivers() {
    need_multicast!();
    with_each(|protocol| {
        let place = Place::new();
        let mut live = Live::start(&place, protocol);
        // Lines are delivered before the end of a stream, and without lines from the other senders.
        for senders in [&[0, 1, 2][..], &[1], &[0], &[2], &[0, 1, 2]] {
            live.say(senders, 30);
            live.wait(&[0, 1, 2], &[0, 1, 2]);
        }
        live.close();
        all_end(live.senders, 0);
        let ended = all_end(live.receivers, 0);
        for (ended, name) in ended.iter().zip(RECEIVERS) {
            assert_eq!(ended.out.lines().count(), 270, "{name}");
            assert!(ended.err.starts_with("received 270 messages, digest"), "{}", ended.err);
        }
        same_order(protocol, &ended.each_ref());
        if protocol.delivery.order == Order::Total {
            assert!(ended.iter().all(|other| other.err == ended[0].err), "one digest: {ended:#?}");
        }
    });
}

#[test]
fn the_digests_of_a_live_stream_are_the_same_at_all_receivers() {
    need_multicast!();
    with_each(|protocol| {
        let place = Place::new();
        let mut input = String::new();
        (0..500).for_each(|line| input += &format!("line {line} \u{e9}\n"));
        let path = place.path("input");
        // The last line ends with the stream instead of a newline, and one line is not UTF-8.
        fs::write(&path, [input.as_bytes(), b"\xff\xfe\nlast"].concat()).unwrap();
        let receivers = RECEIVERS.map(|name| stream_receiver(&place, name).arg("--json").start());
        let others = ["s2", "s3"].map(|name| further(&place, name).args("- --stream").input(&path).start());
        organiser(&place, protocol).args("- --stream").input(&path).run().expect(0);
        all_end(others, 0);
        let reports = receivers.map(|receiver| {
            let ended = receiver.end().expect(0);
            assert_eq!(ended.events("message").len(), 3 * 502);
            assert_eq!(ended.events("message").iter().filter(|one| one["base64"] == "//4K").count(), 3);
            ended.events("report").remove(0)
        });
        // Digests are compared by name, since each receiver numbers the others independently.
        let digests = |report: &Value| -> BTreeMap<String, String> {
            let senders = report["senders"].as_array().expect("a list");
            senders.iter().map(|one| (one["name"].to_string(), one["digest"].to_string())).collect()
        };
        assert_eq!(digests(&reports[0]).len(), 3);
        assert!(reports.iter().all(|report| digests(report) == digests(&reports[0])), "{reports:#?}");
        if protocol.delivery.order == Order::Total {
            assert!(reports.iter().all(|report| report["digest"] == reports[0]["digest"]), "{reports:#?}");
        }
    });
}

#[test]
fn killed_receiver_is_named_and_the_others_continue() {
    need_multicast!();
    with_each(|protocol| {
        let place = Place::new();
        let mut live = Live::start(&place, protocol);
        live.say(&[0, 1, 2], 20);
        live.wait(&[0, 1, 2], &[0, 1, 2]);
        live.receivers[1].kill();
        live.say(&[0, 1, 2], 20);
        live.wait(&[0, 2], &[0, 1, 2]);
        live.close();
        let [first, second, third] = live.senders.map(Running::end);
        let lost = |line: &str| line.starts_with("r2 ") && line.contains("lost: ");
        assert!(first.out.lines().any(lost), "{}", first.out);
        first.expect(1);
        second.expect(0);
        third.expect(0);
        let [one, _, three] = live.receivers.map(Running::end);
        same_order(protocol, &[&one, &three]);
        one.expect(0);
        three.expect(0);
    });
}

#[test]
fn killed_sender_is_named_and_the_others_are_delivered() {
    need_multicast!();
    with_each(|protocol| {
        let place = Place::new();
        let mut live = Live::start(&place, protocol);
        live.say(&[0, 1, 2], 20);
        live.wait(&[0, 1, 2], &[0, 1, 2]);
        live.senders[1].kill();
        live.say(&[0, 2], 20);
        live.wait(&[0, 1, 2], &[0, 1, 2]);
        live.close();
        let [first, _, third] = live.senders.map(Running::end);
        let lost = |line: &str| line.starts_with("s2 ") && line.contains("lost: ");
        assert!(first.out.lines().any(lost), "{}", first.out);
        first.expect(1);
        assert!(third.expect(0).err.contains("s2 is gone"));
        let ended = all_end(live.receivers, 1);
        for (ended, name) in ended.iter().zip(RECEIVERS) {
            assert!(ended.err.contains("the sender s2 was lost"), "{}: {}", protocol.name, ended.err);
            // A member reports the state of the others only.
            assert!(!ended.err.contains(&format!("{name} is gone")), "{}: {}", protocol.name, ended.err);
        }
        same_order(protocol, &ended.each_ref());
    });
}

#[test]
fn when_the_organiser_dies_all_say_so() {
    need_multicast!();
    with_each(|protocol| {
        let place = Place::new();
        let mut live = Live::start(&place, protocol);
        live.say(&[0, 1, 2], 20);
        live.wait(&[0, 1, 2], &[0, 1, 2]);
        live.senders[0].kill();
        let says = |ended: &Ended| ended.err.contains("s1 is gone") || ended.err.contains("silent");
        let [_, second, third] = live.senders;
        for other in [second, third].into_iter().chain(live.receivers) {
            let ended = other.end().expect(1);
            assert!(says(&ended), "{}: {ended:?}", protocol.name);
        }
    });
}

#[test]
fn interrupted_sender_leaves_and_interrupted_organiser_ends_all() {
    need_multicast!();
    with_each(|protocol| {
        let place = Place::new();
        let mut live = Live::start(&place, protocol);
        live.say(&[0, 1, 2], 5);
        live.wait(&[0, 1, 2], &[0, 1, 2]);
        live.senders[2].signal("INT");
        live.say(&[0, 1], 5);
        live.wait(&[0, 1, 2], &[0, 1]);
        // A process notices a signal within a tenth of a second. The organiser must receive the news before it is
        // interrupted itself.
        std::thread::sleep(Duration::from_millis(500));
        live.senders[0].signal("INT");
        let [first, second, third] = live.senders;
        third.end().expect(1).one_line(&["interrupted"]);
        let first = first.end().expect(1);
        let left = |line: &str| line.starts_with("s3 ") && line.contains("failed: left: interrupted");
        assert!(first.out.lines().any(left), "{}", first.out);
        for other in [second].into_iter().chain(live.receivers) {
            let ended = other.end_within(Duration::from_secs(20)).expect(1);
            let (name, said) = (protocol.name, &ended.err);
            assert!(said.contains("the sender was interrupted"), "{name}: {said}\n{}", first.out);
        }
    });
}

#[test]
fn late_member_of_many_senders_gets_advice() {
    need_multicast!();
    with_each(|protocol| {
        let place = Place::new();
        let mut live = Live::start(&place, protocol);
        live.say(&[0, 1, 2], 1);
        live.wait(&[0, 1, 2], &[0, 1, 2]);
        let late = stream_receiver(&place, "late").run().expect(1);
        assert!(late.err.contains("the sender expects no receiver of this name"), "{}", late.err);
        let late = further(&place, "later").arg(place.file("f", 1)).run().expect(1);
        late.one_line(&["does not expect this name", "--expect"]);
        live.close();
        all_end(live.senders, 0);
        all_end(live.receivers, 0);
    });
}

#[test]
fn join_with_a_one_sender_protocol_lists_the_others() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 1000);
    let receiver = place.recv("r").start();
    let other = further(&place, "s2").arg(&file).start();
    place.send("s1").arg(&file).args("--wait 1 --protocol mbap").run().expect(0);
    receiver.end().expect(0);
    let peers: Vec<&str> = protocols().map(|entry| entry.name).collect();
    other.end().expect(1).one_line(&[&["\"mbap\" has one sender", "--protocol"], &peers[..]].concat());
}

#[test]
fn joining_sender_without_session_or_invitation_fails() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 1000);
    let alone = further(&place, "s2").arg(&file).args("--join-timeout 0.5").run().expect(1);
    alone.one_line(&["no session was announced", "without --join", "--group"]);
    with_each(|protocol| {
        let place = Place::new();
        let file = place.file("f", 1000);
        let first = place.send("first").arg(&file).args("--name s1 --expect r --protocol").arg(protocol.name);
        let first = first.start();
        let stranger = further(&place, "s2").arg(&file).run().expect(1);
        stranger.one_line(&["does not expect this name", "--expect"]);
        let twin = further(&place, "s1").arg(&file).run().expect(1);
        // The first process writes to the same log.
        assert!(twin.err.contains("add it to its --expect"), "{}", twin.err);
        place.recv("r").run().expect(0);
        first.end().expect(0);
    });
}

#[test]
fn refusal_names_the_sender_and_the_flag() {
    need_multicast!();
    with_each(|protocol| {
        let misfits = [
            ("--out out", "- --stream", 1, "s2 sends a live stream: receive it with --stream"),
            ("--stream", "f", 1, "s2 sends files: receive them without --stream"),
            ("--stdout", "f", 2, "leave out --stdout"),
        ];
        for (flags, sends, code, reason) in misfits {
            let place = Place::new();
            let file = place.file("f", 1000);
            let sending = |job: Job| match sends {
                "f" => job.arg(&file).start(),
                stream => job.args(stream).input(&file).start(),
            };
            let first = place.send("s1").args("--name s1 --receivers 3 --protocol").arg(protocol.name);
            let first = sending(first);
            let other = sending(further(&place, "s2"));
            let fits = match sends {
                "f" => place.recv("fits"),
                _ => stream_receiver(&place, "fits"),
            };
            let fits = fits.start();
            let misfit = place.wrapped(CARILLON, &[], "recv", "misfit").args(flags).args("--name misfit");
            let ended = misfit.directory(&place.path("")).run().expect(code);
            assert!(ended.err.contains(reason), "{}", ended.err);
            // The other members are not affected.
            fits.end().expect(0);
            other.end().expect(0);
            let first = first.end().expect(1);
            let named = |line: &str| line.starts_with("misfit ") && line.contains("failed: ");
            assert!(first.out.lines().any(named), "{}", first.out);
        }
    });
}

#[test]
fn flags_that_exclude_each_other_are_refused_at_once() {
    let place = Place::new();
    let file = place.file("f", 1);
    for flags in ["--protocol mbap", "--receivers 2", "--expect a", "--wait 1", "--set window=2"] {
        let ended = place.send("s").arg("--join").args(flags).arg(&file).run().expect(2);
        let flag = flags.split(' ').next().expect("a flag");
        assert!(ended.err.contains("--join") && ended.err.contains(flag), "{}", ended.err);
    }
    place.send("s").arg("--stream").arg(&file).run().expect(2).one_line(&["--stream", "`-`"]);
    for flags in ["--stdout", "--overwrite", "--out x"] {
        let ended = stream_receiver(&place, "r").args(flags).run().expect(2);
        assert!(ended.err.contains("--stream"), "{}", ended.err);
    }
}
