//! Targets with fewer features than a Unix file system: exFAT in user space. It has no links, no permissions, and no
//! rename that refuses to replace; it ignores case and cannot store some names.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::delivery::support::{Place, files, is_root, need_multicast};

/// A file system in a file; unmounted when dropped.
struct Mounted {
    at: PathBuf,
    device: String,
}

impl Mounted {
    /// Mounts exFAT by FUSE. Fails with the reason if that is not possible.
    fn exfat(place: &Place) -> Result<Mounted, String> {
        if !is_root() {
            return Err("only root mounts file systems".to_owned());
        }
        let (image, at) = (place.path("exfat.image"), place.path("exfat"));
        fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("an image");
        fs::create_dir(&at).expect("a directory");
        run(Command::new("mkfs.exfat").arg(&image))?;
        let device = run(Command::new("losetup").args(["--show", "-f"]).arg(&image))?;
        let mounted = Mounted { at, device: device.trim().to_owned() };
        run(Command::new("mount.exfat-fuse").arg(&mounted.device).arg(&mounted.at))?;
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg(&self.at));
        let _ = run(Command::new("losetup").args(["-d", &self.device]));
    }
}

pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

#[test]
fn exfat_target_stores_what_it_can_and_reports_the_rest() {
    need_multicast!();
    let place = Place::new();
    let mounted = match Mounted::exfat(&place) {
        Ok(mounted) => mounted,
        Err(reason) => return carillon_testkit::skip_anywhere(format_args!("no exFAT: {reason}")),
    };
    // The two files of a pair have one size, so that only their names differ.
    for (name, bytes) in [("README", 100), ("readme", 100), ("Dir/x", 10), ("dir/y", 10), ("big", 400_000)] {
        place.file(&format!("t/{name}"), bytes);
    }
    for (name, bytes) in [("BIG", 400_000), ("a:b", 10), ("c:d", 400_000), ("plain", 10)] {
        place.file(&format!("t/{name}"), bytes);
    }
    fs::write(place.path("t").join(OsStr::from_bytes(b"caf\xe9")), "e").unwrap();
    symlink("plain", place.path("t/link")).unwrap();
    for (out, flags) in [("new", ""), ("replaced", "--overwrite"), ("replaced", "--overwrite")] {
        let directory = mounted.at.join(out);
        let job = place.job("recv", out).arg("--out").arg(&directory).args("--json").args(flags);
        let receiver = job.start();
        let sender = place.send("s").arg(place.path("t")).args("--receivers 1 --json").run().expect(1);
        let receiver = receiver.end().expect(1);
        let report = &receiver.events("report")[0];
        let unstored: Vec<_> = report["unstored"].as_array().unwrap().iter().collect();
        let names: Vec<_> = unstored.iter().map(|one| one["path"].as_str().unwrap()).collect();
        let expected = ["t/a:b", "t/big", "t/c:d", "t/caf\u{fffd}", "t/dir", "t/dir/y", "t/link", "t/readme"];
        assert_eq!(names, expected, "{out}: {}", receiver.err);
        assert!(
            unstored[1]["reason"].as_str().unwrap().starts_with("is the same file as BIG "),
            "{unstored:?}"
        );
        for name in &names {
            let line = format!("carillon: {} ", name.replace('\u{fffd}', "\\xe9"));
            assert!(receiver.err.lines().any(|found| found.starts_with(&line)), "{line}{}", receiver.err);
        }
        assert_eq!(sender.events("report")[0]["receivers"][0]["outcome"], "failed");
        // Every reported file exists.
        let arrived = files(&directory);
        let told: Vec<_> = receiver.events("file");
        for file in &told {
            let name = file["path"].as_str().unwrap();
            assert_eq!(arrived[name].to_string(), file["blake3"].as_str().unwrap(), "{name}");
        }
        let names: Vec<_> = arrived.keys().map(Path::new).collect();
        assert_eq!(names, ["t/BIG", "t/Dir/x", "t/README", "t/plain"].map(Path::new));
        assert_eq!(told.len(), names.len());
    }
    // Without --overwrite nothing is replaced.
    let before = files(&mounted.at);
    let job = place.job("recv", "again").arg("--out").arg(mounted.at.join("new"));
    let receiver = job.start();
    place.send("s").arg(place.path("t")).args("--receivers 1").run().expect(1);
    receiver.end().expect(2).one_line(&["exists", "--overwrite"]);
    assert_eq!(files(&mounted.at), before);
}
