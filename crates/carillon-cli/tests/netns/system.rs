//! System tools of the test networks: ip(8), nft(8), and a C compiler for networks with delay.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Prefix of all namespace names; the process id, a number and the host follow.
pub const PREFIX: &str = "carillon-net-";

const NO_ETHTOOL: &str =
    "NOTE: without ethtool(8) ports hand on frames longer than their MTU, as many packets in one";

/// Checks once if networks can be created here, and fails with the reason. Removes namespaces of dead processes.
pub fn make_possible() -> Result<(), String> {
    static POSSIBLE: OnceLock<Result<(), String>> = OnceLock::new();
    POSSIBLE
        .get_or_init(|| {
            for (program, package) in [("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")] {
                let there = Command::new(program).arg("-V").stdin(Stdio::null()).output();
                let there = there.is_ok_and(|output| output.status.success());
                if !there {
                    return Err(format!(
                        "no network namespaces: {program}(8) is missing (package {package})"
                    ));
                }
            }
            if !carillon_testkit::is_installed("ethtool") {
                let _ = writeln!(std::io::stderr(), "{NO_ETHTOOL}");
            }
            sweep();
            let probe = format!("{PREFIX}{}-probe", std::process::id());
            let made = batch(None, &format!("netns add {probe}\n"));
            let filters = made.and_then(|()| {
                let rules = "add table netdev t { chain c { type filter hook ingress device lo priority 0; \
                             numgen random mod 10 < 1 drop; }; }";
                match in_namespace(&probe, "nft").arg(rules).output() {
                    Ok(output) if output.status.success() => Ok(()),
                    Ok(output) => Err(format!("nft: {}", text(&output.stderr))),
                    Err(error) => Err(format!("nft: {error}")),
                }
            });
            let _ = batch(None, &format!("netns del {probe}\n"));
            filters.map_err(|reason| format!("no network namespaces (they need root): {reason}"))
        })
        .clone()
}

/// Kills the processes in these namespaces and removes them; their links are removed with them.
pub fn remove(names: &[String]) {
    // The list of processes is read once, while `ip netns pids` reads it for each namespace.
    let identity = |path: PathBuf| fs::metadata(path).map(|namespace| (namespace.dev(), namespace.ino()));
    let ours: BTreeSet<_> =
        names.iter().flat_map(|name| identity(Path::new("/run/netns").join(name))).collect();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        if identity(process.path().join("ns/net")).is_ok_and(|namespace| ours.contains(&namespace)) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    let lines: String = names.iter().map(|name| format!("netns del {name}\n")).collect();
    // A namespace that does not exist any longer must not stop the removal of the others.
    let _ = fed(Command::new("ip").args(["-force", "-batch", "-"]), &lines);
}

/// Removes the networks of test processes that ended without removing them.
fn sweep() {
    let Ok(output) = Command::new("ip").args(["netns", "list"]).output() else { return };
    let listed = text(&output.stdout);
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let dead = names.filter(|name| {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    });
    remove(&dead.map(str::to_owned).collect::<Vec<_>>());
}

/// Prepares a program in a namespace; the child process is the program itself.
pub fn in_namespace(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}

/// Runs commands of ip(8), one per line, which must succeed.
#[track_caller]
pub fn ip(namespace: Option<&str>, lines: &str) {
    batch(namespace, lines).unwrap_or_else(|error| panic!("{error}\n{lines}"));
}

/// Runs commands of sh(1) in a namespace, which must succeed. Returns their output.
#[track_caller]
pub fn shell(namespace: &str, script: &str) -> String {
    let output = in_namespace(namespace, "sh").args(["-ec", script]).output().expect("ip runs");
    assert!(output.status.success(), "{}: {script}", text(&output.stderr));
    text(&output.stdout)
}

/// Loads rules of nft(8) in a namespace.
#[track_caller]
pub fn nft(namespace: &str, rules: &str) {
    let output = fed(in_namespace(namespace, "nft").args(["-f", "-"]), rules).expect("ip runs");
    assert!(output.status.success(), "{}: {rules}", text(&output.stderr));
}

fn batch(namespace: Option<&str>, lines: &str) -> Result<(), String> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    let output = fed(command.args(["-batch", "-"]), lines).map_err(|error| format!("ip: {error}"))?;
    output
        .status
        .success()
        .then_some(())
        .ok_or_else(|| format!("ip: {}", text(&output.stderr).trim().replace('\n', "; ")))
}

fn fed(command: &mut Command, input: &str) -> std::io::Result<Output> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn()?;
    let mut stdin = process.stdin.take().expect("its input is written here");
    // The program may have ended already; its output then has the reason.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    process.wait_with_output()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts the delay emulator between a host's port and the switch. It forwards packets when this returns.
pub fn emulator(switch: &str, port: &str, delay: Duration) -> Child {
    let program = compiled().as_ref().unwrap_or_else(|error| panic!("{error}"));
    let mut command = in_namespace(switch, program.to_str().expect("a path in UTF-8"));
    let near = format!("{port}-near");
    command.args([port, &near, &delay.as_micros().to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("ip runs");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("its output is read here");
    BufReader::new(out).read_line(&mut line).expect("text");
    assert_eq!(line, "ready\n", "the link emulator does not start");
    child
}

/// Path of the delay emulator, compiled once for this process.
fn compiled() -> &'static Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/link-emulator.c");
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (program, fresh) = (
            directory.join("link-emulator"),
            directory.join(format!("link-emulator-{}", std::process::id())),
        );
        let output = Command::new("cc").args(["-O2", "-o"]).arg(&fresh).arg(source).output();
        let output = output.map_err(|error| format!("cc: {error}"))?;
        if !output.status.success() {
            return Err(format!("cc: {}", text(&output.stderr)));
        }
        // The file is replaced atomically, since another test process may be executing the existing one.
        fs::rename(&fresh, &program).map_err(|error| error.to_string())?;
        Ok(program)
    })
}
