//! What a test does when the machine it runs on has not got what it needs.

use std::fmt::Display;
use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where this environment variable is set (and is not `0`), a test that cannot have its network fails.
pub const REQUIRE_NETWORK: &str = "CARILLON_REQUIRE_NETWORK";

/// Says that the calling test is skipped, and why; where [`REQUIRE_NETWORK`] is set the test fails instead. The
/// caller returns then.
#[track_caller]
pub fn skip(reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let required = std::env::var_os(REQUIRE_NETWORK).is_some_and(|value| !value.is_empty() && value != "0");
    assert!(!required, "{test} is to run here ({REQUIRE_NETWORK} is set), and cannot: {reason}");
    // Past the test runner, which keeps to itself what a test prints that does not fail.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// Says that the calling test is skipped for want of something other than a network, and why: it never fails by this.
pub fn skip_anywhere(reason: impl Display) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {reason}", thread.name().unwrap_or("a test"));
}

/// Whether the search path has a program of this name. It is not started for that: some take a third of a second even to say
/// their version.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether network namespaces can be made, which needs root and ip(8); if not, the calling test is skipped.
#[track_caller]
pub fn can_make_namespaces() -> bool {
    // Tests of one process run side by side.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let probe = format!("carillon-probe-{}-{number}", std::process::id());
    let ip = |verb| Command::new("ip").args(["netns", verb, &probe]).output();
    let made = ip("add").is_ok_and(|output| output.status.success());
    let _ = ip("del");
    if !made {
        skip("network namespaces cannot be made here");
    }
    made
}
