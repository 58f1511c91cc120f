//! `send --archive`: owners, all permission bits, attributes, hard links, links that lead out, FIFOs and devices.
//!
//! Pairs of random trees are equal at each receiver after `--archive --update --delete`, at 5 % loss, with processes
//! that are killed and started again; `CARILLON_SEED` selects a pair, `CARILLON_RUNS` the number of pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use carillon_core::Rng;
use rustix::fs::{
    CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, getxattr, listxattr, makedev, mknodat,
    removexattr, setxattr, utimensat,
};
use serde_json::json;

use crate::delivery::mirror::{Mirror, NAMES, change, run_pairs};
use crate::delivery::support::{CARILLON, Place, is_root, need_multicast};
use crate::netns::process::Ended;

/// Everything that an archive keeps of an entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    mode: u32,
    owner: (u32, u32),
    time: (i64, i64),
    device: u64,
    contents: Vec<u8>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Names of the same inode in the tree.
    names: BTreeSet<PathBuf>,
}

/// Entries of a tree with everything that an archive keeps.
fn archived(root: &Path) -> BTreeMap<PathBuf, Kept> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![root.to_owned()]);
    let mut inodes = BTreeMap::<_, BTreeSet<PathBuf>>::new();
    while let Some(path) = todo.pop() {
        let about = fs::symlink_metadata(&path).expect("it is there");
        let kind = about.file_type();
        let contents = match () {
            () if kind.is_symlink() => fs::read_link(&path).expect("a link").as_os_str().as_bytes().to_vec(),
            () if kind.is_file() => blake3::hash(&fs::read(&path).expect("a file")).as_bytes().to_vec(),
            () => Vec::new(),
        };
        if kind.is_dir() {
            todo.extend(
                fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()),
            );
        }
        let name = path.strip_prefix(root).expect("it is below").to_owned();
        inodes.entry((about.dev(), about.ino())).or_default().insert(name.clone());
        let kept = Kept {
            mode: about.mode(),
            owner: (about.uid(), about.gid()),
            time: (about.mtime(), about.mtime_nsec()),
            device: about.rdev(),
            contents,
            attributes: if kind.is_symlink() { BTreeMap::new() } else { attributes(&path) },
            names: BTreeSet::new(),
        };
        found.insert(name, kept);
    }
    for names in inodes.values() {
        for name in names {
            found.get_mut(name).expect("it was found").names.clone_from(names);
        }
    }
    found
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut names, mut value) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let len = listxattr(path, &mut names[..]).unwrap_or_default();
    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let len = getxattr(path, name, &mut value[..]).expect("it was listed");
            (name.to_vec(), value[..len].to_vec())
        })
        .collect()
}

fn set(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).expect("the file system has attributes");
}

/// An ACL that permits one more user to read, or also to write and execute.
fn acl(rights: u16) -> Vec<u8> {
    let entries =
        [(1u16, 6u16, u32::MAX), (2, rights, 1234), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 4, u32::MAX)];
    let entries = entries.iter().flat_map(|(tag, rights, id)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    });
    2u32.to_le_bytes().into_iter().chain(entries).collect()
}

/// Modification time of an entry itself.
fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).expect("its own");
}

fn special(path: &Path, kind: FileType, device: u64) {
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), device).expect("root may");
}

/// Returns true if this host can store what these tests make.
fn can_store(place: &Place) -> bool {
    let probe = place.file("probe", 1);
    let trusted = setxattr(&probe, "trusted.carillon", b"1", XattrFlags::empty());
    let listed = setxattr(&probe, "system.posix_acl_access", &acl(4), XattrFlags::empty());
    let device = mknodat(CWD, place.path("null"), FileType::CharacterDevice, Mode::RUSR, makedev(1, 3));
    is_root() && trusted.is_ok() && listed.is_ok() && device.is_ok()
}

macro_rules! need_privileges {
    ($place:expr) => {
        if !can_store(&$place) {
            return carillon_testkit::skip("this test needs root, attributes, lists and devices");
        }
    };
}

/// A tree with everything that an archive has.
fn site(place: &Place) -> PathBuf {
    let site = place.path("site");
    for name in ["site/a", "site/d/e/x", "site/listed", "site/named", "site/program", "site/secret"] {
        place.file(name, 1000);
    }
    place.file("site/big", 700_000);
    let at = |name: &str| site.join(name);
    fs::hard_link(at("a"), at("d/a2")).expect("a link");
    fs::hard_link(at("big"), at("d/e/big2")).expect("a link");
    lchown(at("a"), Some(1234), Some(77)).expect("root may");
    let mode =
        |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("own");
    lchown(at("program"), Some(1000), Some(1000)).expect("root may");
    mode("program", 0o6755);
    mode("secret", 0);
    set(&at("named"), "user.k", &[7; 3000]);
    set(&at("named"), "trusted.t", b"1");
    set(&at("listed"), "system.posix_acl_access", &acl(5));
    set(&at("d/e"), "system.posix_acl_default", &acl(7));
    set(&at("program"), "security.capability", &[1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    symlink("/etc/passwd", at("absolute")).expect("a link");
    symlink("../../up", at("d/up")).expect("a link");
    symlink("a", at("link")).expect("a link");
    lchown(at("link"), Some(55), Some(66)).expect("root may");
    set_time(&at("absolute"), 1_000_000);
    set_time(&at("link"), 2_000_000);
    special(&at("fifo"), FileType::Fifo, 0);
    special(&at("null"), FileType::CharacterDevice, makedev(1, 3));
    special(&at("d/block"), FileType::BlockDevice, makedev(7, 200));
    lchown(at("d"), Some(99), Some(98)).expect("root may");
    mode("d", 0o3770);
    set_time(&at("d/e"), 3_000_000);
    set_time(&at("d"), 4_000_000);
    std::thread::sleep(std::time::Duration::from_millis(30));
    site
}

fn transfer(place: &Place, recv: &str, send: &str) -> (Ended, Ended) {
    let receiver = place.recv("a").args("--json").args(recv).start();
    let line = "--receivers 1 --join-timeout 3 --json --archive";
    let sent = place.send("s").args(line).args(send).arg(place.path("site")).start().end();
    (sent, receiver.end())
}

fn assert_equal(place: &Place, name: &str, what: &str) {
    let (expected, came) = (archived(&place.path("site")), archived(&place.path(name).join("site")));
    let differs = expected.iter().find(|(path, kept)| came.get(*path) != Some(kept));
    let other = differs.map(|(path, _)| came.get(path));
    // A receiver that is killed while it replaces a link leaves the temporary one, and names it at its next start.
    let is_part = |path: &Path| path.extension().is_some_and(|extension| extension == "part");
    let more = came.keys().find(|path| !expected.contains_key(*path) && !is_part(path));
    assert!(differs.is_none() && more.is_none(), "{what}, {name}: {differs:?} is {other:?}, more {more:?}");
}

#[test]
fn archive_is_an_exact_copy_and_its_update_sends_no_contents() {
    need_multicast!();
    let place = Place::new();
    need_privileges!(place);
    let site = site(&place);
    let (sent, came) = transfer(&place, "--allow-archive=privileged", "");
    sent.expect(0);
    came.expect(0);
    assert_equal(&place, "a", "first");
    // Without --overwrite nothing is replaced, and equal entries are no obstacle.
    let (sent, came) = transfer(&place, "--allow-archive=privileged --allow-delete", "--update --delete");
    sent.expect(0);
    came.expect(0);
    assert_equal(&place, "a", "unchanged");
    // Attributes and types change, and contents do not.
    lchown(site.join("secret"), Some(4), Some(5)).expect("root may");
    removexattr(site.join("named"), "trusted.t").expect("it is there");
    removexattr(site.join("listed"), "system.posix_acl_access").expect("it is there");
    fs::set_permissions(site.join("program"), fs::Permissions::from_mode(0o700)).expect("its own");
    fs::remove_file(site.join("fifo")).expect("it is there");
    fs::create_dir(site.join("fifo")).expect("a directory");
    fs::remove_file(site.join("d/a2")).expect("it is there");
    special(&site.join("d/a2"), FileType::Fifo, 0);
    fs::hard_link(site.join("named"), site.join("d/named2")).expect("a link");
    fs::remove_dir_all(site.join("d/e")).expect("it is there");
    special(&site.join("d/e"), FileType::CharacterDevice, makedev(1, 5));
    let accepts = "--allow-archive=privileged --allow-delete --overwrite";
    // The first name of a file with two is new, and is sent.
    for (what, resumed) in [("changed", 704_000), ("again", 705_000)] {
        let (sent, came) = transfer(&place, accepts, "--update --delete");
        let report = came.expect(0).events("report").pop().expect("a report");
        assert_eq!((&report["losses"], &report["unstored"]), (&json!([]), &json!([])));
        assert_eq!(sent.expect(0).events("report").pop().expect("a report")["resumed"], json!(resumed));
        assert_equal(&place, "a", what);
    }
}

#[test]
fn receiver_without_consent_declines_an_archive() {
    need_multicast!();
    let place = Place::new();
    place.file("site/x", 10);
    let (sent, came) = transfer(&place, "", "");
    assert!(sent.expect(1).out.contains("accepts no archives (recv --allow-archive)"));
    assert!(came.expect(1).err.contains("accepts no archives"));
    assert!(!place.path("a/site").exists());
}

#[test]
fn rights_are_left_out_unless_they_are_accepted() {
    need_multicast!();
    let place = Place::new();
    need_privileges!(place);
    let site = site(&place);
    let (sent, came) = transfer(&place, "--allow-archive", "");
    let report = came.expect(1).events("report").pop().expect("a report");
    let lost: Vec<_> =
        report["losses"].as_array().expect("a list").iter().map(|loss| loss["what"].clone()).collect();
    assert_eq!(json!(lost), json!(["file capabilities", "set-user-id bit", "trusted attributes"]));
    let unstored: Vec<_> =
        report["unstored"].as_array().expect("a list").iter().map(|one| one["path"].clone()).collect();
    assert_eq!(json!(unstored), json!(["site/d/block", "site/null"]));
    let sent = sent.expect(1);
    let reason = sent.events("report").pop().expect("a report")["receivers"][0]["reason"].to_string();
    for text in ["file capabilities (1)", "set-user-id bit (1)", "not delivered: site/d/"] {
        assert!(reason.contains(text), "{reason}");
    }
    let came = archived(&place.path("a/site"));
    let program = &came[Path::new("program")];
    assert_eq!((program.mode & 0o7777, program.owner), (0o755, (1000, 1000)));
    assert!(!came.contains_key(Path::new("null")) && came.contains_key(Path::new("fifo")));
    assert_eq!(archived(&site)[Path::new("d")], came[Path::new("d")], "directories have all their bits");
}

/// A receiver without the rights of root.
#[test]
fn owners_that_cannot_be_stored_are_listed_on_both_ends() {
    need_multicast!();
    let place = Place::new();
    need_privileges!(place);
    for name in ["site/mine", "site/other1", "site/other2", "site/program"] {
        let path = place.file(name, 100);
        let owner = if name == "site/mine" { 65_534 } else { 1234 };
        lchown(path, Some(owner), Some(owner)).expect("root may");
    }
    lchown(place.path("site"), Some(65_534), Some(65_534)).expect("root may");
    let program = place.path("site/program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("its own");
    fs::create_dir(place.path("a")).expect("a directory");
    lchown(place.path("a"), Some(65_534), Some(65_534)).expect("root may");
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).expect("its own");
    let args = ["--reuid", "65534", "--regid", "65534", "--clear-groups", CARILLON];
    let receiver =
        place.wrapped("setpriv", &args, "recv", "a").args("--name a --json --allow-archive=privileged");
    let receiver = receiver.arg("--out").arg(place.path("a")).start();
    let line = "--receivers 1 --json --archive";
    let sent = place.send("s").args(line).arg(place.path("site")).start().end().expect(1);
    let report = receiver.end().expect(1).events("report").pop().expect("a report");
    let owner = &report["losses"].as_array().expect("a list").iter().find(|loss| loss["what"] == "owner");
    let owner = owner.expect("owners are lost");
    assert_eq!((&owner["count"], &owner["paths"][0]["path"]), (&json!(3), &json!("site/other1")), "{report}");
    let reason = sent.events("report").pop().expect("a report")["receivers"][0]["reason"].to_string();
    assert!(
        reason.contains("not stored, with numbers of entries: group (3), owner (3), set-user-id bit (1)"),
        "{reason}"
    );
    let came = archived(&place.path("a/site"));
    assert_eq!(came.len(), 5, "contents arrive");
    assert_eq!(came[Path::new("program")].mode & 0o7777, 0o755, "no right for another owner");
}

/// Makes entries of an archive at random, and attributes. `outside` is a directory beside that of the receiver.
fn decorate(root: &Path, outside: Option<&Path>, rng: &mut Rng, steps: u64) {
    for _ in 0..steps {
        let path = root.join(NAMES[rng.below(NAMES.len() as u64) as usize]);
        let other = root.join(NAMES[rng.below(NAMES.len() as u64) as usize]);
        let Ok(about) = fs::symlink_metadata(&path) else {
            if !path.parent().is_some_and(|parent| parent.is_dir() && !parent.is_symlink()) {
                continue;
            }
            match (rng.below(6), outside) {
                (0, _) => special(&path, FileType::Fifo, 0),
                (1, _) => special(&path, FileType::CharacterDevice, makedev(1, 3 + rng.below(3) as u32)),
                (2, Some(outside)) => fs::hard_link(outside.join("a"), &path).expect("a link"),
                (3, Some(outside)) => symlink(outside, &path).expect("a link"),
                (3, None) => symlink(["/etc", "../../x"][rng.below(2) as usize], &path).expect("a link"),
                _ => {}
            }
            continue;
        };
        // What is outside must not change here, so its names inside are left alone.
        let is_shared = |about: &fs::Metadata| {
            outside.is_some_and(|outside| {
                fs::metadata(outside.join("a")).is_ok_and(|found| found.ino() == about.ino())
            })
        };
        if is_shared(&about) {
            continue;
        }
        let kind = about.file_type();
        let id = rng.below(3) as u32;
        match rng.below(7) {
            0 => lchown(&path, Some(id), Some(1000 * id)).expect("root may"),
            1 if !kind.is_symlink() => {
                let mode = [0o4755, 0o2750, 0o1777, 0o600, 0o6711][rng.below(5) as usize];
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its own");
            }
            2 if kind.is_file() || kind.is_dir() => {
                set(&path, ["user.a", "user.b"][rng.below(2) as usize], &rng.bits().to_be_bytes());
            }
            3 if kind.is_file() || kind.is_dir() => set(&path, "system.posix_acl_access", &acl(id as u16)),
            4 if kind.is_dir() => set(&path, "system.posix_acl_default", &acl(id as u16)),
            5 if kind.is_file() && fs::symlink_metadata(&other).is_err() => {
                let _ = fs::hard_link(&path, &other);
            }
            // Files of one size and time are equal to an update.
            6 => set_time(&path, rng.below(1 << 30) as i64),
            _ if kind.is_fifo() => fs::remove_file(&path).expect("its own"),
            _ => {}
        }
    }
}

#[test]
fn random_archives_are_equal_after_kills_and_losses() {
    need_multicast!();
    let place = Place::new();
    need_privileges!(place);
    run_pairs(&Mirror {
        change: &|root, outside, rng, steps| {
            change(root, outside, rng, steps);
            decorate(root, outside, rng, steps);
        },
        recv: "--allow-archive=privileged",
        send: "--archive",
        assert: &|place, name, seed| assert_equal(place, name, &format!("seed {seed}")),
        state: &|directory| format!("{:?}", archived(directory)),
    });
}

/// The number of hard links of a file outside must not be an obstacle, and the file must stay as it is.
#[test]
fn file_that_is_linked_from_outside_is_copied() {
    need_multicast!();
    let place = Place::new();
    need_privileges!(place);
    let (inside, outside) = (place.file("site/x", 5000), place.path("outside"));
    std::thread::sleep(std::time::Duration::from_millis(30));
    fs::create_dir_all(place.path("a/site")).expect("a directory");
    let copied = Command::new("cp").arg("-a").arg(&inside).arg(&outside).status();
    assert!(copied.expect("cp runs").success());
    fs::hard_link(&outside, place.path("a/site/x")).expect("a link");
    lchown(&inside, Some(7), Some(8)).expect("root may");
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o640)).expect("its own");
    let (sent, came) = transfer(&place, "--allow-archive", "--update");
    sent.expect(0);
    came.expect(0);
    let (new, old) = (archived(&place.path("a/site/x")), archived(&outside));
    let of = |found: BTreeMap<PathBuf, Kept>| found.into_values().next().expect("a file");
    let (new, old) = (of(new), of(old));
    assert_eq!((new.owner, new.mode & 0o7777), ((7, 8), 0o640));
    assert_eq!((old.owner, old.mode & 0o7777), ((0, 0), 0o644), "what is outside stays");
}
