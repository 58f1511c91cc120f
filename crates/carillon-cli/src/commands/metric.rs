//! `carillon metric`: goodput by buffer size, and latency.
//!
//! Switches and columns follow the program `metric` of 1997 (Johnstone, "Analysis of the Xpress Transport Protocol in
//! multicast", chapter III), which was part of another distribution. This one is a new implementation.

mod latency;

use std::io::Write as _;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use carillon_core::{BitRate, DataSize};
use carillon_transfer::socket::{Inbound, Listener, Outbound, Socket, bind};
use serde_json::json;

use crate::delivery::{notice, print_json, seconds};
use crate::exit::JobFailed;
use latency::{Latencies, Stamp};

/// Measure how fast messages go to a group, and their latency.
///
/// Start the receivers first (-R), then the transmitter (-T), with the same group; or try it on this machine alone
/// with --local. The transmitter sends the message in calls of one buffer each, until every receiver has confirmed
/// all of it. It prints for each buffer size: bytes, milliseconds, megabits per second, calls, milliseconds per call.
///
/// Option --latency sends messages of one buffer at a given rate, and the receivers print the median, the 99th and
/// the 99.9th percentile of the latency, by the clocks of the two machines.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("role").required(true),
    before_help = "Example: carillon metric --local 3", after_help = "Examples:
  carillon metric --local 3                                   this machine alone, three receivers
  carillon metric -R                                          on each receiver, until interrupted
  carillon metric -T --receivers 3 --protocol pgm             on the transmitter
  carillon metric -r                                          one receiver alone
  carillon metric -t --message 50KB --buffers 64,1024,8192 -g
  carillon metric --local 4 --latency 1000 --buffers 100 --protocol sequencer
  carillon metric --local 4 --message 256MB --buffers 8192 --runs 3 --json"
)]
pub struct Args {
    /// Transmit to one receiver.
    #[arg(short = 't', group = "role")]
    unicast_transmit: bool,
    /// Receive from a transmitter with one receiver.
    #[arg(short = 'r', group = "role")]
    unicast_receive: bool,
    /// Transmit to the receivers of the group.
    #[arg(short = 'T', group = "role")]
    transmit: bool,
    /// Receive the group's transmissions, one after another.
    #[arg(short = 'R', group = "role")]
    receive: bool,
    /// Transmit to N receivers in this process, over loopback unless --interface is given.
    #[arg(long, group = "role", value_name = "N")]
    local: Option<usize>,
    /// Ask for a status with the first packet, for protocols that form the group with it.
    #[arg(short = 'f')]
    status_first: bool,
    /// Wait after each call until all receivers have acknowledged it.
    #[arg(short = 'g')]
    block: bool,
    /// Let receivers report losses immediately (FASTNAK), for protocols that have this parameter.
    #[arg(short = 'F')]
    fastnak: bool,
    /// Multicast group and UDP port.
    #[arg(long, value_name = "ADDR:PORT", default_value = GROUP)]
    group: SocketAddr,
    /// Network interface, by name or address.
    #[arg(long, value_name = "NAME|ADDR")]
    interface: Option<String>,
    /// Name of this machine in the session.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Protocol; `carillon protocols` lists them.
    #[arg(long, value_name = "NAME", default_value = carillon_transfer::DEFAULT_PROTOCOL)]
    protocol: String,
    /// Set a parameter of the protocol. Can be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Number of receivers that the transmitter waits for.
    #[arg(long, value_name = "N", default_value = "1")]
    receivers: usize,
    /// Size of the whole message in bytes, such as 51200, 1MB.
    #[arg(long, value_name = "SIZE", default_value = "1024000", value_parser = size)]
    message: DataSize,
    /// Buffer sizes in bytes, one row for each.
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',', value_parser = size,
        default_value = "64,128,256,512,1024,2048,4096,8192"
    )]
    buffers: Vec<DataSize>,
    /// Number of rows for each buffer size.
    #[arg(long, value_name = "N", default_value = "1")]
    runs: usize,
    /// Measure the latency of messages at this rate, in messages per second.
    #[arg(long, value_name = "RATE")]
    latency: Option<f64>,
    /// Duration of a measurement with --latency.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    time: Duration,
    /// Maximum rate.
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// Expel receivers that stay silent for this long.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    /// Print one JSON object for each row.
    #[arg(long)]
    json: bool,
}

/// `carillon metric`
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.buffers.iter().any(|size| size.0 < STAMP_LEN as u64 && args.latency.is_some()) {
        bail!("a message that is timed has {STAMP_LEN} bytes at least: --buffers 64");
    }
    if args.buffers.iter().any(|size| size.0 == 0 || size.0 > MAX_PAYLOAD_LEN) {
        bail!("a buffer has 1 to {MAX_PAYLOAD_LEN} bytes: leave the others out of --buffers");
    }
    if args.message.0 == 0 {
        bail!("a message has one byte at least: --message 1024000");
    }
    if args.latency.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
        bail!("--latency takes messages a second, such as 1000");
    }
    if let Some(receivers) = args.local {
        return local(args, receivers);
    }
    if args.receive || args.unicast_receive {
        let mut listener = args.socket(None, None).listen()?;
        loop {
            let kept = receive(&mut listener)?;
            args.print_received(&kept)?;
        }
    }
    let receivers = if args.unicast_transmit { 1 } else { args.receivers };
    transmit(args, receivers, || Ok(Vec::new()))
}

/// Runs receivers and transmitter in this process.
fn local(args: &Args, receivers: usize) -> anyhow::Result<()> {
    let mut listeners: Vec<Listener> = (1..=receivers)
        .map(|number| args.socket(Some(format!("r{number}")), Some("lo")).listen())
        .collect::<Result<_, _>>()?;
    transmit(args, receivers, || listeners.drain(..).map(start_receiving).collect()).map(|()| drop(listeners))
}

type Receiving = thread::JoinHandle<(anyhow::Result<Received>, Listener)>;

/// Data that one receiver got in one transmission.
struct Received {
    sender: String,
    bytes: u64,
    calls: u64,
    latencies: Latencies,
}

/// Receives one transmission on its own thread.
fn start_receiving(mut listener: Listener) -> anyhow::Result<Receiving> {
    let thread = thread::Builder::new().name("carillon-receiver".to_owned());
    thread.spawn(move || (receive(&mut listener), listener)).context("cannot start a receiver's thread")
}

/// Receives one transmission.
fn receive(listener: &mut Listener) -> anyhow::Result<Received> {
    let inbound: Inbound = listener.accept()?;
    let mut kept =
        Received { sender: inbound.sender().to_owned(), bytes: 0, calls: 0, latencies: Latencies::default() };
    for message in inbound {
        let message = message?;
        (kept.bytes, kept.calls) = (kept.bytes + message.bytes.len() as u64, kept.calls + 1);
        if let Some(stamp) = Stamp::of(&message.bytes) {
            kept.latencies.add(stamp.age());
        }
    }
    Ok(kept)
}

/// Sends one transmission for each row.
fn transmit(
    args: &Args,
    receivers: usize,
    mut start: impl FnMut() -> anyhow::Result<Vec<Receiving>>,
) -> anyhow::Result<()> {
    args.remark();
    let mut failed = false;
    let mut listeners: Vec<Listener> = Vec::new();
    if !args.json && args.latency.is_none() {
        println!("{:>9} {:>12} {:>12} {:>9} {:>12}", "buffer", "ms", "Mbit/s", "calls", "ms/call");
    }
    for &size in &args.buffers {
        for run in 0..args.runs {
            let mut threads = start()?;
            for listener in listeners.drain(..) {
                threads.push(start_receiving(listener)?);
            }
            let interface = args.local.is_some().then_some("lo");
            let outbound = args.socket(None, interface).receivers(receivers).connect();
            let sent =
                outbound.map_err(anyhow::Error::from).and_then(|outbound| args.send(outbound, size, run));
            if let Err(error) = &sent {
                // The receivers' error matters more only if the transmission succeeded.
                notice(format_args!("{size}: {error:#}"));
                failed = true;
                if args.local.is_some() {
                    break;
                }
            }
            for one in threads {
                let (kept, listener) = one.join().map_err(|_| anyhow!("a receiver has panicked"))?;
                listeners.push(listener);
                match kept {
                    Ok(kept) if args.latency.is_some() => args.print_received(&kept)?,
                    Ok(_) => {}
                    Err(error) => {
                        notice(format_args!("{size}: a receiver: {error:#}"));
                        failed = true;
                    }
                }
            }
        }
    }
    if failed { Err(JobFailed.into()) } else { Ok(()) }
}

impl Args {
    /// Socket with the options from the command line.
    fn socket(&self, name: Option<String>, interface: Option<&str>) -> Socket {
        let mut socket = bind(self.group).protocol(&self.protocol).timeout(self.timeout);
        if let Some(interface) = self.interface.as_deref().or(interface) {
            socket = socket.interface(interface);
        }
        if let Some(name) = name.or_else(|| self.name.clone()) {
            socket = socket.name(name);
        }
        if let Some(rate) = self.rate {
            socket = socket.rate(rate);
        }
        let switched = self.switches().into_iter().filter_map(|(_, on, key)| Some((on.then_some(())?, key?)));
        for (_, key) in switched {
            socket = socket.set(key, "true");
        }
        self.settings.iter().fold(socket, |socket, (key, value)| socket.set(key, value))
    }

    /// Switches that are parameters of some protocols.
    fn switches(&self) -> [(&'static str, bool, Option<&'static str>); 2] {
        let has = |names: &[&str]| {
            let parameters = carillon_proto::find(&self.protocol).map_or(&[][..], |entry| entry.parameters);
            parameters.iter().map(|parameter| parameter.name).find(|name| names.contains(name))
        };
        [
            ("-f", self.status_first, has(&["sreq_first", "first_sreq"])),
            ("-F", self.fastnak, has(&["fastnak"])),
        ]
    }

    /// Warns about switches that have no effect with this protocol.
    fn remark(&self) {
        for (switch, on, key) in self.switches() {
            if on && key.is_none() {
                notice(format_args!(
                    "{switch}: {} has no such parameter; it changes nothing here",
                    self.protocol
                ));
            }
        }
    }

    /// Sends one transmission and prints its row.
    fn send(&self, mut outbound: Outbound, size: DataSize, run: usize) -> anyhow::Result<()> {
        let len = size.0 as usize;
        let (calls, bytes) = match self.latency {
            Some(rate) => {
                let calls = latency::send(&mut outbound, len, rate, self.time)?;
                (calls, calls * size.0)
            }
            None => {
                let (whole, buffer) = (self.message.0, vec![b'x'; len]);
                let mut left = whole;
                let mut calls = 0;
                while left > 0 {
                    let piece = left.min(size.0);
                    outbound.send(&buffer[..piece as usize])?;
                    if self.block && !outbound.settle(self.timeout * 4)? {
                        bail!(
                            "-g: a call was not acknowledged in time: {} does not say so before the end",
                            self.protocol
                        );
                    }
                    (left, calls) = (left - piece, calls + 1);
                }
                (calls, whole)
            }
        };
        let report = outbound.close()?;
        if !report.is_success() {
            let lost = report
                .receivers
                .iter()
                .find_map(|one| Some(format!("{}: {}", one.name, one.outcome.reason()?)));
            bail!("{}", report.failure.clone().or(lost).unwrap_or_else(|| "not everybody has it".to_owned()));
        }
        let (time, receivers) = (report.time.as_secs_f64(), report.receivers.len());
        let rate = bytes as f64 * 8.0 / time.max(1e-9);
        if self.json {
            return print_json(&json!({
                "event": "row", "protocol": self.protocol, "receivers": receivers, "run": run, "buffer": size.0,
                "bytes": bytes, "milliseconds": time * 1e3, "megabits_per_second": rate / 1e6, "calls": calls,
                "milliseconds_per_call": time * 1e3 / calls.max(1) as f64, "repairs": report.sent.repairs,
            }));
        }
        if self.latency.is_none() {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "{:>9} {:>12.3} {:>12.3} {calls:>9} {:>12.6}",
                size.0,
                time * 1e3,
                rate / 1e6,
                time * 1e3 / calls.max(1) as f64
            )
            .context("cannot print")?;
        }
        Ok(())
    }

    fn print_received(&self, kept: &Received) -> anyhow::Result<()> {
        let at = |share| kept.latencies.at(share).map(|time| time.as_secs_f64() * 1e6);
        let (median, p99, p999, most) = (at(0.5), at(0.99), at(0.999), at(1.0));
        if self.json {
            return print_json(&json!({
                "event": "received", "sender": kept.sender, "bytes": kept.bytes, "calls": kept.calls,
                "latency_us": { "p50": median, "p99": p99, "p99.9": p999, "max": most },
            }));
        }
        let mut line = format!("{} bytes in {} calls from {}", kept.bytes, kept.calls, kept.sender);
        if let (Some(median), Some(p99), Some(p999), Some(most)) = (median, p99, p999, most) {
            line += &format!("; latency p50 {median:.0}, p99 {p99:.0}, p99.9 {p999:.0}, most {most:.0} us");
        }
        writeln!(std::io::stdout().lock(), "{}", carillon_transfer::files::shown(&line))
            .context("cannot print")
    }
}

/// Parses a number of bytes, with or without a unit.
fn size(text: &str) -> Result<DataSize, String> {
    text.parse().map(DataSize).or_else(|_| {
        text.parse().map_err(|_| format!("expected bytes, such as 1024 or 50KB, and not {text:?}"))
    })
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as window=64")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Group of the program of 1997, with a port of our own.
const GROUP: &str = "239.0.0.239:7655";
const STAMP_LEN: usize = latency::STAMP_LEN;
const MAX_PAYLOAD_LEN: u64 = carillon_transfer::socket::MAX_MESSAGE_LEN as u64;
