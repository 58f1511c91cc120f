//! `send --update`: only what a receiver is missing is sent.

use std::fs;
use std::path::Path;

use carillon_testkit::is_long_tier;

use crate::delivery::support::{Place, files, need_multicast};
use crate::netns::Net;
use crate::netns::process::Ended;

/// Row of a receiver in the sender's report.
fn had(sent: &Ended, name: &str) -> serde_json::Value {
    let report = sent.events("report").pop().unwrap_or_else(|| panic!("no report: {}{}", sent.out, sent.err));
    let rows = report["receivers"].as_array().expect("rows").clone();
    rows.into_iter().find(|row| row["name"] == name).expect("the receiver")["had"].clone()
}

fn bytes_sent(sent: &Ended) -> u64 {
    sent.events("report").pop().and_then(|report| report["bytes_sent"].as_u64()).expect("bytes")
}

/// A tree of this many small files.
fn tree(place: &Path, count: usize) {
    fs::create_dir_all(place).expect("a directory");
    for number in 0..count {
        let directory = place.join(format!("d{}", number % 40));
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join(format!("file-{number}")), format!("contents {number}")).expect("a file");
    }
    // A file must not be so recent that a change could go unnoticed.
    std::thread::sleep(std::time::Duration::from_millis(30));
}

#[test]
fn second_update_sends_what_changed() {
    need_multicast!();
    let place = Place::new();
    let site = place.path("site");
    tree(&site, 300);
    let update = |line: &str| {
        let receivers = ["a", "b"].map(|name| place.recv(name).args("--overwrite --json").start());
        let sent = place.send("s").args("--receivers 2 --json").args(line).arg(&site).start().end();
        (sent, receivers.map(|receiver| receiver.end()))
    };
    let (sent, came) = update("--update");
    sent.expect(0);
    came.into_iter().for_each(|came| _ = came.expect(0));
    // Unchanged.
    let (sent, came) = update("--update");
    let sent = sent.expect(0);
    came.into_iter().for_each(|came| _ = came.expect(0));
    assert_eq!(had(&sent, "a")["files"], 300);
    assert!(bytes_sent(&sent) < 20_000, "{}", sent.out);
    // One file is changed, one is gone at a receiver, and one is not the sender's.
    fs::write(site.join("d1/file-1"), "another version").expect("a file");
    fs::remove_file(place.path("a/site/d2/file-2")).expect("it is there");
    fs::write(place.path("b/site/own"), "the receiver's").expect("a file");
    std::thread::sleep(std::time::Duration::from_millis(30));
    let (preview, came) = update("--update --dry-run");
    let preview = preview.expect(0).events("preview").pop().expect("a preview");
    came.into_iter().for_each(|came| _ = came.expect(1));
    assert_eq!(preview["files"].as_array().expect("files").len(), 2, "{preview}");
    assert_eq!(preview["files"][1]["receivers"], serde_json::json!(["a"]), "{preview}");
    assert!(!place.path("a/site/d2/file-2").exists());
    let (sent, came) = update("--update");
    let sent = sent.expect(0);
    came.into_iter().for_each(|came| _ = came.expect(0));
    assert_eq!(
        (&had(&sent, "a")["missing_files"], &had(&sent, "b")["missing_files"]),
        (&2.into(), &1.into())
    );
    fs::remove_file(place.path("b/site/own")).expect("it stays");
    assert!(files(&site) == files(&place.path("a/site")) && files(&site) == files(&place.path("b/site")));
}

#[test]
fn changed_file_is_refused_without_overwrite() {
    need_multicast!();
    let place = Place::new();
    let site = place.path("site");
    tree(&site, 5);
    let update = || {
        let receiver = place.recv("a").args("--json").start();
        (place.send("s").args("--receivers 1 --json --update").arg(&site).start().end(), receiver.end())
    };
    let (sent, came) = update();
    sent.expect(0);
    came.expect(0);
    let (sent, came) = update();
    sent.expect(0);
    came.expect(0);
    fs::write(site.join("d1/file-1"), "another version").expect("a file");
    std::thread::sleep(std::time::Duration::from_millis(30));
    let (sent, came) = update();
    sent.expect(1);
    assert!(came.expect(2).err.contains("give --overwrite"));
    assert_eq!(fs::read_to_string(place.path("a/site/d1/file-1")).expect("it stays"), "contents 1");
}

#[test]
fn killed_update_goes_on_where_it_was() {
    need_multicast!();
    let place = Place::new();
    let image = place.file("image", 24 << 20);
    std::thread::sleep(std::time::Duration::from_millis(30));
    let mut receiver = place.recv("a").args("--overwrite").start();
    let line = "--receivers 1 --json --update --rate 100Mbit/s";
    let sender = place.send("s").args(line).arg(&image).start();
    crate::delivery::support::wait_until("nothing arrives", || {
        let parts = fs::read_dir(place.path("a")).into_iter().flatten().flatten();
        parts.filter_map(|part| part.metadata().ok()).any(|part| part.len() > 13 << 20)
    });
    receiver.kill();
    drop(receiver);
    drop(sender);
    let receiver = place.recv("a").args("--overwrite").start();
    let sent = place.send("s").args("--receivers 1 --json --update").arg(&image).start().end().expect(0);
    receiver.end().expect(0);
    assert!(bytes_sent(&sent) < 17 << 20, "{}", sent.out);
    assert!(fs::read(&image).expect("it is there") == fs::read(place.path("a/image")).expect("it is there"));
}

/// 20 000 unchanged files cost less than 100 KB of the sender; by default a fifth of them are tried.
#[test]
fn unchanged_tree_of_six_machines_costs_a_few_packets() {
    let Some(net) = Net::new(6) else { return };
    let site = net.path("site");
    let count = if is_long_tier() { 20_000 } else { 4000 };
    tree(&site, count);
    let update = |host_bytes: &mut u64| {
        let receivers: Vec<_> = net
            .receivers()
            .map(|host| host.carillon(&format!("recv --overwrite --out {}", host.name())).start())
            .collect();
        let sent =
            net.sender().carillon("send --receivers 6 --json --update").arg(&site).start().end().expect(0);
        receivers.into_iter().for_each(|receiver| _ = receiver.end().expect(0));
        *host_bytes = bytes_sent(&sent);
        sent
    };
    let (mut first, mut second) = (0, 0);
    update(&mut first);
    let sent = update(&mut second);
    assert!(second < 100_000 && first > 50 * count as u64, "{first} and {second} bytes");
    let report = sent.events("report").pop().expect("a report");
    eprintln!("{count} unchanged files, six machines: {second} bytes, {} s", report["seconds"]);
    assert_eq!(
        report["receivers"]
            .as_array()
            .expect("rows")
            .iter()
            .filter(|row| row["had"]["files"] == count)
            .count(),
        6
    );
}

/// A receiver that is killed leaves a file that is neither old nor new: the next one names it and repairs it.
#[test]
fn killed_change_in_place_is_named_and_repaired() {
    use std::os::unix::fs::MetadataExt as _;
    need_multicast!();
    let place = Place::new();
    let image = place.file("image", 24 << 20);
    let here = place.path("a/image");
    fs::create_dir(place.path("a")).expect("a directory");
    fs::write(&here, vec![7; 25 << 20]).expect("a file");
    let inode = fs::metadata(&here).expect("it is there").ino();
    std::thread::sleep(std::time::Duration::from_millis(30));
    let mut receiver = place.recv("a").args("--inplace").start();
    let line = "--receivers 1 --json --update --rate 100Mbit/s";
    let sender = place.send("s").args(line).arg(&image).start();
    let begin = fs::read(&image).expect("it is there")[..13 << 20].to_vec();
    crate::delivery::support::wait_until("nothing arrives", || {
        fs::read(&here).is_ok_and(|bytes| bytes.starts_with(&begin))
    });
    receiver.kill();
    drop(receiver);
    drop(sender);
    // Another job finds it, and its report names it too.
    let other = place.file("other", 10);
    let receiver = place.recv("a").args("--inplace --json").start();
    place.send("s").args("--receivers 1").arg(&other).start().end().expect(0);
    let came = receiver.end().expect(0);
    let words = "a/image is partly changed, neither its old nor its new version";
    assert!(came.err.contains(words), "{}", came.err);
    let report = came.events("report").pop().expect("a report");
    assert_eq!(report["partly_changed"], serde_json::json!([{ "path": "image" }]));
    // The update repairs it, and sends the rest only.
    let receiver = place.recv("a").args("--inplace --json").start();
    let sent = place.send("s").args("--receivers 1 --json --update").arg(&image).start().end().expect(0);
    let report = receiver.end().expect(0).events("report").pop().expect("a report");
    assert_eq!(report["partly_changed"], serde_json::json!([]));
    assert!(bytes_sent(&sent) < 17 << 20, "{}", sent.out);
    let image = blake3::hash(&fs::read(&image).expect("it is there"));
    let left = files(&place.path("a"));
    assert!(left.get("image") == Some(&image) && !left.keys().any(|name| name.contains("changing")));
    assert_eq!(fs::metadata(&here).expect("it is there").ino(), inode);
}
