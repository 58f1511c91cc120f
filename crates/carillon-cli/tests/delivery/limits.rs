//! System limits of a process: each leads to an error in one line, not to a panic or a silent end.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use carillon_testkit::skip;

use crate::delivery::support::{CARILLON, Place, is_root, need_multicast};

#[test]
fn a_receiver_at_its_file_size_limit_says_so() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 3_000_000);
    let script = "ulimit -f 1000; exec \"$0\" \"$@\"";
    let receiver = place.wrapped("sh", &["-c", script, CARILLON], "recv", "a");
    let receiver = receiver.args("--name a --out").arg(place.path("a")).start();
    let sender = place.send("s").args("--receivers 1 --json").arg(file).run().expect(1);
    receiver.end().expect(2).one_line(&["f", "File too large"]);
    let outcome = sender.events("report")[0]["receivers"][0]["reason"].to_string();
    assert!(outcome.contains("File too large"), "{outcome}");
}

/// The command runs as a user that may start no more threads; root has no such limit.
#[test]
fn commands_that_get_no_threads_say_so() {
    let place = Place::new();
    place.file("f", 10);
    let scenario = "name = \"x\"\n[network]\nkind = \"lan\"\nbit_rate = \"10 Mbit/s\"\n[group]\nreceivers = 2\n\
        [protocol]\nname = \"msaw\"\n[workload]\nmessages = 3\nmessage_bytes = 1000\n[run]\nreplications = 3\n";
    fs::write(place.path("s.toml"), scenario).expect("a file");
    let command = place.path("carillon");
    fs::copy(CARILLON, &command).expect("a copy that everybody can run");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(place.path(""), everybody).expect("it is ours");
    let run = |threads: u32, args: &str| {
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--nproc={threads}")).arg("./carillon").args(args.split_whitespace());
        limited.current_dir(place.path("")).stdin(Stdio::null());
        if is_root() {
            // A user id without a user on this host.
            limited.uid(3_999_999).gid(3_999_999);
        }
        let Ok(output) = limited.output() else { return (None, "no prlimit".to_owned()) };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("panicked"), "{args} with {threads}: {text}");
        (output.status.code(), text)
    };
    let (code, text) = run(1, "protocols");
    if code != Some(0) {
        return skip(format_args!("prlimit(1) does not work here: {text}"));
    }
    let loopback = format!("--interface lo --group {}", place.group);
    for (threads, args) in [
        (1, format!("recv {loopback} --out /tmp")),
        (1, format!("send {loopback} --receivers 1 f")),
        (1, "daemon --socket s".to_owned()),
        (1, "metric --local 2 --buffers 4096".to_owned()),
        (1, "run s.toml --jobs 3".to_owned()),
        (2, format!("send --stream {loopback} --receivers 1 -")),
        (2, "metric --local 2 --buffers 4096".to_owned()),
    ] {
        let (code, text) = run(threads, &args);
        assert!(matches!(code, Some(1 | 2)) && text.contains("os error 11"), "{args}: {code:?} {text}");
    }
    // With one additional thread it can run scenarios, on fewer threads than requested.
    assert_eq!(run(2, "run s.toml --jobs 3").0, Some(0));
}
