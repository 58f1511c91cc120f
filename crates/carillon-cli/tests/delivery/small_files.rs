//! Small files, many of which share a message.

use std::fs;

use carillon_testkit::is_long_tier;

use crate::delivery::support::{CARILLON, Place, files, need_multicast};

#[test]
fn small_files_of_all_sizes_arrive_many_to_a_datagram() {
    need_multicast!();
    let place = Place::new();
    let (mut bytes, small) = (0, if is_long_tier() { 3000 } else { 400 });
    for number in 0..small {
        let len = [0, 1, 100, 1000, 5000][number % 5] + number % 7;
        place.file(&format!("tree/{}/{number}", number % 37), len);
        bytes += len as u64;
    }
    // Some larger files between them exceed a message or a buffer.
    for (name, len) in [("tree/10/big", 1_000_000), ("tree/20/edge", 262_144), ("tree/30/over", 262_145)] {
        place.file(name, len);
        bytes += len as u64;
    }
    let receivers = ["a", "b"].map(|name| place.recv(name).args("--drop 0.02 --json").start());
    let sender = place.send("s").arg(place.path("tree")).args("--receivers 2 --json").run().expect(0);
    let report = &sender.events("report")[0];
    assert_eq!(report["files"], small + 3);
    assert_eq!(report["bytes"], bytes);
    assert!(report["datagrams_sent"].as_u64().unwrap() < small as u64 + 3, "{report}");
    let expected = files(&place.path("tree"));
    for (receiver, name) in receivers.into_iter().zip(["a", "b"]) {
        let ended = receiver.end().expect(0);
        assert_eq!(ended.events("file").len(), small + 3);
        assert_eq!(ended.events("report")[0]["bytes"], bytes);
        assert_eq!(files(&place.path(name).join("tree")), expected);
    }
}

#[test]
fn small_files_arrive_in_datagrams_of_a_few_hundred_bytes() {
    need_multicast!();
    let place = Place::new();
    for number in 0..200 {
        place.file(&format!("tree/{}/file-{number}", number % 10), number * 10);
    }
    let receiver = place.recv("a").start();
    let sender = place.send("s").arg(place.path("tree")).args("--receivers 1 --datagram 576");
    sender.run().expect(0);
    receiver.end().expect(0);
    assert_eq!(files(&place.path("a/tree")), files(&place.path("tree")));
}

#[test]
fn names_as_long_as_can_be_arrive_and_longer_ones_are_refused() {
    need_multicast!();
    let place = Place::new();
    let long = "n".repeat(255);
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree").join(&long), "x").unwrap();
    // Control characters arrive unchanged; messages show them escaped.
    fs::write(place.path("tree/bell\u{7}"), "x").unwrap();
    let receiver = place.recv("a").start();
    place.send("s").arg(place.path("tree")).args("--receivers 1").run().expect(0);
    receiver.end().expect(0);
    assert_eq!(files(&place.path("a/tree")), files(&place.path("tree")));
    // Each name is one level too deep for the receivers.
    let deep = place.path("deep").join(["d"; 128].join("/"));
    fs::create_dir_all(&deep).unwrap();
    let strict = place.send("s").arg(place.path("deep")).arg("--strict").run();
    assert!(strict.expect(2).err.contains("too long or too deep"));
    // An existing file is reported with its name escaped.
    let receiver = place.wrapped(CARILLON, &[], "recv", "b").arg("--out").arg(place.path("a/tree")).start();
    place.send("s").arg(place.path("tree/bell\u{7}")).args("--receivers 1").run().expect(1);
    receiver.end().expect(2).one_line(&["tree/bell\\u{7} exists"]);
}
