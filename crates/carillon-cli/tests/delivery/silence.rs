//! Silence timeout of the sender, in networks with frames of 1500 bytes. A receiver is killed, stopped for good,
//! stopped for a while, or runs only now and then. The sender expels a silent one in time, at any rate; the others
//! receive everything and wait no longer. Every protocol of the registry is tested against its own promise
//! ([`ProtocolEntry::waits`], which the report shows too).
//!
//! The long tier (`CARILLON_LONG=1`) runs all cases at every rate and prints a table; `CARILLON_PROTOCOL` chooses a
//! protocol.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use carillon_core::ProtocolEntry;
use carillon_proto::REGISTRY;
use carillon_testkit::{is_long_or_skipped, is_long_tier};
use serde_json::Value;

use crate::delivery::support::{Place, in_parallel, need_multicast, wait_for_part};
use crate::netns::Net;
use crate::netns::process::Running;

/// Fault of the last receiver, after it has received a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The process is killed.
    Kill,
    /// The process is stopped for good.
    Freeze,
    /// The process is stopped once, for this time.
    Pause(Duration),
    /// The process is stopped for this time again and again, and runs for [`SLOW_RUN_TIME`] between.
    Slow(Duration),
}

/// A protocol, a fault, and the parameters of the transfer.
#[derive(Clone, Copy, Debug)]
struct Case {
    entry: &'static ProtocolEntry,
    /// Sending rate in Mbit/s; unlimited if `None`.
    rate: Option<u32>,
    fault: Fault,
    /// `--timeout`, in seconds.
    timeout: u32,
    /// Bytes sent after the fault.
    rest: usize,
}

/// Result of a case, from the sender's report and the receivers' files.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    verified: usize,
    /// Outcome of the faulty receiver in the report.
    outcome: String,
    reason: String,
    waited: f64,
    /// True if the report says that the protocol waits for members.
    waits: bool,
    /// Time from the fault to the expulsion of that receiver; `None` if it was not expelled.
    expelled_after: Option<Duration>,
    /// Longest time in which the unfinished file of another receiver did not grow.
    stalled: Duration,
    /// Time from the fault to the end of the sender.
    took: Duration,
}

const RECEIVERS: usize = 3;
const VICTIM: &str = "r3";
const FIRST_BYTES: usize = 100_000;
/// Tolerance of timeouts, for the scheduling of a busy machine.
const TIMEOUT_TOLERANCE: Duration = Duration::from_secs(1);
/// Maximum time to send the rest to one receiver.
const MAX_REST_TIME: Duration = Duration::from_secs(5);
/// Bytes that a receiver writes at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Number of networks that run in parallel.
const PARALLEL_NETWORKS: usize = 7;
/// Time for which a slow receiver runs between two stops.
const SLOW_RUN_TIME: Duration = Duration::from_millis(20);
const POLL: Duration = Duration::from_millis(10);
const MAX_RUN_TIME: Duration = Duration::from_secs(120);

impl Case {
    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }

    /// Factor by which a transfer takes longer, since the protocol sends to one receiver after the other.
    fn serial_factor(&self) -> u32 {
        let serial = REGISTRY.iter().any(|other| {
            other.study.unicast_equivalent.is_some_and(|unicast| unicast.protocol == self.entry.name)
        });
        if serial { RECEIVERS as u32 } else { 1 }
    }

    /// Time to transmit a piece of a file at this rate.
    fn piece_time(&self) -> Duration {
        let rate = self.rate.map_or(1e9, |mbit| f64::from(mbit) * 1e6);
        Duration::from_secs_f64(PIECE_BYTES as f64 * 8.0 / rate) * self.serial_factor()
    }

    fn name(&self) -> String {
        let rate = self.rate.map_or_else(|| "unlimited".to_owned(), |rate| format!("{rate} Mbit/s"));
        format!("{:16} {rate:10} {:12}", self.entry.name, format!("{:?}", self.fault))
    }

    /// Sends a stream of which the first part arrives before the fault, and the rest after it. Returns `None` if no
    /// network can be made.
    fn run(&self) -> Option<Outcome> {
        let net = Net::new(RECEIVERS)?;
        let recv =
            |number| net.receiver(number).carillon(&format!("recv --name r{number} --out r{number}")).start();
        let _others = [recv(1), recv(2)];
        let mut victim = recv(3);
        let flags =
            format!("--receivers {RECEIVERS} --protocol {} --timeout {}", self.entry.name, self.timeout);
        let mut sender = net.sender().carillon("send - --as f --json").args(&flags);
        if let Some(rate) = self.rate {
            sender = sender.args(&format!("--rate {rate}Mbit/s"));
        }
        let mut sender = sender.start_fed();
        let mut input = sender.take_input();
        input.write_all(&[b'x'; FIRST_BYTES]).expect("the sender reads");
        wait_for_part(&net.path(VICTIM));
        let over = AtomicBool::new(false);
        let start = Instant::now();
        let (mut expelled_after, mut stalled) = (None, Duration::ZERO);
        scope(|scope| {
            scope.spawn(|| inject_fault(self.fault, &mut victim, &over));
            scope.spawn(move || {
                // Writing blocks while the fault begins. If the sender has ended, its output gives the reason.
                sleep(Duration::from_millis(50));
                let _ = input.write_all(&vec![b'y'; self.rest]);
            });
            let mut files =
                ["r1", "r2"].map(|name| Growth::new(&net.path(name), FIRST_BYTES + self.rest, start));
            while !sender.is_over() && start.elapsed() < MAX_RUN_TIME {
                files.iter_mut().for_each(Growth::poll);
                let gone = |line: &str| line.contains(r#""event":"gone""#) && line.contains(VICTIM);
                if expelled_after.is_none() && sender.out().lines().any(gone) {
                    expelled_after = Some(start.elapsed());
                }
                sleep(POLL);
            }
            stalled = files.iter().map(|file| file.longest).max().unwrap_or_default();
            over.store(true, Ordering::Relaxed);
        });
        let took = start.elapsed();
        let ended = sender.end_within(Duration::from_secs(1));
        let report = ended.events("report").pop().unwrap_or_else(|| panic!("no report: {}", ended.err));
        let receivers = report["receivers"].as_array().expect("a list").clone();
        let verified = receivers.iter().filter(|receiver| receiver["outcome"] == "verified").count();
        let victim = receivers.iter().find(|receiver| receiver["name"] == VICTIM).expect("it is named");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some(Outcome {
            code: ended.code,
            verified,
            outcome: text(&victim["outcome"]),
            reason: text(&victim["reason"]),
            waited: victim["waited_s"].as_f64().expect("a time"),
            waits: report["waits"].as_bool().expect("yes or no"),
            expelled_after,
            stalled,
            took,
        })
    }

    /// Compares the result with the promise of the protocol. Fails with a description.
    fn check(&self, end: &Outcome) -> Result<(), String> {
        let wrong = |text: String| Err(format!("{text}: {end:?}"));
        let timeout = self.timeout();
        if end.waits != self.entry.delivery.waits {
            return wrong("the report says another thing of the protocol than the registry".to_owned());
        }
        if end.verified < RECEIVERS - 1 {
            return wrong("the others have not got everything".to_owned());
        }
        // A protocol that waits for no member keeps sending.
        let pause = match self.fault {
            _ if !self.entry.delivery.waits => Duration::ZERO,
            Fault::Kill | Fault::Freeze => timeout,
            Fault::Pause(span) => span,
            // The others receive less than a piece between the answers of the slow one. It is expelled after four
            // timeouts, of which it runs half.
            Fault::Slow(_) => timeout * 2,
        };
        if end.stalled > pause + TIMEOUT_TOLERANCE + self.piece_time() {
            return wrong(format!("the others stood still for {:?}", end.stalled));
        }
        match self.fault {
            Fault::Kill | Fault::Freeze => {
                if (end.code, &*end.outcome) != (Some(1), "lost") {
                    return wrong("it is not lost".to_owned());
                }
                // The sender received its last packet some time before the fault.
                match end.expelled_after {
                    Some(after)
                        if (timeout - TIMEOUT_TOLERANCE..=timeout + TIMEOUT_TOLERANCE).contains(&after) => {}
                    _ => return wrong("it was not given up in time".to_owned()),
                }
                if end.waited > (timeout + TIMEOUT_TOLERANCE).as_secs_f64() {
                    return wrong("it was waited for too long".to_owned());
                }
            }
            Fault::Pause(span) => {
                // A sender that waits for no member may have discarded messages that this one still needs.
                if self.entry.delivery.waits && (end.code, end.verified) != (Some(0), RECEIVERS) {
                    return wrong("not all have everything".to_owned());
                }
                if end.outcome == "lost" || end.waited > (span + TIMEOUT_TOLERANCE).as_secs_f64() {
                    return wrong("it was waited for too long, or given up".to_owned());
                }
            }
            Fault::Slow(_) => {
                // The slow receiver may also have received everything by then, since much arrives at once. A protocol
                // that waits for no member accepts its final report.
                if !self.entry.delivery.waits {
                    return Ok(());
                }
                if end.expelled_after.is_some_and(|after| after > timeout * 4 + TIMEOUT_TOLERANCE) {
                    return wrong("it was not given up in time".to_owned());
                }
                let sending =
                    Duration::from_secs_f64(self.rate.map_or(0.0, |rate| {
                        (FIRST_BYTES + self.rest) as f64 * 8.0 / (f64::from(rate) * 1e6)
                    }));
                // The rest is then sent without it, or it delays the session for four timeouts more. A receiver that
                // completes may have done so long after the others.
                if end.outcome != "verified"
                    && end.took
                        > timeout * 8 + TIMEOUT_TOLERANCE + (MAX_REST_TIME + sending) * self.serial_factor()
                {
                    return wrong("it took too long".to_owned());
                }
            }
        }
        Ok(())
    }
}

/// Growth of a file over time.
struct Growth {
    directory: PathBuf,
    whole: u64,
    len: u64,
    since: Instant,
    longest: Duration,
}

impl Growth {
    fn new(directory: &Path, whole: usize, start: Instant) -> Self {
        let (directory, whole) = (directory.to_owned(), whole as u64);
        Growth { directory, whole, len: 0, since: start, longest: Duration::ZERO }
    }

    fn poll(&mut self) {
        let files = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let len = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        if self.len < self.whole {
            self.longest = self.longest.max(self.since.elapsed());
        }
        // A file may be missing for a moment while it is renamed.
        if len > self.len {
            (self.len, self.since) = (len, Instant::now());
        }
    }
}

fn inject_fault(fault: Fault, victim: &mut Running, over: &AtomicBool) {
    let until_over = |span: Duration| {
        let start = Instant::now();
        while start.elapsed() < span && !over.load(Ordering::Relaxed) {
            sleep(POLL.min(span));
        }
    };
    match fault {
        Fault::Kill => victim.kill(),
        Fault::Freeze => victim.signal("STOP"),
        Fault::Pause(span) => {
            victim.signal("STOP");
            until_over(span);
            victim.signal("CONT");
        }
        Fault::Slow(span) => {
            while !over.load(Ordering::Relaxed) {
                victim.signal("STOP");
                until_over(span);
                victim.signal("CONT");
                sleep(SLOW_RUN_TIME);
            }
        }
    }
}

/// Bytes that take `seconds` at this rate, in Mbit/s. The number is limited, so that a protocol with one message at a
/// time completes soon.
fn rest_bytes(rate: Option<u32>, seconds: f64) -> usize {
    let most = rate.map_or(f64::INFINITY, |rate| f64::from(rate) * 125_000.0 * seconds);
    most.min(4e6 * seconds.max(1.0)) as usize
}

fn kill(entry: &'static ProtocolEntry, rate: Option<u32>, timeout: u32) -> Case {
    Case { entry, rate, fault: Fault::Kill, timeout, rest: rest_bytes(rate, 1.2) }
}

fn freeze(entry: &'static ProtocolEntry, rate: Option<u32>, timeout: u32) -> Case {
    Case { fault: Fault::Freeze, ..kill(entry, rate, timeout) }
}

/// Stops the receiver for 3 s of a timeout of 5 s.
fn pause(entry: &'static ProtocolEntry, rate: Option<u32>) -> Case {
    Case { fault: Fault::Pause(Duration::from_secs(3)), ..kill(entry, rate, 5) }
}

/// Lets the receiver run for a moment after each 1.7 s of a timeout of 2 s, so that the sender receives a packet in
/// time.
fn slow(entry: &'static ProtocolEntry, rate: Option<u32>) -> Case {
    Case {
        fault: Fault::Slow(Duration::from_millis(1700)),
        rest: rest_bytes(rate, 3.0),
        ..kill(entry, rate, 2)
    }
}

/// Runs all cases, several in parallel. A failed case is run again alone, and once more later, since a busy machine
/// adds delay.
fn run_all(cases: &[Case]) {
    let lines = Mutex::new(Vec::new());
    let attempt = |index: usize, case: &Case| {
        let Some(end) = case.run() else { return true };
        let verdict = case.check(&end);
        let time = |span: Duration| format!("{:5.2} s", span.as_secs_f64());
        let line = format!(
            "{} given up after {:7}  others stood still {}  waited {:5.2} s  over after {}  {} {}{}",
            case.name(),
            end.expelled_after.map_or_else(|| "-".to_owned(), time),
            time(end.stalled),
            end.waited,
            time(end.took),
            end.outcome,
            end.reason,
            verdict.as_ref().err().map_or_else(String::new, |wrong| format!("  WRONG: {wrong}")),
        );
        println!("{line}");
        lines.lock().expect("nobody panics with it").push((index, line));
        verdict.is_ok()
    };
    let failed = Mutex::new(Vec::new());
    in_parallel(PARALLEL_NETWORKS, &(0..cases.len()).collect::<Vec<_>>(), |&index| {
        if !attempt(index, &cases[index]) {
            failed.lock().expect("nobody panics with it").push(index);
        }
    });
    let mut failed = failed.into_inner().expect("nobody panics with it");
    failed.sort_unstable();
    for pause in [0, 10, 20] {
        if !failed.is_empty() {
            sleep(Duration::from_secs(pause));
            failed.retain(|&index| !attempt(index, &cases[index]));
        }
    }
    let mut lines = lines.into_inner().expect("nobody panics with it");
    lines.sort();
    let table: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    assert!(failed.is_empty(), "{} of {} failed each time:\n{}", failed.len(), cases.len(), table.join("\n"));
    println!("\n{}", table.join("\n"));
}

#[test]
fn a_killed_receiver_is_expelled_by_every_protocol() {
    // The default tier runs some protocols of each family. The simulator tests all of them there.
    let some = ["carillon", "dsp", "rra", "srm"];
    let tried = REGISTRY.iter().filter(|entry| is_long_tier() || some.contains(&entry.name));
    let cases: Vec<Case> = tried.map(|entry| kill(entry, Some(5), 2)).collect();
    run_all(&cases);
}

#[test]
fn default_protocol_keeps_paused_and_expels_frozen_receiver() {
    let entry = carillon_proto::find("rra").expect("the registry has it");
    run_all(&[pause(entry, Some(20)), freeze(entry, None, 2)]);
}

/// Runs in the long tier only. On a very busy machine the receiver makes a little progress each time it runs, so the
/// sender waits two minutes for it, as for a receiver behind a slow port. Data from a pipe cannot be resumed in a
/// catch-up session. A receiver that progresses and delays the others for less than half of the time is therefore not
/// expelled.
#[test]
fn default_protocol_is_not_delayed_by_slow_receiver() {
    if is_long_or_skipped() {
        let entry = carillon_proto::find("rra").expect("the registry has it");
        run_all(&[slow(entry, Some(20))]);
    }
}

#[test]
fn every_protocol_with_every_fault_at_every_rate() {
    if !is_long_or_skipped() {
        return;
    }
    let cases: Vec<Case> = carillon_testkit::chosen(REGISTRY, REGISTRY.iter().copied())
        .into_iter()
        .flat_map(|entry| {
            [Some(5), Some(20), Some(100), None].into_iter().flat_map(move |rate| {
                [kill(entry, rate, 5), freeze(entry, rate, 5), pause(entry, rate), slow(entry, rate)]
            })
        })
        .collect();
    run_all(&cases);
}

#[test]
fn report_states_if_protocol_waits_for_no_receiver() {
    need_multicast!();
    for entry in REGISTRY.iter().filter(|entry| !entry.delivery.waits || entry.name == "rra") {
        let place = Place::new();
        let receiver = place.recv("a").start();
        let file = place.file("f", 10_000);
        let flags = format!("--receivers 1 --protocol {}", entry.name);
        let ended = place.send("s").arg(file).args(&flags).run().expect(0);
        receiver.end().expect(0);
        let line = format!("{} does not wait for receivers", entry.name);
        assert_eq!(ended.out.contains(&line), !entry.delivery.waits, "{}: {}", entry.name, ended.out);
    }
}
