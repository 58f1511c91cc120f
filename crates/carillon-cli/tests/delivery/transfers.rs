//! Complete transfers, with every protocol and over both IP versions.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use carillon_testkit::skip;

use crate::delivery::support::{CARILLON, Job, Place, files, need_multicast, unshare, wait_until};

/// Creates a directory with a file in a subdirectory and an empty file, beside a plain file, to be sent together with
/// the standard input. Returns the expected digests.
fn sources(place: &Place, len: usize) -> BTreeMap<String, blake3::Hash> {
    place.file("from/big", len);
    place.file("from/tree/a/deep", len / 10);
    place.file("from/tree/empty", 0);
    place.file("from/tree/odd name", 1);
    let stdin = place.file("input", len / 7);
    let mut expected = files(&place.path("from"));
    expected.insert("stdin".to_owned(), blake3::hash(&fs::read(stdin).expect("the input")));
    expected
}

fn deliver(protocol: &str, len: usize) {
    let place = Place::new();
    let expected = sources(&place, len);
    let receivers = [
        place.recv("r0").start(),
        place.recv("r1").args("--drop 0.02 --seed 1").start(),
        place.recv("r2").args("--drop 0.02 --seed 2 --json").start(),
    ];
    let sender = place
        .send("s")
        .arg(place.path("from/big"))
        .arg(place.path("from/tree"))
        .args("- --expect r0,r1,r2 --json --protocol")
        .arg(protocol)
        .input(&place.path("input"))
        .run()
        .expect(0);
    let ended = receivers.map(|receiver| receiver.end().expect(0));
    for name in ["r0", "r1", "r2"] {
        assert_eq!(files(&place.path(name)), expected);
    }
    let total: usize = len + len / 10 + 1 + len / 7;
    let report = &sender.events("report")[0];
    assert_eq!(report["bytes"], total);
    assert_eq!(report["protocol"], protocol);
    let mut names = Vec::new();
    for receiver in report["receivers"].as_array().expect("a list") {
        assert_eq!(receiver["outcome"], "verified");
        assert_eq!(receiver["bytes"], total);
        names.push(receiver["name"].as_str().expect("a name").to_owned());
    }
    names.sort();
    assert_eq!(names, ["r0", "r1", "r2"]);
    assert_eq!(sender.events("joined").len(), 3);
    assert!(ended[0].out.starts_with("received 5 files"), "{}", ended[0].out);
    let (report, came) = (&ended[2].events("report")[0], ended[2].events("file"));
    assert_eq!(report["outcome"], "verified");
    assert!(report["injected_drops"].as_u64() > Some(0), "{report}");
    let digests: BTreeMap<String, String> = came
        .iter()
        .map(|file| (file["path"].as_str().unwrap().to_owned(), file["blake3"].as_str().unwrap().to_owned()))
        .collect();
    let expected = expected.iter().map(|(name, digest)| (name.clone(), digest.to_string())).collect();
    assert_eq!(digests, expected);
}

#[test]
fn mbap_delivers_files_and_streams_through_losses() {
    need_multicast!();
    deliver("mbap", 20_000_000);
}

#[test]
fn msaw_delivers_files_and_streams_through_losses() {
    need_multicast!();
    deliver("msaw", 3_000_000);
}

#[test]
fn lms_delivers_files_and_streams_through_losses() {
    need_multicast!();
    deliver("lms", 3_000_000);
}

#[test]
fn pgm_delivers_files_and_streams_through_losses() {
    need_multicast!();
    deliver("pgm", 10_000_000);
}

#[test]
fn a_pgm_source_that_loses_requests_delivers_all_the_same() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 3_000_000);
    let receivers = ["a", "b"].map(|name| place.recv(name).args("--drop 0.05 --seed 4").start());
    let sender =
        place.send("s").arg(file).args("--receivers 2 --drop 0.2 --seed 3 --protocol pgm").run().expect(0);
    for receiver in receivers {
        receiver.end().expect(0);
    }
    assert!(sender.out.contains("2 of 2 verified"), "{}", sender.out);
    assert_eq!(files(&place.path("a")), files(&place.path("b")));
}

#[test]
fn a_sender_that_loses_what_it_is_told_delivers_all_the_same() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 5_000_000);
    let receivers = ["a", "b"].map(|name| place.recv(name).start());
    let sender = place.send("s").arg(file).args("--receivers 2 --drop 0.2 --seed 3").run().expect(0);
    for receiver in receivers {
        receiver.end().expect(0);
    }
    assert!(sender.out.contains("2 of 2 verified"), "{}", sender.out);
    assert_eq!(files(&place.path("a")), files(&place.path("b")));
}

#[test]
fn ipv6_groups_work_on_loopback() {
    let place = Place::new();
    let file = place.file("f", 3_000_000);
    // Loopback has no IPv6 multicast route by default. The test adds one in a namespace of its own.
    let script = "ip link set lo up; ip -6 route add local ff00::/8 dev lo table local
        for r in a b; do \"$1\" recv --interface lo --group \"$2\" --name $r --out \"$3/$r\" & done
        \"$1\" send --interface lo --group \"$2\" --receivers 2 \"$3/f\"
        wait";
    for group in ["[ff02::1:2]:7001", "[ff01::7]:7002"] {
        let Some(mut command) = unshare("-n", script) else {
            return skip("network namespaces need root and unshare(1)");
        };
        command.args([CARILLON, group]).arg(place.path(""));
        let ended = Job::new(command, place.path("v6.log")).run().expect(0);
        assert!(ended.out.contains("2 of 2 verified"), "{}", ended.out);
        for name in ["a", "b"] {
            assert_eq!(fs::read(place.path(name).join("f")).unwrap(), fs::read(&file).unwrap());
            fs::remove_dir_all(place.path(name)).unwrap();
        }
    }
}

#[test]
fn receivers_that_join_within_the_wait_are_served() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 1000);
    let sender = place.send("s").arg(file).args("--wait 1.5").start();
    let receivers = ["a", "b"].map(|name| place.recv(name).start());
    for receiver in receivers {
        receiver.end().expect(0);
    }
    let sender = sender.end().expect(0);
    assert!(sender.out.contains("2 of 2 verified"), "{}", sender.out);
}

#[test]
fn two_receivers_without_a_name_on_one_host_get_different_ones() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 1000);
    let receivers = ["a", "b"]
        .map(|out| place.wrapped(CARILLON, &[], "recv", out).arg("--out").arg(place.path(out)).start());
    place.send("s").arg(file).args("--receivers 2").run().expect(0);
    for receiver in receivers {
        receiver.end().expect(0);
    }
}

#[test]
fn permissions_arrive_and_links_are_followed() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("from/tree/tool", 1000);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
    symlink(&file, place.path("from/tree/link")).unwrap();
    let receiver = place.recv("a").start();
    place.send("s").arg(place.path("from/tree")).args("--symlinks follow --receivers 1").run().expect(0);
    receiver.end().expect(0);
    let arrived = |name: &str| place.path("a/tree").join(name);
    assert_eq!(fs::metadata(arrived("tool")).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(!fs::symlink_metadata(arrived("link")).unwrap().is_symlink());
    assert_eq!(fs::read(arrived("link")).unwrap(), fs::read(&file).unwrap());
}

#[test]
fn times_of_modification_arrive_also_those_of_directories() {
    need_multicast!();
    let place = Place::new();
    let names = ["tree", "tree/below", "tree/below/small", "tree/large"];
    place.file("tree/below/small", 1000);
    place.file("tree/large", 1_000_000);
    // The deepest directories first, since adding an entry changes the time of a directory.
    for (number, name) in names.iter().enumerate().rev() {
        let time = UNIX_EPOCH + Duration::new(1_000_000_000 + number as u64, 7);
        fs::File::open(place.path(name)).unwrap().set_modified(time).unwrap();
    }
    let receiver = place.recv("a").start();
    place.send("s").arg(place.path("tree")).args("--receivers 1").run().expect(0);
    receiver.end().expect(0);
    for (number, name) in names.iter().enumerate() {
        let time = UNIX_EPOCH + Duration::new(1_000_000_000 + number as u64, 7);
        let arrived = fs::metadata(place.path("a").join(name)).unwrap();
        assert_eq!(arrived.modified().unwrap(), time, "{name}");
    }
}

#[test]
fn sparse_ranges_are_not_sent_and_stay_sparse() {
    need_multicast!();
    let place = Place::new();
    let path = place.path("disk");
    let file = fs::File::create(&path).unwrap();
    file.set_len(300_000_000).unwrap();
    file.write_all_at(&[7; 100_000], 123_456_789).unwrap();
    let receivers = ["a", "b"].map(|name| place.recv(name).args("--drop 0.02").start());
    let ended = place.send("s").arg(&path).args("--receivers 2 --json").run().expect(0);
    for receiver in receivers {
        receiver.end().expect(0);
    }
    let report = &ended.events("report")[0];
    for bytes in [&report["bytes"], &report["receivers"][0]["bytes"], &report["receivers"][1]["bytes"]] {
        assert_eq!(bytes.as_u64(), Some(300_000_000), "{report}");
    }
    assert!(report["bytes_sent"].as_u64() < Some(2_000_000), "{report}");
    for name in ["a", "b"] {
        let copy = place.path(name).join("disk");
        let taken = fs::metadata(&copy).unwrap().blocks() * 512;
        assert!(taken < 30_000_000, "{taken} bytes in {}", copy.display());
        assert!(fs::read(copy).unwrap() == fs::read(&path).unwrap(), "{name} has something else");
    }
}

#[test]
fn a_stream_goes_through_from_stdin_to_stdout() {
    need_multicast!();
    let place = Place::new();
    let input = place.file("input", 2_000_000);
    let job = place.wrapped(CARILLON, &[], "recv", "a");
    let receiver = job.args("--stdout --drop 0.02").start();
    place.send("s").args("- --receivers 1 --as any/name").input(&input).run().expect(0);
    let copy = place.path("recv-a.out");
    receiver.end_bytes(0);
    assert!(fs::read(copy).unwrap() == fs::read(input).unwrap(), "the stream differs");
}

#[test]
fn receiver_accepts_only_senders_that_it_names() {
    need_multicast!();
    let place = Place::new();
    let [one, two] = ["one", "two"].map(|name| place.file(name, 300_000));
    let a = place.recv("a").args("--from one").start();
    let b = place.recv("b").args("--from two,three").start();
    let c = place.recv("c").args("--from three").start();
    let send = |file: &Path, name: &str| place.send(name).arg(file).args("--receivers 1 --name").arg(name);
    // Both senders invite receivers, and wait for another one.
    let first = send(&one, "one").start();
    send(&two, "two").run().expect(0);
    first.end().expect(0);
    a.end().expect(0);
    b.end().expect(0);
    assert_eq!(files(&place.path("a")).into_keys().collect::<Vec<_>>(), ["one"]);
    assert_eq!(files(&place.path("b")).into_keys().collect::<Vec<_>>(), ["two"]);
    // It may have begun to listen after the others had ended.
    let mut more = send(&one, "more").start();
    wait_until("what it has heard instead", || c.err().contains("--from or --job does not list it"));
    more.kill();
    c.signal("TERM");
    c.end().expect(1);
}

#[test]
fn receiver_with_keep_going_takes_successive_transfers() {
    need_multicast!();
    let place = Place::new();
    let receiver = place.recv("a").args("--keep-going --json").start();
    for name in ["one", "two", "three"] {
        place.send(name).arg(place.file(name, 100_000)).args("--receivers 1").run().expect(0);
    }
    wait_until("three reports", || receiver.out().matches("\"report\"").count() == 3);
    receiver.signal("TERM");
    receiver.end().expect(0);
    assert_eq!(files(&place.path("a")).len(), 3);
}

#[test]
fn file_names_that_cannot_come_apart_are_refused() {
    let place = Place::new();
    let (one, other) = (place.file("x/same", 1), place.file("y/same", 1));
    place.send("s").arg(one).arg(other).run().expect(2).one_line(&["two files", "same"]);
    let (file, _) = (place.file("x/f", 1), place.file("y/f/in", 1));
    place.send("s").arg(file).arg(place.path("y/f")).run().expect(2).one_line(&["file and a directory"]);
}

#[test]
fn traces_are_written_by_both_ends() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 100_000);
    let (events, capture) = (place.path("t.jsonl"), place.path("t.pcapng"));
    let receiver = place.recv("a").arg("--trace").arg(&capture).start();
    place.send("s").arg(&file).args("--receivers 1 --trace").arg(&events).run().expect(0);
    receiver.end().expect(0);
    let lines = fs::read_to_string(events).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!(lines.is_sorted_by_key(|line| line["time_ns"].as_u64().expect("a time")));
    for event in ["member_joined", "sent", "completed"] {
        assert!(lines.iter().any(|line| line["event"] == event), "{event}");
    }
    let capture = fs::read(capture).unwrap();
    assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    // An IPv4 header from this host to the group, for the invitation, and one back to the sender.
    let has = |from: [u8; 4], to: [u8; 4]| capture.windows(8).any(|bytes| bytes == [from, to].concat());
    assert!(has([127, 0, 0, 1], place.group.ip().octets()));
    assert!(has([127, 0, 0, 1], [127, 0, 0, 1]));
    place.send("s").arg(&file).args("--trace x.txt").run().expect(2).one_line(&["x.txt", ".pcapng"]);
}
