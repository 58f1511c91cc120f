//! `carillon send`: files to many receivers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use carillon_core::{
    AssociationId, BitRate, HostValue, NodeId, ProtocolEntry, Role, Sender as _, Setting, Time, UnitError,
};
use carillon_net::{Driver, Endpoint, GROUP};
use carillon_proto::session::{
    Gather, LOCAL_NODE, Member, MemberOutcome, SenderPhase, SenderSession, SenderSessionConfig,
};
use carillon_proto::{REGISTRY, find};
use carillon_transfer::files::{Manifest, Outgoing, Symlinks};
use serde_json::json;

use crate::commands::{join, tidings::Tidings};
use crate::delivery::{
    Human, NOBODY_EXPECTED, NetworkArgs, Rate, SenderBars, Stop, Ticker, Watch, host, is_text_terminal,
    outcome_name, outcome_reason, outcome_text, print_json, print_table, random, say, seconds, step,
    waits_for_nobody,
};
use crate::exit::JobFailed;

/// Send files, directories or the standard input to every receiver of a group.
///
/// Waits for receivers, sends, and then says of every single one whether it has all of it,
/// verified, or why not. Exits with 0 if all have, with 1 if one has not, with 2 if the trouble is here.
/// Who is not served, and what else is wrong, is said on stderr in a line that says what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  carillon send image.iso                     to all who join within 2 s of the first
  carillon send --expect a,b,c configs/       to exactly these, a directory with all in it
  carillon send --receivers 20 --rate '800 Mbit/s' image.iso
  tar c /srv | carillon send - --as srv.tar   a stream
  carillon send --protocol msaw --set timeout=20ms notes.txt
  tail -f log | carillon send - --stream      live, line by line
  carillon send --interface eth1 --ttl 4 f    by this interface, across three routers
  carillon send --datagram 1472 image.iso     through networks of 1500 bytes, from one of 9000
  carillon send --json f | jq 'select(.event == \"report\") | .receivers, .unserved'

Many senders, with a protocol of peers:
  carillon send --protocol NAME --receivers 4 a.txt   one organises: it waits for the others
  carillon send --join b.txt                          a further sender, of files
  tail -f log | carillon send --join - --stream       or live")]
pub struct Args {
    /// Files and directories, or - for the standard input.
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) network: NetworkArgs,
    /// Be a further sender of a session that another one organises, as its protocol allows.
    #[arg(long, conflicts_with_all = [
        "protocol", "settings", "receivers", "expect", "wait", "datagram",
    ])]
    pub(super) join: bool,
    /// Send the standard input as a live stream: each line at once, as a message of its own.
    #[arg(long, conflicts_with = "rename")]
    pub(super) stream: bool,
    /// The protocol, see `carillon protocols`.
    #[arg(long, value_name = "NAME", default_value = "rra")]
    protocol: String,
    /// Set a parameter of the protocol, see `carillon protocols NAME`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Start when this many receivers have joined; further senders count too.
    #[arg(long, value_name = "N", conflicts_with_all = ["expect", "wait"])]
    receivers: Option<usize>,
    /// Start when the receivers of these names have joined; let in no others. NAME=ADDRESS lets the
    /// receiver of this name in from this address only.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "wait")]
    expect: Option<Vec<String>>,
    /// Let routers of the protocol help (`carillon relay`): whoever says that it is one is heard.
    #[arg(long, conflicts_with = "join")]
    relays: bool,
    /// Start this long after the first receiver has joined.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    wait: Duration,
    /// Give up when the receivers have not joined within this time.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(super) join_timeout: Duration,
    /// Give a receiver up that was not heard for this long, or is waited for and acknowledges nothing;
    /// with --join, the one who organises.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(super) timeout: Duration,
    /// Give a receiver up that the sender waits for most of the time and that lets less than this through
    /// over four timeouts; 0 for none.
    #[arg(long, value_name = "BITRATE", default_value = "16 kbit/s", value_parser = least_rate)]
    min_rate: Least,
    /// Send at most this fast, headers included, such as '100 Mbit/s'.
    #[arg(long, value_name = "BITRATE")]
    pub(super) rate: Option<BitRate>,
    /// Send datagrams of at most this many bytes [default: as many as the interface carries in one
    /// piece, less on loopback].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(576..))]
    datagram: Option<u32>,
    /// Router hops the datagrams may travel: 1 stays on this network.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) ttl: u8,
    /// The name the one file, or the standard input, has at the receivers.
    #[arg(long = "as", value_name = "NAME")]
    pub(super) rename: Option<String>,
    /// Symbolic links in directories: `follow` them, `keep` them as links, or `skip` them.
    #[arg(long, value_name = "WHAT", default_value = "follow")]
    symlinks: Symlinks,
}

/// The least progress of a receiver, if there is to be one.
#[derive(Clone, Copy, Debug)]
struct Least(Option<BitRate>);

fn least_rate(text: &str) -> Result<Least, String> {
    match text.trim() {
        "0" => Ok(Least(None)),
        text => text.parse().map(|rate| Least(Some(rate))).map_err(|error: UnitError| error.to_string()),
    }
}

type SendDriver = Driver<SenderSession, Outgoing, Watch>;

/// `carillon send`
pub fn run(args: Args) -> anyhow::Result<()> {
    if args.rename.is_some() && args.paths.len() > 1 {
        bail!("--as names one file, but {} paths were given", args.paths.len());
    }
    if args.stream && args.paths.iter().any(|path| path.as_os_str() != "-") {
        bail!("--stream sends the standard input: give `-` as the only path");
    }
    let protocol = match find(&args.protocol) {
        Some(entry) => entry,
        None => {
            let known: Vec<_> = REGISTRY.iter().map(|entry| entry.name).collect();
            bail!("no protocol \"{}\"; known: {}", args.protocol, known.join(", "));
        }
    };
    let manifest = Manifest::list(&args.paths, args.rename.as_deref(), args.symlinks)?;
    for line in manifest.skipped() {
        say(line);
    }
    let stop = Stop::on_signals()?;
    if args.join {
        return join::run(&args, manifest, &stop);
    }
    // Peers hear each other.
    let listen = protocol.roles.contains(&Role::Peer);
    let (mut endpoint, seeds) = args.network.open(listen, args.ttl, args.rate)?;
    // To hear of other senders, as long as there is nothing else to hear; it can do without.
    let eavesdrops = !listen && endpoint.listen().is_ok();
    let config = configure(&args, protocol, &endpoint)?;
    // A window that the protocol fills whatever the path carries.
    let is_window = |key: &str| {
        let mut settings = protocol.host_settings.iter();
        settings.any(|(name, value)| *name == key && matches!(value, HostValue::Window { .. }))
    };
    let window_bytes = match config.config.iter().find(|(key, _)| is_window(key)) {
        Some((_, Setting::Count(window))) => Some(window * u64::from(config.max_payload)),
        _ => None,
    };
    let datagram = endpoint.max_datagram().min(args.datagram.map_or(usize::MAX, |bytes| bytes as usize));
    let outgoing = match args.stream {
        true => Outgoing::stream(manifest, config.max_payload as usize)?,
        false => Outgoing::new(manifest, config.max_payload as usize)?,
    };
    let session = SenderSession::new(config, seeds)?;
    let watch = Watch::new(args.network.trace.as_deref(), &endpoint)?;
    let driver = Driver::new(endpoint, Box::new(session), outgoing, watch);
    let tidings = Tidings::new(driver.endpoint(), args.network.json);
    Job {
        driver,
        args,
        waits: protocol.waits,
        joined: BTreeMap::new(),
        gone: BTreeMap::new(),
        bars: None,
        window_bytes,
        datagram,
        tidings,
        interrupted: false,
        eavesdrops,
    }
    .run(&stop)
}

/// What the session is told.
fn configure(
    args: &Args,
    protocol: &'static ProtocolEntry,
    endpoint: &Endpoint,
) -> anyhow::Result<SenderSessionConfig> {
    let usual = if endpoint.interface().loopback { LOOPBACK_DATAGRAM } else { usize::MAX };
    let datagram = endpoint.max_datagram().min(args.datagram.map_or(usual, |bytes| bytes as usize));
    let association = AssociationId(random()? as u32);
    let mut config =
        SenderSessionConfig::new(association, args.network.name(), GROUP, protocol, datagram as u32);
    config.member_timeout = args.timeout;
    config.heartbeat = config.heartbeat.min((args.timeout / 10).max(SHORTEST_HEARTBEAT));
    config.min_rate = args.min_rate.0;
    // What is under way must fit the receivers' socket buffers, of which this one is a sample.
    let room = endpoint.receive_buffer().min(WINDOW_BYTES) / datagram;
    config.set_host_values(room as u64)?;
    for setting in &args.settings {
        let Some((key, value)) = setting.split_once('=') else {
            bail!("--set {setting}: expected KEY=VALUE, such as window=64");
        };
        let set = config.config.set(protocol.parameters, key.trim(), value.trim());
        set.with_context(|| format!("--set {setting}"))?;
    }
    config.gather = match (&args.receivers, &args.expect) {
        (Some(count), _) => Gather::Count(*count),
        (None, Some(names)) => {
            let mut expected = BTreeSet::new();
            for name in names {
                let (name, host) = expected_receiver(name)?;
                config.hosts.extend(host.map(|host| (name.clone(), host)));
                expected.insert(name);
            }
            Gather::Names(expected)
        }
        (None, None) => Gather::Settle(args.wait),
    };
    config.relays = args.relays;
    if args.relays && !protocol.roles.contains(&Role::Relay) {
        bail!("--relays: the protocol \"{}\" has no routers that help", protocol.name);
    }
    config.gather_limit = Some(args.join_timeout);
    config.addresses = endpoint.addresses(LOCAL_NODE);
    config.bit_rate = args.rate.unwrap_or(config.bit_rate);
    config.max_payload = config.payload_in(datagram);
    Ok(config)
}

/// A name that is expected, and the address it is expected from, if that is said.
fn expected_receiver(text: &str) -> anyhow::Result<(String, Option<IpAddr>)> {
    match text.split_once('=') {
        None => Ok((text.trim().to_owned(), None)),
        Some((name, host)) => {
            let host = host.trim().parse().with_context(|| format!("--expect {text}: an IP address"))?;
            Ok((name.trim().to_owned(), Some(host)))
        }
    }
}

/// A delivery under way.
struct Job {
    driver: SendDriver,
    args: Args,
    /// The protocol waits for its members.
    waits: bool,
    /// The members told of so far.
    joined: BTreeMap<NodeId, String>,
    /// When members were found to be given up or to have left.
    gone: BTreeMap<NodeId, Time>,
    bars: Option<SenderBars>,
    /// Bytes that may be under way, if the protocol has a window.
    window_bytes: Option<u64>,
    /// Bytes of the longest datagram.
    datagram: usize,
    /// What is said besides the report.
    tidings: Tidings,
    /// A signal has asked for the end.
    interrupted: bool,
    /// Hears the group although its protocol need not.
    eavesdrops: bool,
}

impl Job {
    fn run(mut self, stop: &Stop) -> anyhow::Result<()> {
        if is_text_terminal() && !self.args.network.json {
            self.bars = Some(SenderBars::new(self.driver.application().manifest().bytes()));
        }
        let mut ticker = Ticker::new(PROGRESS_INTERVAL);
        let mut screen = Ticker::new(SCREEN_INTERVAL);
        let mut error = None;
        let mut running = false;
        while !self.driver.machine().is_finished() {
            if let Err(broken) = step(&mut self.driver, LONGEST_STEP) {
                error.get_or_insert(broken);
                break;
            }
            if stop.insisted() {
                break;
            }
            let now = self.driver.now();
            if error.is_none() && self.driver.application().has_failed() {
                error = self.driver.application_mut().take_error();
                let reason = error.as_ref().map_or_else(String::new, |error| format!("{error:#}"));
                self.driver.machine_mut().abort(now, &reason);
            }
            if stop.asked() && !self.interrupted {
                self.interrupted = true;
                self.driver.machine_mut().abort(now, "the sender was interrupted");
            }
            if !running && self.driver.machine().phase() > SenderPhase::Gathering {
                running = true;
                if self.eavesdrops {
                    self.driver.endpoint_mut().stop_listening();
                }
                self.warn_of_small_buffers();
            }
            self.note_gone(now)?;
            self.tidings.tell(self.driver.machine(), self.driver.endpoint(), self.bars.as_ref())?;
            if self.args.network.json {
                self.print_joined()?;
                if ticker.ready(now) {
                    self.print_progress()?;
                }
            }
            if screen.ready(now) {
                self.show();
            }
        }
        if let Some(bars) = self.bars.take() {
            bars.clear();
        }
        // Also of what a local error or a signal has cut short.
        let reported = self.report(error.is_some());
        let result = error.map_or(reported, Err);
        let (_, _, _, watch) = self.driver.into_parts();
        let traced = watch.finish();
        result.and(traced)
    }

    /// A member that does not report has an end all the same.
    fn note_gone(&mut self, now: Time) -> anyhow::Result<()> {
        let over = |member: &&Member| member.finished.is_none() && member.outcome != MemberOutcome::Active;
        for member in self.driver.machine().members().iter().filter(over) {
            if self.gone.contains_key(&member.node) {
                continue;
            }
            self.gone.insert(member.node, now);
            if self.args.network.json {
                print_json(&json!({
                    "event": "gone",
                    "receiver": member.name,
                    "seconds": self.seconds(now),
                    "waited_s": member.waited.as_secs_f64(),
                    "outcome": outcome_name(&member.outcome),
                    "reason": outcome_reason(&member.outcome),
                }))?;
            }
        }
        Ok(())
    }

    /// A receiver whose socket buffer is smaller than the window will lose datagrams.
    fn warn_of_small_buffers(&self) {
        let Some(window) = self.window_bytes else { return };
        for member in self.driver.machine().members() {
            if u64::from(member.receive_buffer) < window {
                let line = format!(
                    "{} can hold {} of the {} that may be under way: expect losses; enlarge its \
                     net.core.rmem_max, or --set a smaller window",
                    host(&member.name, self.driver.endpoint().peer(member.node)),
                    Human(member.receive_buffer.into()),
                    Human(window)
                );
                self.tidings.say(&line, self.bars.as_ref());
            }
        }
    }

    fn show(&mut self) {
        let Some(bars) = &mut self.bars else { return };
        let session = self.driver.machine();
        let message = match session.phase() {
            SenderPhase::Gathering => {
                let (joined, missing) = (session.members().len(), session.missing());
                match (self.args.receivers, missing.is_empty()) {
                    (_, false) => format!("waiting for {}", missing.join(", ")),
                    (Some(count), true) => format!("{joined} of {count} receivers have joined"),
                    (None, true) if joined == 0 => "waiting for receivers".to_owned(),
                    (None, true) => "waiting for more receivers".to_owned(),
                }
            }
            SenderPhase::Assembling => "introducing the members to each other".to_owned(),
            SenderPhase::Running => "sending".to_owned(),
            _ => "waiting for reports".to_owned(),
        };
        bars.show(&message, self.driver.application().bytes(), session.members());
    }

    fn print_joined(&mut self) -> anyhow::Result<()> {
        let members = self.driver.machine().members();
        if self.driver.machine().phase() > SenderPhase::Running || members.len() == self.joined.len() {
            return Ok(());
        }
        let nodes: BTreeSet<NodeId> = members.iter().map(|member| member.node).collect();
        for (_, name) in self.joined.extract_if(.., |node, _| !nodes.contains(node)) {
            print_json(&json!({ "event": "left", "receiver": name }))?;
        }
        for member in members {
            if self.joined.insert(member.node, member.name.clone()).is_none() {
                let address = self.driver.endpoint().peer(member.node).map(|address| address.to_string());
                print_json(&json!({ "event": "joined", "receiver": member.name, "address": address }))?;
            }
        }
        Ok(())
    }

    fn print_progress(&self) -> anyhow::Result<()> {
        let (outgoing, session) = (self.driver.application(), self.driver.machine());
        print_json(&json!({
            "event": "progress",
            "phase": phase_name(session.phase()),
            "bytes": outgoing.bytes(),
            "total": outgoing.manifest().bytes(),
            "receivers": session.members().len(),
            "missing": session.missing(),
            "seconds": self.seconds(self.driver.now()),
        }))
    }

    /// Since the first message went out.
    fn seconds(&self, at: Time) -> f64 {
        let started = self.driver.application().started();
        started.map_or(0.0, |started| at.since(started).as_secs_f64())
    }

    /// Whom the sender was told to wait for: names, a number, or nobody.
    fn expected(&self) -> serde_json::Value {
        match (&self.args.expect, self.args.receivers) {
            (Some(names), _) => json!(names),
            (None, count) => json!(count),
        }
    }

    /// Says how it ended.
    fn report(&self, broken: bool) -> anyhow::Result<()> {
        let (session, outgoing) = (self.driver.machine(), self.driver.application());
        let members = session.members();
        let verified = members.iter().filter(|member| member.outcome == MemberOutcome::Verified).count();
        let end = |member: &Member| member.finished.or(self.gone.get(&member.node).copied());
        // The whole lasts as long as its longest row, and what was got is measured by those who got it.
        let last = members.iter().filter_map(end).max();
        let seconds = self.seconds(last.unwrap_or_else(|| self.driver.now()));
        let got = members.iter().filter(|member| member.outcome == MemberOutcome::Verified);
        let got = self.seconds(got.filter_map(|member| member.finished).max().unwrap_or_default());
        let bytes = outgoing.bytes();
        let goodput = if got > 0.0 && verified > 0 { bytes as f64 * 8.0 / got } else { 0.0 };
        let repairs = self.driver.observer().repairs();
        let took = |member: &Member| end(member).map(|at| self.seconds(at));
        if self.args.network.json {
            let receivers: Vec<_> = members
                .iter()
                .map(|member| {
                    json!({
                        "name": member.name,
                        "sends": member.offers,
                        "bytes": member.bytes,
                        "repairs": member.repairs,
                        "seconds": took(member),
                        "waited_s": member.waited.as_secs_f64(),
                        "outcome": outcome_name(&member.outcome),
                        "reason": outcome_reason(&member.outcome),
                    })
                })
                .collect();
            let stats = self.driver.stats();
            print_json(&json!({
                "event": "report",
                "protocol": self.args.protocol,
                "files": outgoing.manifest().files(),
                "withdrawn": outgoing.withdrawn(),
                "bytes": bytes,
                "seconds": seconds,
                "goodput_bps": goodput,
                "repairs": repairs,
                "datagrams_sent": stats.datagrams_sent,
                "bytes_sent": stats.bytes_sent,
                "receivers": receivers,
                "expected": self.expected(),
                "unserved": Tidings::unserved_json(session, self.driver.endpoint()),
                "more_unserved": session.more_unserved(),
                "rivals": Tidings::rivals_json(session, self.driver.endpoint()),
                "waits": self.waits,
                "failure": session.failure(),
            }))?;
        } else if !members.is_empty() || !session.unserved().is_empty() {
            let head = ["receiver", "bytes", "repairs", "time", "waited", "outcome"];
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            // A protocol that does not say whom a repair was for has it in the total only.
            let counted = members.iter().any(|member| member.repairs > 0);
            rows.extend(members.iter().map(|member| {
                vec![
                    member.name.clone(),
                    member.bytes.to_string(),
                    if counted || repairs == 0 { member.repairs.to_string() } else { "-".to_owned() },
                    took(member).map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2} s")),
                    format!("{:.2} s", member.waited.as_secs_f64()),
                    outcome_text(&member.outcome),
                ]
            }));
            rows.extend(Tidings::unserved_rows(session, self.driver.endpoint()));
            let unserved = session.unserved().len() as u64 + session.more_unserved();
            let others = if unserved > 0 { format!(", {unserved} not served") } else { String::new() };
            let outcome = format!("{verified} of {} verified{others}, {}", members.len(), Rate(goodput));
            let time = format!("{seconds:.2} s");
            // Only worth a column if somebody was waited for.
            let waited: Duration = members.iter().map(|member| member.waited).max().unwrap_or_default();
            let idle = waited.is_zero();
            let waited = format!("{:.2} s", waited.as_secs_f64());
            rows.push(vec!["all".to_owned(), bytes.to_string(), repairs.to_string(), time, waited, outcome]);
            if idle {
                rows.iter_mut().for_each(|row| _ = row.remove(WAITED_COLUMN));
            }
            print_table(&rows)?;
            if self.expected().is_null() && !members.is_empty() {
                println!("{NOBODY_EXPECTED}");
            }
            if !self.waits {
                println!("{}", waits_for_nobody(&self.args.protocol));
            }
        }
        self.tidings.took_nothing(session, self.driver.endpoint(), self.datagram);
        for line in outgoing.withdrawn() {
            say(format_args!("{line}: not delivered"));
        }
        match session.failure() {
            Some(failure) if !broken => {
                let advice = match members.is_empty() && session.unserved().is_empty() && !self.interrupted {
                    true => format!("; {}", self.tidings.nobody(self.args.ttl)),
                    false => String::new(),
                };
                say(format_args!("not delivered: {failure}{advice}"));
            }
            _ => {}
        }
        let all = outgoing.withdrawn().is_empty() && verified == members.len();
        match all && session.failure().is_none() && verified > 0 {
            true => Ok(()),
            false => Err(JobFailed.into()),
        }
    }
}

fn phase_name(phase: SenderPhase) -> &'static str {
    match phase {
        SenderPhase::Gathering => "gathering",
        SenderPhase::Assembling => "assembling",
        SenderPhase::Running => "running",
        SenderPhase::Closing => "closing",
        SenderPhase::Finished => "finished",
        SenderPhase::Aborted => "aborted",
    }
}

/// The largest datagram on loopback, whose own limit is 64 KiB: see `docs/delivery.md`.
const LOOPBACK_DATAGRAM: usize = 32 << 10;
/// Bytes under way, at most.
const WINDOW_BYTES: usize = 2 << 20;
/// No turn waits longer, so that signals are soon noticed.
const LONGEST_STEP: Duration = Duration::from_millis(100);
/// However short the timeout, heartbeats are no more frequent.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(20);
/// Where the report tells how long each was waited for.
const WAITED_COLUMN: usize = 4;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
const SCREEN_INTERVAL: Duration = Duration::from_millis(100);
