//! Names that are bytes, and entries that cannot be sent.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::delivery::support::{CARILLON, Place, is_root, need_multicast};

/// Every file and link below a directory, by its name in bytes, with what it holds.
fn contents(directory: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().as_os_str().to_owned();
            if path.is_symlink() {
                found.insert(name, fs::read_link(&path).unwrap().into_os_string().into_vec());
            } else if path.is_dir() {
                todo.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn names_arrive_byte_for_byte_whatever_bytes_they_have() {
    need_multicast!();
    let place = Place::new();
    let tree = place.path("t");
    let long = [b'\xe9'; 255];
    let names: [&[u8]; 9] = [
        b"a.service",
        b"dev-disk-by\\x2dlabel.swap",
        b"caf\xe9",
        b"d\xff\\/..\\..\\x",
        b"\x1b[2J\n\x07",
        "n\u{308}\u{202e}".as_bytes(),
        b"C:",
        b" -rf . ",
        &long,
    ];
    for (at, name) in names.iter().enumerate() {
        let path = tree.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Small files and large ones are written in different ways.
        fs::write(path, vec![at as u8; [10, 300_000][at % 2]]).unwrap();
    }
    symlink(OsStr::from_bytes(b"caf\xe9"), tree.join(OsStr::from_bytes(b"link\xe9"))).unwrap();
    let receiver = place.recv("r").arg("--json").start();
    let sender = place.send("s").arg(&tree).args("--receivers 1 --json").run().expect(0);
    let receiver = receiver.end().expect(0);
    assert_eq!(contents(&place.path("r/t")), contents(&tree));
    for text in [&sender.out, &sender.err, &receiver.out, &receiver.err] {
        let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(acts), "{text:?}");
    }
    let files = receiver.events("file");
    assert_eq!(files.len(), names.len());
    let of = |bytes: &str| files.iter().find(|file| file["path_bytes"] == bytes);
    assert_eq!(of("dC9jYWbp").expect("t/caf\\xe9 in base64")["path"], "t/caf\u{fffd}");
    let plain = files.iter().find(|file| file["path"] == "t/dev-disk-by\\x2dlabel.swap");
    assert!(plain.expect("it is listed").get("path_bytes").is_none());
}

#[test]
fn entries_that_cannot_be_sent_are_listed_and_the_rest_arrives() {
    need_multicast!();
    let place = Place::new();
    let tree = place.path("t");
    place.file("t/d/good", 1000);
    place.file("t/.x.carillon-0123456789abcdef.part", 10);
    assert!(Command::new("mkfifo").arg(tree.join("fifo")).status().unwrap().success());
    let _socket = UnixListener::bind(tree.join("socket")).unwrap();
    symlink("/etc/passwd", tree.join("d/absolute")).unwrap();
    symlink("..", tree.join("d/up")).unwrap();
    let mut expected = vec!["t/.x.carillon-0123456789abcdef.part", "t/d/absolute", "t/fifo", "t/socket"];
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--", CARILLON];
    let probe = Command::new("setpriv").args(nobody).arg("protocols").output();
    let is_nobody = is_root() && probe.is_ok_and(|output| output.status.success());
    if is_nobody || !is_root() {
        place.file("t/secret", 10);
        fs::create_dir(tree.join("closed")).unwrap();
        for name in ["secret", "closed"] {
            fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o0)).unwrap();
        }
        expected.extend(["t/closed", "t/secret"]);
        expected.sort_unstable();
    }
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let send = |name| match is_nobody {
        true => place.wrapped("setpriv", &nobody, "send", name),
        false => place.send(name),
    };
    let strict = send("strict").arg(&tree).arg("--strict").run().expect(2);
    strict.one_line(&["not sent", "more entries of the tree"]);

    let receiver = place.recv("r").start();
    let sender = send("s").arg(&tree).args("--receivers 1 --json").run().expect(1);
    receiver.end().expect(0);
    let report = &sender.events("report")[0];
    assert_eq!(report["receivers"][0]["outcome"], "verified");
    let skipped = report["skipped"].as_array().unwrap();
    let listed: Vec<_> = skipped
        .iter()
        .map(|one| Path::new(one["path"].as_str().unwrap()).strip_prefix(place.path("")).unwrap())
        .collect();
    assert_eq!(listed, expected.iter().map(Path::new).collect::<Vec<_>>());
    for one in skipped {
        let reason = one["reason"].as_str().unwrap();
        let line = format!("carillon: {} {reason}: not sent", one["path"].as_str().unwrap());
        assert!(sender.err.lines().any(|found| found == line), "{line}\n{}", sender.err);
    }
    let arrived = contents(&place.path("r/t"));
    assert_eq!(arrived.keys().collect::<Vec<_>>(), ["d/good", "d/up"]);
    assert_eq!(arrived[OsStr::new("d/up")], b"..", "a link, and nothing behind it");
    if tree.join("closed").exists() {
        fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}
