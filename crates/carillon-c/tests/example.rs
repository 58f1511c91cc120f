//! The example in C is in the README, is built with the system's compiler and talks to itself; what the header does not
//! allow is an error.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr::{null, null_mut};

use carillon_c::*;
use carillon_testkit::{is_installed, loopback_group, skip};
use carillon_transfer::daemon::{Daemon, DaemonOptions, status, stop};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the example with the shared library, which stands beside this test: it is built with it. `None`, said
/// aloud, where there is no C compiler.
fn example(directory: &Path) -> Option<PathBuf> {
    if !is_installed("cc") {
        skip("there is no C compiler");
        return None;
    }
    let test = std::env::current_exe().expect("this is a program");
    let library = test.parent().expect("it is in a directory");
    let program = directory.join("talk");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(root().join("include"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/talk.c"))
        .arg("-L")
        .arg(library)
        .args(["-lcarillon_c", "-o"])
        .arg(&program)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .status();
    assert!(compiled.expect("there is a compiler").success(), "the example does not compile");
    Some(program)
}

fn start(program: &Path, args: &[&str]) -> Child {
    Command::new(program).args(args).stdout(Stdio::piped()).spawn().expect("it can be run")
}

#[test]
fn example_is_in_the_how_to_page_and_under_forty_lines() {
    let program =
        std::fs::read_to_string(root().join("crates/carillon-c/examples/talk.c")).expect("the example");
    let page = std::fs::read_to_string(root().join("docs/how-to/embed-c.md")).expect("the page");
    assert!(program.lines().count() < 40, "it is long");
    let code: Vec<&str> = program.lines().skip_while(|line| !line.starts_with('#')).collect();
    assert!(page.contains(code.join("\n").trim()), "docs/how-to/embed-c.md differs from the example");
}

#[test]
fn the_example_talks_to_listeners_in_other_processes() {
    let Some(group) = loopback_group() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = example(directory.path()) else { return };
    let group = group.to_string();
    let there = [(); 2].map(|()| start(&program, &["listen", &group]));
    let said = start(&program, &["say", &group, "2", "hello", "everybody"]).wait_with_output();
    assert!(said.expect("it ends").status.success());
    for one in there {
        let output = one.wait_with_output().expect("it ends");
        let text = String::from_utf8(output.stdout).expect("it is text");
        let words: Vec<_> = text.lines().filter_map(|line| line.split(": ").nth(1)).collect();
        assert!(output.status.success() && words == ["hello", "everybody"], "{text}");
    }
}

/// Checks errors and the daemon in one test, as the daemon setting belongs to the process.
#[test]
fn null_and_bad_text_are_errors_and_daemon_carries_data() {
    let last = || {
        // SAFETY: it is a string that ends with 0, until this thread's next call.
        unsafe { CStr::from_ptr(carillon_error()) }.to_str().expect("it is text").to_owned()
    };
    // SAFETY: NULL is allowed everywhere, and the strings end with 0.
    unsafe {
        assert!(carillon_connect(null(), null(), null(), null(), 1).is_null());
        assert!(last().contains("no group"), "{}", last());
        assert!(carillon_listen(c"nonsense".as_ptr(), null(), null()).is_null());
        assert!(last().contains("not an address with a port"), "{}", last());
        assert!(carillon_listen(c"\xff".as_ptr(), null(), null()).is_null());
        assert!(last().contains("not UTF-8"), "{}", last());
        assert_eq!(carillon_send(null_mut(), null(), 1), -2);
        assert_eq!(carillon_close(null_mut()), -2);
        assert!(carillon_accept(null_mut()).is_null());
        assert_eq!(carillon_recv(null_mut(), null_mut(), 1), -2);
        assert_eq!((carillon_next(null()), *carillon_from(null())), (0, 0));
        assert_eq!(carillon_descriptor(null_mut()), -2);
        carillon_abort(null_mut());
        carillon_listener_free(null_mut());
        carillon_session_free(null_mut());
    }
    // SAFETY: the strings end with 0.
    unsafe {
        assert_eq!(carillon_through(c"\xff".as_ptr()), -2);
        assert_eq!(carillon_through(c"/nonexistent/socket".as_ptr()), 0);
        assert!(carillon_listen(c"239.254.1.2:9999".as_ptr(), c"lo".as_ptr(), null()).is_null());
        assert!(last().contains("the daemon: /nonexistent/socket"), "{}", last());
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let daemon = Daemon::open(DaemonOptions::new(&path)).expect("it listens");
    let daemon = std::thread::spawn(move || daemon.run());
    let group = loopback_group().map(|group| CString::new(group.to_string()).expect("it has no 0"));
    let text = CString::new(path.to_str().expect("it is text")).expect("it has no 0");
    // SAFETY: the strings end with 0, and each opened object is freed once.
    unsafe {
        assert_eq!(carillon_through(text.as_ptr()), 0);
        if let Some(group) = group {
            let listener = carillon_listen(group.as_ptr(), c"lo".as_ptr(), null());
            assert!(!listener.is_null(), "{}", last());
            assert_eq!(status(&path).expect("it answers").sockets.len(), 1);
            carillon_listener_free(listener);
        }
        assert_eq!(carillon_through(null()), 0);
    }
    stop(&path).expect("it ends");
    daemon.join().expect("it does not panic").expect("it ends in order");
}
