//! Block devices as a source: named, they are sent as files and read again; within directories they are skipped. Block
//! devices as a target, which nothing else may use.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::file_systems::run;
use crate::delivery::support::{Place, files, is_root, need_multicast, wait_for_part};

/// A block device backed by a file; detached when dropped.
struct Attached(String);

impl Attached {
    fn new(place: &Place, bytes: usize) -> Result<Attached, String> {
        Attached::with(&place.file("image", bytes), &["--read-only"])
    }

    /// A device with the contents of this file, attached with these options.
    fn with(image: &Path, options: &[&str]) -> Result<Attached, String> {
        if !is_root() {
            return Err("only root attaches files to devices".to_owned());
        }
        let device = run(Command::new("losetup").args(options).args(["--show", "-f"]).arg(image))?;
        Ok(Attached(device.trim().to_owned()))
    }

    /// First bytes of the device.
    fn begin(&self, len: usize) -> Vec<u8> {
        fs::read(&self.0).expect("it can be read")[..len].to_vec()
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
    let words = format!("{} is a block device, not a directory: `carillon recv --device {0}`", device.0);
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

/// `carillon recv` onto a device.
fn onto(place: &Place, device: &Attached, name: &str) -> crate::netns::process::Job {
    place.job("recv", name).arg("--name").arg(name).arg("--device").arg(&device.0)
}

#[test]
fn device_takes_an_image_and_a_late_receiver_is_served() {
    need_multicast!();
    let place = Place::new();
    let targets: Result<Vec<Attached>, String> = ["t1", "t2", "t3"]
        .map(|name| Attached::with(&place.file(name, BYTES + (1 << 20)), &[]))
        .into_iter()
        .collect();
    let (Ok(targets), Ok(source)) = (targets, Attached::new(&place, BYTES)) else {
        return carillon_testkit::skip_anywhere("no block device");
    };
    let receiver = onto(&place, &targets[0], "a").args("--json").start();
    let job =
        place.send("s").args("--receivers 1 --rate 12Mbit/s --timeout 2 --json --device").arg(&source.0);
    let sender = job.start();
    let image = fs::read(place.path("image")).unwrap();
    crate::delivery::support::wait_until("nothing arrives", || targets[0].begin(1 << 20) == image[..1 << 20]);
    // The device is in use while a file arrives.
    let words = format!("{} is in use by another program or system", targets[0].0);
    onto(&place, &targets[0], "b").run().expect(2).one_line(&[&words]);
    let late = onto(&place, &targets[1], "late").start();
    let sent = sender.end().expect(0);
    let came = receiver.end().expect(0);
    late.end().expect(0);
    assert_eq!(sent.events("report")[0]["sessions"], 2);
    let report = came.events("report").pop().expect("a report");
    assert_eq!(
        (&report["device"], &report["partly_changed"]),
        (&targets[0].0.as_str().into(), &serde_json::json!([]))
    );
    for (target, name) in targets.iter().zip(["t1", "t2"]) {
        assert!(target.begin(BYTES) == image, "{name}");
        // What is behind the image stays.
        let before = place.file("again", 0).with_file_name(name);
        assert!(fs::read(before).unwrap()[..BYTES] == image, "{name} is on the disk");
    }
    // A killed receiver leaves a part, and an interrupted one says so; the next writes all of it.
    let receiver = onto(&place, &targets[2], "c").args("--json").start();
    let sender = place.send("s").args("--receivers 1 --rate 12Mbit/s --device").arg(&source.0).start();
    crate::delivery::support::wait_until("nothing arrives", || targets[2].begin(1 << 20) == image[..1 << 20]);
    receiver.signal("TERM");
    let came = receiver.end().expect(1);
    drop(sender);
    let report = came.events("report").pop().expect("a report");
    assert_eq!(report["partly_changed"], serde_json::json!([{ "path": targets[2].0 }]));
    let receiver = onto(&place, &targets[2], "c").start();
    place.send("s").args("--receivers 1 --device").arg(&source.0).run().expect(0);
    receiver.end().expect(0);
    assert!(targets[2].begin(BYTES) == image);
}

#[test]
fn device_that_cannot_take_it_is_refused_unchanged() {
    need_multicast!();
    let place = Place::new();
    let small = place.file("small", 1 << 20);
    let before = fs::read(&small).unwrap();
    let (read_only, target) = (Attached::new(&place, BYTES), Attached::with(&small, &[]));
    let (Ok(read_only), Ok(target)) = (read_only, target) else {
        return carillon_testkit::skip_anywhere("no block device");
    };
    onto(&place, &read_only, "r")
        .run()
        .expect(2)
        .one_line(&[&format!("{} is read-only: it cannot be written", read_only.0)]);
    let image = place.file("big", BYTES);
    place.file("tree/f", 10);
    fs::create_dir(place.path("empty")).unwrap();
    let room = format!("big has {BYTES} bytes, and {} only {}: nothing was written", target.0, 1 << 20);
    let one = "takes the contents of one file";
    let stream = format!("more arrives than the {} bytes of {}", 1 << 20, target.0);
    for (path, line, code) in [("big", &*room, 2), ("tree", one, 1), ("empty", one, 2)] {
        let receiver = onto(&place, &target, "a").start();
        let sent = place.send("s").args("--receivers 1").arg(place.path(path)).run().expect(1);
        assert!(sent.out.contains(line), "{path}: {}", sent.out);
        let came = receiver.end().expect(code);
        assert!(came.err.contains(line), "{path}: {}", came.err);
        assert!(fs::read(&target.0).unwrap() == before && fs::read(&small).unwrap() == before, "{path}");
    }
    // A stream says its size at the end only.
    let receiver = onto(&place, &target, "a").args("--json").start();
    let sent = place.send("s").args("--receivers 1 -").input(&image).run().expect(1);
    assert!(sent.out.contains(&stream), "{}", sent.out);
    let report = receiver.end().expect(2).events("report").pop().expect("a report");
    assert_eq!(report["partly_changed"], serde_json::json!([{ "path": target.0 }]));
}

/// Neither a mounted device nor a file that stands in for one is written or sent.
#[test]
fn mounted_device_and_stand_in_are_refused() {
    let place = Place::new();
    let disk = place.file("disk", 8 << 20);
    let made = run(Command::new("mkfs.ext2").args(["-q", "-F"]).arg(&disk));
    let (Ok(_), Ok(device)) = (made, Attached::with(&disk, &[])) else {
        return carillon_testkit::skip_anywhere("no block device, or no mkfs.ext2");
    };
    let stand_in =
        format!("{} is a regular file, not a block device: files need no --device", disk.display());
    place.job("recv", "f").args("--device").arg(&disk).run().expect(2).one_line(&[&stand_in]);
    place.send("f").args("--device").arg(&disk).run().expect(2).one_line(&[&stand_in]);
    let point = place.path("mounted");
    fs::create_dir(&point).unwrap();
    if let Err(reason) = run(Command::new("mount").arg(&device.0).arg(&point)) {
        return carillon_testkit::skip_anywhere(format_args!("no mount: {reason}"));
    }
    let mounted = format!("{} is mounted at {}: unmount it first", device.0, point.display());
    let refused = [onto(&place, &device, "m").run(), place.send("m").args("--device").arg(&device.0).run()];
    // File systems that cannot change may be sent.
    run(Command::new("mount").args(["-o", "remount,ro"]).arg(&point)).unwrap();
    let read_only = place.send("ro").args("--receivers 1 --join-timeout 0.1 --device").arg(&device.0).run();
    let still = onto(&place, &device, "ro").run();
    run(Command::new("umount").arg(&point)).unwrap();
    refused.into_iter().for_each(|refused| _ = refused.expect(2).one_line(&[&mounted]));
    still.expect(2).one_line(&[&mounted]);
    let read_only = read_only.expect(1);
    assert!(!read_only.err.contains("mounted"), "{}", read_only.err);
}

const BYTES: usize = 3 << 20;
