//! Handling of tests that need something that this machine does not have.

use std::fmt::Display;
use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Environment variable that makes a test fail, instead of being skipped, if it cannot have its network; `0` is
/// unset.
pub const REQUIRE_NETWORK: &str = "CARILLON_REQUIRE_NETWORK";

/// Reports the calling test as skipped, with the reason; with [`REQUIRE_NETWORK`] the test fails instead. The caller
/// returns then.
#[track_caller]
pub fn skip(reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let required = std::env::var_os(REQUIRE_NETWORK).is_some_and(|value| !value.is_empty() && value != "0");
    assert!(!required, "{test} is to run here ({REQUIRE_NETWORK} is set), and cannot: {reason}");
    // Written past the test runner, which hides the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// Reports the calling test as skipped for another reason than a missing network; it never fails by this.
pub fn skip_anywhere(reason: impl Display) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {reason}", thread.name().unwrap_or("a test"));
}

/// Returns true if the search path has a program of this name. The program is not started, since some take a third of
/// a second even to print their version.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Returns true if network namespaces can be made, which needs root and ip(8); otherwise the calling test is skipped.
#[track_caller]
pub fn can_make_namespaces() -> bool {
    // Tests of one process run in parallel.
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
