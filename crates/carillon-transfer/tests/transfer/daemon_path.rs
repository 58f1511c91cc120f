//! Files of a daemon in the file system: existing ones are not harmed.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use carillon_transfer::daemon::{Daemon, DaemonOptions};

/// Opens a daemon that has to be refused; the error as text.
#[track_caller]
fn refused(path: &Path) -> String {
    Daemon::open(DaemonOptions::new(path)).map(drop).expect_err("it must not open").to_string()
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    (directory, path)
}

#[test]
fn a_lock_that_is_a_link_is_not_followed() {
    let (directory, path) = place();
    let target = directory.path().join("precious");
    fs::write(&target, "contents").expect("a file");
    let lock = directory.path().join("socket.lock");
    symlink(&target, &lock).expect("a link");
    let error = refused(&path);
    assert!(error.contains("socket.lock") && error.contains("symbolic link"), "{error}");
    assert_eq!(fs::read_to_string(&target).expect("it is there"), "contents");
    // Nor is what it names made.
    fs::remove_file(&lock).expect("it is there");
    symlink(directory.path().join("new"), &lock).expect("a link");
    refused(&path);
    assert!(!directory.path().join("new").exists());
}

#[test]
fn a_lock_keeps_its_contents_and_has_to_be_a_file() {
    let (directory, path) = place();
    let lock = directory.path().join("socket.lock");
    // A hard link to another user's file.
    let precious = directory.path().join("precious");
    fs::write(&precious, "contents").expect("a file");
    fs::hard_link(&precious, &lock).expect("a second name");
    Daemon::open(DaemonOptions::new(&path)).expect("the lock can be taken");
    assert_eq!(fs::read_to_string(&precious).expect("it is there"), "contents");
    fs::remove_file(&lock).expect("it is there");
    let made = std::process::Command::new("mkfifo").arg(&lock).status();
    assert!(made.expect("it runs").success());
    let error = refused(&path);
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn nothing_but_a_stale_socket_is_replaced() {
    let (directory, path) = place();
    for name in ["socket", "socket.new"] {
        let there = directory.path().join(name);
        fs::write(&there, "contents").expect("a file");
        let error = refused(&path);
        assert!(error.contains(name) && error.contains("not replaced"), "{error}");
        assert_eq!(fs::read_to_string(&there).expect("it is there"), "contents");
        fs::remove_file(&there).expect("it is there");
        symlink("nowhere", &there).expect("a link");
        assert!(refused(&path).contains("not replaced") && there.is_symlink());
        fs::remove_file(&there).expect("it is there");
        fs::create_dir(&there).expect("a directory");
        assert!(refused(&path).contains("not replaced") && there.is_dir());
        fs::remove_dir(&there).expect("it is there");
    }
    let other = UnixListener::bind(&path).expect("it is free");
    let error = refused(&path);
    assert!(error.contains("another program listens"), "{error}");
    UnixStream::connect(&path).expect("the other one listens still");
    drop(other);
    // The listener is closed now, as after a kill.
    drop(Daemon::open(DaemonOptions::new(&path)).expect("the socket is stale"));
    assert!(!path.exists());
    let _other = UnixDatagram::bind(&path).expect("it is free");
    // A program that another test starts holds a copy of the lock for a moment.
    let mut errors = (0..200).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        refused(&path)
    });
    let error = errors.find(|error| !error.contains("runs there already"));
    assert!(error.as_ref().is_some_and(|error| error.contains("another program")), "{error:?}");
}

#[test]
fn a_daemon_that_ends_removes_no_socket_but_its_own() {
    let (_directory, path) = place();
    let daemon = Daemon::open(DaemonOptions::new(&path)).expect("it opens");
    fs::remove_file(&path).expect("it is there");
    let _other = UnixListener::bind(&path).expect("it is free");
    drop(daemon);
    assert!(fs::symlink_metadata(&path).expect("it is there").file_type().is_socket());
}
