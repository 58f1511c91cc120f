//! Block devices as a source: named, they are sent as files and read again; within directories they are skipped.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::file_systems::run;
use crate::delivery::support::{Place, files, is_root, need_multicast, wait_for_part};

/// A block device backed by a file; detached when dropped.
struct Attached(String);

impl Attached {
    fn new(place: &Place, bytes: usize) -> Result<Attached, String> {
        if !is_root() {
            return Err("only root attaches files to devices".to_owned());
        }
        let image = place.file("image", bytes);
        let device = run(Command::new("losetup").args(["--read-only", "--show", "-f"]).arg(image))?;
        Ok(Attached(device.trim().to_owned()))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").args(["-d", &self.0]));
    }
}

#[test]
fn named_device_is_sent_and_read_again_for_a_late_receiver() {
    need_multicast!();
    let place = Place::new();
    let device = match Attached::new(&place, BYTES) {
        Ok(device) => device,
        Err(reason) => return carillon_testkit::skip_anywhere(format_args!("no block device: {reason}")),
    };
    symlink(&device.0, place.path("disk")).unwrap();
    let receiver = place.recv("a").start();
    let job = place.send("s").arg(place.path("disk"));
    let sender = job.args("--receivers 1 --rate 24Mbit/s --timeout 2 --json").start();
    wait_for_part(&place.path("a"));
    let late = place.recv("late").start();
    let sent = sender.end().expect(0);
    receiver.end().expect(0);
    late.end().expect(0);
    let image = blake3::hash(&fs::read(place.path("image")).unwrap());
    for name in ["a", "late"] {
        assert_eq!(files(&place.path(name)), [("disk".to_owned(), image)].into(), "{name}");
    }
    assert_eq!(sent.events("report")[0]["sessions"], 2);
    let words = format!("{} is a block device, not a directory: `carillon recv --stdout > {0}`", device.0);
    place.job("recv", "b").args("--out").arg(&device.0).run().expect(2).one_line(&[&words]);
}

#[test]
fn device_in_a_directory_is_skipped_and_listed() {
    need_multicast!();
    let place = Place::new();
    place.file("t/f", 10);
    if let Err(reason) = run(Command::new("mknod").arg(place.path("t/disk")).args(["b", "7", "0"])) {
        return carillon_testkit::skip_anywhere(format_args!("no block device: {reason}"));
    }
    let receiver = place.recv("a").start();
    let sender = place.send("s").arg(place.path("t")).args("--receivers 1").run().expect(1);
    receiver.end().expect(0);
    assert!(sender.err.contains("t/disk is a block device: not sent"), "{}", sender.err);
    assert_eq!(files(&place.path("a/t")).keys().collect::<Vec<_>>(), ["f"]);
}

const BYTES: usize = 3 << 20;
