//! A machine that sends and records datagrams, and test groups and namespaces.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use carillon_core::{
    Application, Bytes, Dest, Event, Events, Machine, NodeId, Observer, Received, Time, TraceEvent, Transmit,
};
use carillon_net::{Driver, Endpoint, EndpointConfig, GROUP};
use carillon_testkit::skip;

/// A datagram as a machine or an observer received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub time: Time,
    pub from: NodeId,
    pub to: Dest,
    pub bytes: Bytes,
}

/// Sends the datagrams in `say` and records arrivals. Answers `ping…` with `pong…`, and repeats its own last ping by
/// timer until the answer.
#[derive(Debug, Default)]
pub struct Talker {
    pub say: VecDeque<(Transmit, Vec<u8>)>,
    pub heard: Vec<Heard>,
    /// Records only datagrams with this prefix.
    pub only: &'static [u8],
    /// Number of pings to send, each after the answer to the previous one.
    pub pings: u32,
    pub pongs: u32,
    pub retry: Option<Time>,
    pub timeouts: u32,
    pub events: Events,
}

impl Talker {
    pub fn say(&mut self, dest: Dest, bytes: impl Into<Vec<u8>>) {
        self.say.push_back((Transmit::now(dest), bytes.into()));
    }

    fn ping(&mut self, now: Time) {
        self.retry = None;
        if self.pongs < self.pings {
            self.say(Dest::group(GROUP), format!("ping{}", self.pongs));
            self.retry = Some(now + Duration::from_millis(20));
        }
    }
}

impl Machine for Talker {
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        if let Some(rest) = datagram.bytes.strip_prefix(b"ping") {
            self.say(Dest::Node(datagram.source), [b"pong", rest].concat());
        }
        if datagram.bytes[..] == *format!("pong{}", self.pongs).as_bytes() && self.pongs < self.pings {
            self.pongs += 1;
            self.ping(now);
        }
        if datagram.bytes.starts_with(self.only) {
            self.heard.push(Heard {
                time: now,
                from: datagram.source,
                to: datagram.destination.clone(),
                bytes: datagram.bytes.clone(),
            });
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        if self.retry.is_some_and(|at| at <= now) {
            self.timeouts += 1;
            self.ping(now);
        }
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.retry
    }
    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, bytes) = self.say.pop_front()?;
        buf.extend_from_slice(&bytes);
        Some(transmit)
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }
}

/// An application that counts its polls and may request one at a time.
#[derive(Debug, Default)]
pub struct Counter(pub u64, pub Option<Time>);

impl<M: Machine + ?Sized> Application<M> for Counter {
    fn poll(&mut self, now: Time, _machine: &mut M) -> bool {
        self.0 += 1;
        self.1 = self.1.filter(|&at| at > now);
        false
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.1
    }
}

/// An observer that records everything.
#[derive(Debug, Default)]
pub struct Tape {
    pub events: Vec<TraceEvent>,
    pub datagrams: Vec<Heard>,
}

impl Observer for Tape {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.events.push(TraceEvent { time, node, event: event.clone() });
    }
    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        self.datagrams.push(Heard { time, from, to: to.clone(), bytes: bytes.clone() });
    }
}

pub type TestDriver = Driver<Talker, Counter, Tape>;

pub fn driver(config: EndpointConfig, machine: Talker) -> TestDriver {
    let endpoint = Endpoint::open(config).unwrap_or_else(|error| panic!("{error}"));
    Driver::new(endpoint, Box::new(machine), Counter::default(), Tape::default())
}

/// A group that no other test uses.
pub fn group() -> SocketAddr {
    carillon_testkit::fresh_group().into()
}

pub fn sending(group: SocketAddr) -> EndpointConfig {
    EndpointConfig { interface: Some("lo".to_owned()), ttl: 1, ..EndpointConfig::new(group) }
}

pub fn listening(group: SocketAddr) -> EndpointConfig {
    EndpointConfig { listen: true, ..sending(group) }
}

/// Steps the drivers in turn until `done`, or fails after half a minute.
pub fn run(drivers: &mut [TestDriver], mut done: impl FnMut(&[TestDriver]) -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !done(drivers) {
        assert!(Instant::now() < limit, "not done in half a minute: {:?}", stats(drivers));
        for driver in &mut *drivers {
            driver.step(Duration::from_micros(200)).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// Steps the drivers for a while.
pub fn run_for(drivers: &mut [TestDriver], time: Duration) {
    let end = Instant::now() + time;
    run(drivers, |_| Instant::now() >= end);
}

fn stats(drivers: &[TestDriver]) -> Vec<&carillon_net::Stats> {
    drivers.iter().map(Driver::stats).collect()
}

/// Returns true if multicast works on loopback; prints the reason if not.
pub fn multicast_works(test: &str) -> bool {
    let group = group();
    let works = Endpoint::open(listening(group)).map_err(|error| error.to_string()).and_then(|receiver| {
        let sender = Endpoint::open(sending(group)).map_err(|error| error.to_string())?;
        let mut pair = [(receiver, Talker::default()), (sender, Talker::default())]
            .map(|(e, m)| Driver::new(e, Box::new(m), Counter::default(), Tape::default()));
        pair[1].machine_mut().say(Dest::group(GROUP), "hello");
        for _ in 0..100 {
            for driver in &mut pair {
                driver.step(Duration::from_millis(10)).map_err(|error| error.to_string())?;
            }
            if !pair[0].machine().heard.is_empty() {
                return Ok(());
            }
        }
        Err("a multicast sent on loopback does not arrive".to_owned())
    });
    if let Err(reason) = &works {
        skip(format_args!("{test}: {reason}"));
    }
    works.is_ok()
}

/// Runs the named test again in a network namespace of its own, set up by these shell commands. Returns true inside;
/// outside it returns false after a successful inner run, fails after a failed one, and reports a skip without
/// namespaces.
pub fn in_namespace(test: &str, setup: &str) -> bool {
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    let script = format!("( {setup} ) >&2 || exit {NO_SETUP}; exec \"$0\" --exact {test} --nocapture");
    let this = std::env::current_exe().expect("the path of this test");
    let run =
        Command::new("unshare").args(["-r", "-n", "sh", "-c", &script]).arg(this).env(INNER, "1").output();
    let skip = |reason: &str| skip(format_args!("no network namespace: {reason}"));
    match run {
        Err(error) => skip(&format!("unshare: {error}")),
        Ok(output) => {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            match output.status.code() {
                Some(0) => assert!(out.contains("1 passed"), "the inner run ran no test: {out}"),
                Some(101) => panic!("in the namespace:\n{out}{err}"),
                _ => skip(err.trim()),
            }
        }
    }
    false
}

const INNER: &str = "CARILLON_TEST_NAMESPACE";
const NO_SETUP: i32 = 77;
