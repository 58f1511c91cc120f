//! Errors of this host: each is one line, with exit code 2.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use carillon_testkit::{skip, take_port};

use crate::delivery::support::{CARILLON, Job, Place, Running, files, is_root, need_multicast, unshare};

#[test]
fn a_port_that_another_program_keeps_to_itself() {
    let place = Place::new();
    let _taken = take_port(place.group.port());
    place.recv("a").run().expect(2).one_line(&["port", &place.group.port().to_string(), "taken"]);
}

#[test]
fn an_interface_that_does_not_exist() {
    let place = Place::new();
    let file = place.file("f", 1);
    for job in [place.bare("recv", "a"), place.bare("send", "s").arg(file)] {
        job.args("--interface nonsense0").run().expect(2).one_line(&["nonsense0", "lo"]);
    }
}

#[test]
fn a_group_that_is_none() {
    let place = Place::new();
    let job = place.bare("recv", "a").args("--interface lo --group 192.0.2.1:7000");
    job.run().expect(2).one_line(&["192.0.2.1", "multicast"]);
}

#[test]
fn no_multicast_route() {
    let place = Place::new();
    let script = "ip link set lo up; exec \"$1\" recv --interface lo --group '[ff02::1:2]:7003' --out \"$2\"";
    let Some(mut command) = unshare("-n", script) else {
        return skip("network namespaces need root and unshare(1)");
    };
    command.arg(CARILLON).arg(place.path("a"));
    let ended = Job::new(command, place.path("route.log")).run();
    ended.expect(2).one_line(&["no multicast route", "ff02::1:2", "lo"]);
}

/// The message names the kind of file, and the command that reads from it or writes to it.
#[test]
fn devices_and_files_in_the_wrong_place_are_named() {
    let place = Place::new();
    let stream = ["/dev/null is a character device", "`carillon send - < /dev/null`"];
    place.send("s").arg("/dev/null").run().expect(2).one_line(&stream);
    let file = place.file("f", 1);
    for (path, kind) in [("/dev/null", "character device"), (file.to_str().unwrap(), "file")] {
        let words =
            [&format!("{path} is a {kind}, not a directory"), &format!("`carillon recv --stdout > {path}`")];
        place
            .job("recv", "a")
            .args("--out")
            .arg(path)
            .run()
            .expect(2)
            .one_line(&words.map(|word| word.as_str()));
    }
}

#[test]
fn files_that_cannot_be_read() {
    let place = Place::new();
    place.send("s").arg(place.path("none")).run().expect(2).one_line(&["none", "No such file"]);
    fs::create_dir(place.path("empty")).unwrap();
    place.send("s").arg(place.path("empty")).args("--as x").run().expect(2).one_line(&["directory", "--as"]);
    place.send("s").args("/dev/null").run().expect(2).one_line(&["/dev/null", "character device"]);
    let file = place.file("tree/f", 1);
    symlink(".", place.path("tree/loop")).unwrap();
    let strict = place.send("s").arg(place.path("tree")).args("--symlinks follow --strict").run().expect(2);
    strict.one_line(&["loop", "above"]);
    place.send("s").arg(file).args("--as ../x").run().expect(2).one_line(&["../x"]);
}

#[test]
fn a_file_without_permission() {
    let place = Place::new();
    let file = place.file("f", 1);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o0)).unwrap();
    let job = if is_root() {
        // Root may read every file, so this runs as the user `nobody`, with access to the directories above.
        fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--", CARILLON];
        let probe = std::process::Command::new("setpriv").args(nobody).arg("protocols").output();
        if !probe.is_ok_and(|output| output.status.success()) {
            return skip("cannot run the command as nobody with setpriv(1)");
        }
        place.wrapped("setpriv", &nobody, "send", "s")
    } else {
        place.send("s")
    };
    job.arg(file).run().expect(2).one_line(&["cannot read", "Permission denied"]);
}

#[test]
fn settings_and_protocols_that_do_not_exist() {
    let place = Place::new();
    let file = place.file("f", 1);
    let send = || place.send("s").arg(&file);
    send().args("--protocol nonsense").run().expect(2).one_line(&["nonsense", "mbap"]);
    send().args("--set nonsense=1").run().expect(2).one_line(&["nonsense", "window"]);
    send().args("--set window=0").run().expect(2).one_line(&["window", "1 to 1048576"]);
    send().args("--set window").run().expect(2).one_line(&["KEY=VALUE"]);
}

#[test]
fn a_file_that_exists_is_kept() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 100_000);
    fs::create_dir(place.path("a")).unwrap();
    fs::write(place.path("a/f"), "precious").unwrap();
    let [refuses, other] = ["a", "b"].map(|name| place.recv(name).start());
    let sender = place.send("s").arg(&file).args("--receivers 2").run().expect(1);
    refuses.end().expect(2).one_line(&["a/f", "exists", "--overwrite"]);
    other.end().expect(0);
    let line = sender.out.lines().find(|line| line.starts_with("a ")).expect("it is named");
    assert!(line.contains("failed: ") && line.contains("exists"), "{line}");
    assert_eq!(fs::read(place.path("a/f")).unwrap(), b"precious");
    assert_eq!(files(&place.path("a")).len(), 1);

    let replaces = place.recv("a").arg("--overwrite").start();
    place.send("s").arg(&file).args("--receivers 1").run().expect(0);
    replaces.end().expect(0);
    assert_eq!(fs::read(place.path("a/f")).unwrap(), fs::read(&file).unwrap());
}

#[test]
fn a_link_does_not_lead_out_of_the_directory() {
    need_multicast!();
    let place = Place::new();
    place.file("tree/f", 1000);
    fs::create_dir_all(place.path("a")).unwrap();
    fs::create_dir_all(place.path("outside")).unwrap();
    symlink(place.path("outside"), place.path("a/tree")).unwrap();
    let receiver = place.recv("a").start();
    place.send("s").arg(place.path("tree")).args("--receivers 1").run().expect(1);
    receiver.end().expect(2).one_line(&["a/tree", "not a directory"]);
    assert_eq!(files(&place.path("outside")).len(), 0);
}

/// Starts a receiver with a disk of 1 MiB, if such a disk can be made.
fn with_a_small_disk(place: &Place) -> Option<Running> {
    let out = place.path("a");
    fs::create_dir(&out).unwrap();
    let script = "out=$1; shift; mount -t tmpfs -o size=1m none \"$out\"
        code=0; \"$@\" || code=$?
        ls -A \"$out\"; exit $code";
    let Some(mut command) = unshare("-m", script) else {
        skip("a small file system needs root and unshare(1)");
        return None;
    };
    command.arg(&out).args([CARILLON, "recv", "--interface", "lo", "--name", "a", "--group"]);
    command.arg(place.group.to_string()).arg("--out").arg(&out);
    Some(Job::new(command, place.path("full.log")).start())
}

/// A transfer that will not fit is reported at its start. Zeros take no space, so the estimate may be wrong.
#[test]
fn low_disk_space_is_reported_at_the_start() {
    need_multicast!();
    let place = Place::new();
    let file = place.path("f");
    fs::File::create(&file).unwrap().set_len(200 << 20).unwrap();
    let Some(receiver) = with_a_small_disk(&place) else { return };
    place.send("s").arg(&file).args("--receivers 1 --rate 1Mbit/s --set window=1").run().expect(0);
    let ended = receiver.end().expect(0);
    assert!(ended.err.contains("MiB will arrive, but only 1020.00 KiB are free in"), "{}", ended.err);
}

#[test]
fn a_full_disk() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 3_000_000);
    let Some(receiver) = with_a_small_disk(&place) else { return };
    let other = place.recv("b").start();
    let sender = place.send("s").arg(&file).args("--receivers 2").run().expect(1);
    let ended = receiver.end().expect(2).one_line(&["cannot write", "a/f", "No space left"]);
    assert_eq!(ended.out, "", "the temporary file is gone");
    other.end().expect(0);
    assert!(sender.out.contains("No space left"), "{}", sender.out);
}

#[test]
fn a_directory_that_cannot_be_written_to() {
    let place = Place::new();
    let out = place.path("a");
    fs::create_dir(&out).unwrap();
    let script = "mount -t tmpfs -o ro none \"$1\"; exec \"$2\" recv --interface lo --out \"$1\"";
    let Some(mut command) = unshare("-m", script) else {
        return skip("a read-only file system needs root and unshare(1)");
    };
    command.arg(&out).arg(CARILLON);
    let ended = Job::new(command, place.path("ro.log")).run();
    ended.expect(2).one_line(&["cannot write", "Read-only"]);
    fs::write(place.path("file"), "").unwrap();
    place.recv("file").run().expect(2).one_line(&["not a directory", "file"]);
}
