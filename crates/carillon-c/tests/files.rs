//! Files and options of the library for C, and the module for Go on top of it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::process::Command;
use std::ptr::null;

use carillon_c::*;
use carillon_testkit::{is_installed, is_long_tier, loopback_group, skip};

fn c(text: &str) -> CString {
    CString::new(text).expect("it has no 0")
}

/// # Safety
/// The pointer ends with 0.
unsafe fn text(string: *const c_char) -> String {
    // SAFETY: as this function asks for it.
    unsafe { CStr::from_ptr(string) }.to_str().expect("it is text").to_owned()
}

/// Receives into a directory, and returns completeness, bytes and the row of the sender.
fn receive(group: &str, name: &str, directory: &Path) -> (i32, u64, String) {
    let (group, name, directory) = (c(group), c(name), c(directory.to_str().expect("it is text")));
    // SAFETY: the strings end with 0, and the report is freed once.
    unsafe {
        let report =
            carillon_receive_files(group.as_ptr(), c"lo".as_ptr(), name.as_ptr(), directory.as_ptr());
        assert!(!report.is_null(), "{}", text(carillon_error()));
        let row = format!(
            "{} {} {}",
            text(carillon_report_name(report, 0)),
            text(carillon_report_result(report, 0)),
            text(carillon_report_reason(report, 0))
        );
        let result = (carillon_report_complete(report), carillon_report_bytes(report), row);
        carillon_report_free(report);
        result
    }
}

#[test]
fn files_arrive_and_reports_have_rows() {
    let Some(group) = loopback_group().map(|group| group.to_string()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("f");
    std::fs::write(&file, [7; 100_000]).expect("a file");
    let out = directory.path().join("out");
    let (to, at) = (group.clone(), out.clone());
    let receiver = std::thread::spawn(move || receive(&to, "r1", &at));
    let (group, file) = (c(&group), c(file.to_str().expect("it is text")));
    // SAFETY: the strings end with 0, there is one path, and the report is freed once.
    unsafe {
        for (key, value) in
            [(c"expect", c"r1"), (c"expect", c"r2"), (c"join_timeout", c"3000000000"), (c"rate", c"80000000")]
        {
            assert_eq!(carillon_set(key.as_ptr(), value.as_ptr()), 0, "{}", text(carillon_error()));
        }
        let paths = [file.as_ptr()];
        let report = carillon_send_files(group.as_ptr(), c"lo".as_ptr(), c"s".as_ptr(), paths.as_ptr(), 1);
        assert!(!report.is_null(), "{}", text(carillon_error()));
        let mut rows: Vec<String> = (0..carillon_report_rows(report))
            .map(|row| {
                format!(
                    "{} {} {}",
                    text(carillon_report_name(report, row)),
                    text(carillon_report_result(report, row)),
                    text(carillon_report_reason(report, row))
                )
            })
            .collect();
        rows.sort();
        assert_eq!(rows, ["r1 verified ", "r2 missing did not join"]);
        assert_eq!((carillon_report_complete(report), carillon_report_bytes(report)), (0, 100_000));
        assert_eq!(text(carillon_report_failure(report)), "");
        assert_eq!(text(carillon_report_name(report, 2)), "", "there is no such row");
        carillon_report_free(report);
        assert_eq!(carillon_set(null(), null()), 0);
    }
    assert_eq!(receiver.join().expect("it ends"), (1, 100_000, "s verified ".to_owned()));
    assert_eq!(std::fs::read(out.join("f")).expect("the file"), [7; 100_000]);
}

#[test]
fn a_timeout_is_no_end() {
    let Some(group) = loopback_group().map(|group| c(&group.to_string())) else { return };
    let (proceed, waits) = std::sync::mpsc::channel();
    let to = group.clone();
    let sender = std::thread::spawn(move || {
        // SAFETY: the strings end with 0, the message has three bytes, and the sender is closed once.
        unsafe {
            let sender = carillon_connect(to.as_ptr(), c"lo".as_ptr(), c"s".as_ptr(), null(), 1);
            assert!(!sender.is_null(), "{}", text(carillon_error()));
            waits.recv().expect("the receiver goes on");
            assert_eq!(carillon_send(sender, c"one".as_ptr().cast(), 3), 0);
            assert_eq!(carillon_close(sender), 0);
        }
    });
    let mut buffer = [0; 8];
    // SAFETY: the buffer has eight bytes, and each object is freed once.
    unsafe {
        let listener = carillon_listen(group.as_ptr(), c"lo".as_ptr(), null());
        let session = carillon_accept(listener);
        assert!(!session.is_null(), "{}", text(carillon_error()));
        assert_eq!(carillon_recv_within(session, buffer.as_mut_ptr(), 8, 10), -4, "nothing was sent");
        proceed.send(()).expect("the sender waits");
        assert_eq!(carillon_recv_within(session, buffer.as_mut_ptr(), 2, 20_000), -3, "a short buffer");
        assert_eq!(carillon_recv_within(session, buffer.as_mut_ptr(), 8, 20_000), 3);
        assert_eq!(carillon_recv_within(session, buffer.as_mut_ptr(), 8, 20_000), -1, "the end");
        carillon_session_free(session);
        carillon_listener_free(listener);
    }
    sender.join().expect("it ends");
    assert_eq!(&buffer[..3], b"one");
}

/// Options by key take effect: receivers name their source, the sender keeps a history, and a late receiver gets it.
#[test]
fn source_and_history_are_options() {
    let Some(group) = loopback_group().map(|group| c(&group.to_string())) else { return };
    let (to, late) = (group.clone(), group.clone());
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_done = done.clone();
    let sender = std::thread::spawn(move || {
        // SAFETY: the strings end with 0, the messages have the lengths given, and the sender is closed once.
        unsafe {
            assert_eq!(carillon_set(c"history".as_ptr(), c"1 MiB".as_ptr()), 0);
            let sender = carillon_connect(to.as_ptr(), c"lo".as_ptr(), c"s".as_ptr(), null(), 1);
            assert!(!sender.is_null(), "{}", text(carillon_error()));
            assert_eq!(carillon_send(sender, c"one".as_ptr().cast(), 3), 0);
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(carillon_send(sender, c"more".as_ptr().cast(), 4), 0);
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            assert_eq!(carillon_close(sender), 0);
        }
    });
    let first = |group: &CString, name: &std::ffi::CStr, source: &std::ffi::CStr| {
        let mut buffer = [0; 8];
        // SAFETY: the strings end with 0 and the buffer has eight bytes. The caller frees the objects once.
        unsafe {
            assert_eq!(carillon_set(c"source".as_ptr(), source.as_ptr()), 0);
            let listener = carillon_listen(group.as_ptr(), c"lo".as_ptr(), name.as_ptr());
            assert!(!listener.is_null(), "{}", text(carillon_error()));
            let session = carillon_accept(listener);
            assert!(!session.is_null(), "{}", text(carillon_error()));
            assert_eq!(carillon_recv_within(session, buffer.as_mut_ptr(), 8, 20_000), 3);
            assert_eq!(&buffer[..3], b"one");
            (listener, session)
        }
    };
    let [one, two] = [(&group, c"r1"), (&late, c"r2")].map(|(group, name)| first(group, name, c"127.0.0.1"));
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    for (listener, session) in [one, two] {
        let mut buffer = [0; 8];
        // SAFETY: the buffer has eight bytes, and each object is freed once.
        unsafe {
            while carillon_recv_within(session, buffer.as_mut_ptr(), 8, 20_000) == 4 {}
            carillon_session_free(session);
            carillon_listener_free(listener);
        }
    }
    sender.join().expect("it ends");
    // SAFETY: the strings end with 0, and no object is made.
    unsafe {
        assert_eq!(carillon_set(null(), null()), 0);
        assert_eq!(carillon_set(c"broadcast".as_ptr(), c"1".as_ptr()), 0);
        assert!(carillon_listen(group.as_ptr(), c"lo".as_ptr(), null()).is_null());
        assert!(text(carillon_error()).contains("broadcast"), "{}", text(carillon_error()));
        assert_eq!(carillon_set(null(), null()), 0);
    }
}

#[test]
fn wrong_options_and_null_are_errors() {
    let wrong = [
        (c"colour", c"red", "colour: \"red\" is not a valid value"),
        (c"rate", c"fast", "rate: \"fast\" is not a valid value"),
        (c"history", c"much", "history: \"much\" is not a valid value"),
        (c"source", c"somebody", "source: \"somebody\" is not a valid value"),
        (c"broadcast", c"always", "broadcast: \"always\" is not a valid value"),
        (c"group", c"239.1.2.3:4567", "is an argument"),
        (c"key_file", c"/nonexistent", "/nonexistent"),
    ];
    // SAFETY: NULL is allowed everywhere, and the strings end with 0.
    unsafe {
        for (key, value, expected) in wrong {
            assert_eq!(carillon_set(key.as_ptr(), value.as_ptr()), -2);
            let error = text(carillon_error());
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(carillon_set(c"rate".as_ptr(), null()), -2);
        let group = c"239.254.1.2:9999".as_ptr();
        assert!(carillon_send_files(group, null(), null(), null(), 1).is_null());
        assert!(carillon_send_files(group, null(), null(), [null()].as_ptr(), 1).is_null());
        assert!(text(carillon_error()).contains("a path is NULL"));
        assert!(carillon_receive_files(group, null(), null(), null()).is_null());
        assert_eq!(carillon_recv_within(std::ptr::null_mut(), std::ptr::null_mut(), 0, 1), -2);
        assert_eq!((carillon_report_rows(null()), carillon_report_bytes(null())), (0, 0));
        carillon_report_free(std::ptr::null_mut());
    }
}

/// Runs in the long tier only, since Go compiles its own library first.
#[test]
fn the_module_for_go_passes_its_tests() {
    if !is_long_tier() {
        return;
    }
    if !is_installed("go") || !is_installed("cc") {
        return skip("there is no Go, or no C compiler");
    }
    let Some(group) = loopback_group() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let test = std::env::current_exe().expect("this is a program");
    let library = test.parent().expect("it is in a directory").display();
    let status = Command::new("go")
        .args(["test", "-count=1", "-vet=all", "./..."])
        .current_dir(root.join("go"))
        .env("CGO_CFLAGS", format!("-I{}", root.join("include").display()))
        .env("CGO_LDFLAGS", format!("-L{library} -Wl,-rpath,{library}"))
        .env("CARILLON_GROUP", group.to_string())
        .status();
    assert!(status.expect("it can be run").success(), "the tests of the Go module fail");
}
