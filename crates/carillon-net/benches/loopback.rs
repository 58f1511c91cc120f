//! Cost of a datagram on loopback by size, with and without segmentation offload, for one and four receivers: the
//! full driver path on both sides with a trivial machine.
//!
//! One thread sends a burst that fits the receive buffers and then receives it everywhere, so that the two costs are
//! separate. On loopback the sender's system call includes the kernel's work of finding the receiving sockets and
//! queueing. The result is the 10th percentile, because other load only adds. Run `cargo bench -p carillon-net
//! --bench loopback`; `-- --quick` prints only the costs, for many short runs.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use carillon_core::{Application, Dest, Event, Machine, NoObserver, Received, Time, Transmit};
use carillon_net::{Driver, Endpoint, EndpointConfig, GROUP};

/// Sends `left` datagrams of `size` bytes and counts received ones.
///
/// Each begins at another offset within a page: copying is many times slower for some pairs of offsets, which would
/// make the result depend on the build.
#[derive(Debug)]
struct Burst {
    left: u64,
    size: usize,
    pattern: Vec<u8>,
    heard: u64,
}

impl Burst {
    fn new(size: usize) -> Burst {
        Burst { left: 0, size, pattern: vec![7; size + PAGE], heard: 0 }
    }
}

impl Machine for Burst {
    fn handle_datagram(&mut self, _now: Time, datagram: Received<'_>) {
        self.heard += u64::from(datagram.bytes.len() == self.size);
    }
    fn handle_timeout(&mut self, _now: Time) {}
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.left = self.left.checked_sub(1)?;
        let start = (self.left as usize).wrapping_mul(STEP) % PAGE;
        buf.extend_from_slice(&self.pattern[start..start + self.size]);
        Some(Transmit::now(Dest::group(GROUP)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

struct Idle;

impl Application<Burst> for Idle {
    fn poll(&mut self, _now: Time, _machine: &mut Burst) -> bool {
        false
    }
}

type Node = Driver<Burst, Idle, NoObserver>;

/// Nanoseconds per datagram for sending and, per receiver, for receiving.
struct Cost {
    send: f64,
    receive: f64,
    lost: u64,
    per_call: f64,
}

fn node(group: SocketAddr, listen: bool, size: usize) -> Node {
    let config =
        EndpointConfig { interface: Some("lo".to_owned()), ttl: 0, listen, ..EndpointConfig::new(group) };
    let endpoint = Endpoint::open(config).unwrap_or_else(|error| panic!("{error}"));
    Driver::new(endpoint, Box::new(Burst::new(size)), Idle, NoObserver)
}

fn step(node: &mut Node) {
    node.step(Duration::ZERO).unwrap_or_else(|error| panic!("{error}"));
}

fn measure(size: usize, segmentation: bool, receivers: usize, time: Duration) -> Cost {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("a free port").port();
    let group = SocketAddr::from(([239, 255, 77, 77], port));
    let mut sender = node(group, false, size);
    sender.endpoint_mut().set_segmentation(segmentation);
    let mut receivers: Vec<Node> = (0..receivers).map(|_| node(group, true, size)).collect();
    let burst = (BURST / size) as u64;
    let (mut send, mut receive) = (Vec::new(), Vec::new());
    let mut sent = 0;
    let end = Instant::now() + time;
    while Instant::now() < end {
        sender.machine_mut().left = burst;
        sent += burst;
        let start = Instant::now();
        while sender.stats().datagrams_sent < sent {
            step(&mut sender);
        }
        send.push(start.elapsed().as_nanos() as f64 / burst as f64);
        for receiver in &mut receivers {
            let start = Instant::now();
            let before = receiver.stats().datagrams_received;
            while receiver.stats().datagrams_received < before + burst {
                let progress = receiver.stats().datagrams_received;
                step(receiver);
                if receiver.stats().datagrams_received == progress {
                    break;
                }
            }
            receive.push(start.elapsed().as_nanos() as f64 / burst as f64);
        }
    }
    let heard: u64 = receivers.iter().map(|r| r.machine().heard).sum();
    let lost = sent * receivers.len() as u64 - heard;
    let calls = sender.stats().send_calls as f64;
    Cost { send: tenth(send), receive: tenth(receive), lost, per_call: sent as f64 / calls }
}

/// 10th percentile of the samples.
fn tenth(mut samples: Vec<f64>) -> f64 {
    let at = samples.len() / 10;
    *samples.select_nth_unstable_by(at, f64::total_cmp).1
}

/// Lateness of a timer set this long ahead: median and 99th percentile, in microseconds.
fn lateness(ahead: Duration) -> (f64, f64) {
    #[derive(Debug)]
    struct Alarm(Option<Time>, Vec<f64>);
    impl Machine for Alarm {
        fn handle_datagram(&mut self, _now: Time, _datagram: Received<'_>) {}
        fn handle_timeout(&mut self, now: Time) {
            if let Some(at) = self.0.take_if(|at| *at <= now) {
                self.1.push(now.since(at).as_nanos() as f64 / 1e3);
            }
        }
        fn poll_timeout(&self) -> Option<Time> {
            self.0
        }
        fn poll_transmit(&mut self, _now: Time, _buf: &mut Vec<u8>) -> Option<Transmit> {
            None
        }
        fn poll_event(&mut self) -> Option<Event> {
            None
        }
    }
    impl Application<Alarm> for Idle {
        fn poll(&mut self, _now: Time, _machine: &mut Alarm) -> bool {
            false
        }
    }
    let group = SocketAddr::from(([239, 255, 77, 77], 7777));
    let config = EndpointConfig { interface: Some("lo".to_owned()), ..EndpointConfig::new(group) };
    let endpoint = Endpoint::open(config).unwrap_or_else(|error| panic!("{error}"));
    let mut alarm = Driver::new(endpoint, Box::new(Alarm(None, Vec::new())), Idle, NoObserver);
    while alarm.machine().1.len() < 300 {
        if alarm.machine().0.is_none() {
            alarm.machine_mut().0 = Some(alarm.now() + ahead);
        }
        alarm.step(Duration::from_secs(1)).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut late = std::mem::take(&mut alarm.machine_mut().1);
    late.sort_by(f64::total_cmp);
    (late[150], late[297])
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let time = if quick { QUICK_MEASURED_TIME } else { MEASURED_TIME };
    for micros in if quick { &[][..] } else { &[50, 300, 2000] }.iter().copied() {
        let (median, p99) = lateness(Duration::from_micros(micros));
        println!(
            "a timer set {micros:>4} us ahead is {median:.1} us late, 99 % are at most {p99:.1} us late"
        );
    }
    println!("datagram  offload  receivers  per call |  send ns  Gbit/s | receive ns  Gbit/s | lost");
    let gbps = |size: usize, ns: f64| size as f64 * 8.0 / ns;
    for receivers in [1, 4] {
        let mut base = None;
        let mut ratios = Vec::new();
        for size in [1472, 8192, 16_384, 32_742, 65_507] {
            for segmentation in [false, true] {
                let cost = measure(size, segmentation, receivers, time);
                let (out, into) = (gbps(size, cost.send), gbps(size, cost.receive));
                println!(
                    "{size:>8}  {:>7}  {receivers:>9}  {:>8.1} | {:>8.0} {out:>7.2} | {:>10.0} {into:>7.2} | {:>4}",
                    if segmentation { "on" } else { "off" },
                    cost.per_call,
                    cost.send,
                    cost.receive,
                    cost.lost,
                );
                let (out0, into0) = *base.get_or_insert((out, into));
                ratios.push((size, segmentation, out / out0, into / into0));
            }
        }
        if quick {
            continue;
        }
        println!("throughput relative to 1472 bytes without offload, {receivers} receivers:");
        for (size, segmentation, out, into) in ratios {
            let offload = if segmentation { "with" } else { "without" };
            println!("{size:>8} {offload:>7} offload: send x {out:.1}, receive x {into:.1}");
        }
    }
}

const PAGE: usize = 4096;
/// Distance between the page offsets of successive datagrams: 64 of them, in sequence, differ by a cache line.
const STEP: usize = 23 * 64;

/// Bytes sent before they are received: fits the buffers with the kernel's overhead.
const BURST: usize = 1 << 20;

/// Duration of each measurement.
const MEASURED_TIME: Duration = Duration::from_millis(500);
const QUICK_MEASURED_TIME: Duration = Duration::from_millis(60);
