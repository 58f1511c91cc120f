//! `carillon recv`: receive files.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use carillon_net::{Driver, GROUP};
use carillon_proto::REGISTRY;
use carillon_proto::session::{
    LOCAL_NODE, ReceiverFailure, ReceiverPhase, ReceiverSession, ReceiverSessionConfig, RefuseReason,
};
use carillon_transfer::files::{Incoming, Live, Output, Problem, Sink, Target, shown};
use indicatif::ProgressBar;
use serde_json::json;

use crate::delivery::{
    Human, Lines, NetworkArgs, Patience, Rate, Stop, Ticker, Watch, bar, bar_style, is_text_terminal,
    keep_peers, print_json, random, say, seconds, step,
};
use crate::exit::JobFailed;

/// Receive the files that a sender delivers to the group.
///
/// Waits for a sender, receives one transfer, and says what came. Files have temporary names until
/// they are complete and verified. Exits with 0 if everything came, with 1 if the transfer failed,
/// with 2 if the trouble is here: the disk, the files, the network.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  carillon recv                               one transfer, into this directory
  carillon recv --out /srv --keep-going       one after the other, until interrupted
  carillon recv --name b --overwrite          known to the sender as b
  carillon recv --stdout | tar x              what the sender reads from `tar c`
  carillon recv --stream                      live: the lines of all senders, in one order
  carillon recv --interface eth1 --group 239.1.2.3:4567
  carillon recv --interface eth0 --group '[ff02::1:2]:4567'   groups of the link need an interface
  carillon recv --drop 0.02 --seed 7          as if the network lost every fiftieth datagram")]
pub struct Args {
    #[command(flatten)]
    network: NetworkArgs,
    /// Write files below this directory.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Wait for the next transfer after each one, whatever became of it.
    #[arg(long)]
    keep_going: bool,
    /// Replace files that exist.
    #[arg(long)]
    overwrite: bool,
    /// Write the contents of the files to the standard output.
    #[arg(long, conflicts_with_all = ["out", "overwrite", "json"])]
    stdout: bool,
    /// Write the messages of live streams to the standard output as they come.
    #[arg(long, conflicts_with_all = ["out", "overwrite", "stdout"])]
    stream: bool,
    /// Give the sender up when it has not been heard for this long.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
}

/// `carillon recv`
pub fn run(args: Args) -> anyhow::Result<()> {
    let mut sink = match args.stdout {
        _ if args.stream => Sink::Live(Live::new(Lines::new(args.network.json))),
        true => Sink::Files(Target::Output(Output::stdout())),
        false => Sink::Files(Target::directory(&args.out, args.overwrite)?),
    };
    let stop = Stop::on_signals()?;
    let (mut endpoint, mut seeds) = args.network.open(true, 1, None)?;
    let mut watch = Watch::new(args.network.trace.as_deref(), &endpoint)?;
    let mut name = args.network.name();
    let mut worst = Ok(());
    let mut patience = Patience::new(&endpoint);
    let (mut transfers, mut failed) = (0u64, 0u64);
    loop {
        let mut config = ReceiverSessionConfig::new(&name, GROUP, REGISTRY);
        config.silence = args.timeout;
        config.receive_buffer = u32::try_from(endpoint.receive_buffer()).unwrap_or(u32::MAX);
        config.max_datagram = u32::try_from(endpoint.max_datagram()).unwrap_or(u32::MAX);
        config.keep_seeking = args.keep_going;
        config.secret = Some(random()?);
        config.addresses = endpoint.addresses(LOCAL_NODE);
        let session = ReceiverSession::new(config, seeds.clone());
        let mut incoming = Incoming::new(sink);
        if args.network.json {
            incoming = incoming.keep_completed();
        }
        for line in incoming.take_notes() {
            say(line);
        }
        let driver = Driver::new(endpoint, Box::new(session), incoming, watch);
        let mut transfer =
            Transfer { driver, args: &args, bar: None, announced: false, kept: false, patience };
        let end = transfer.run(&stop)?;
        let taken = end == ReceiverPhase::Failed(refused(RefuseReason::NameTaken));
        let again = taken && args.network.name.is_none() && !args.keep_going;
        if again {
            // Another receiver on this host, as a rule.
            name = format!("{}-{}", args.network.name(), std::process::id());
        } else {
            let result = transfer.finish(&end, &stop);
            if transfer.driver.machine().association().is_some() {
                transfers += 1;
                failed += u64::from(result.is_err());
            }
            worst = worse(worst, result);
        }
        let incoming;
        patience = transfer.patience;
        (endpoint, _, incoming, watch) = transfer.driver.into_parts();
        if !again && (!args.keep_going || stop.asked()) {
            if args.keep_going {
                said_all(args.network.json, transfers, failed)?;
            }
            let traced = watch.finish();
            return worst.and(traced);
        }
        watch.restart();
        sink = match incoming.into_sink() {
            Sink::Live(live) => Sink::Live(live.again()),
            files => files,
        };
        seeds = seeds.part("next");
    }
}

/// One transfer, from waiting for it to its end.
struct Transfer<'a> {
    driver: Driver<ReceiverSession, Incoming, Watch>,
    args: &'a Args,
    bar: Option<ProgressBar>,
    /// Whether the sender was named.
    announced: bool,
    /// Whether the endpoint was told to keep the addresses of the other members.
    kept: bool,
    /// What to say when nothing happens.
    patience: Patience,
}

impl Transfer<'_> {
    /// Goes on until the session is over; returns its last phase.
    fn run(&mut self, stop: &Stop) -> anyhow::Result<ReceiverPhase> {
        if is_text_terminal() && !self.args.network.json {
            let bar = bar(None);
            bar.set_message("waiting for a sender");
            self.bar = Some(bar);
        }
        let mut ticker = Ticker::new(PROGRESS_INTERVAL);
        let mut screen = Ticker::new(SCREEN_INTERVAL);
        let mut leaving = false;
        let end = loop {
            step(&mut self.driver, LONGEST_STEP)?;
            let phase = self.driver.machine().phase();
            if matches!(phase, ReceiverPhase::Failed(_)) && !leaving {
                // The sender may still have to be told.
                step(&mut self.driver, Duration::ZERO)?;
            }
            if leaving || matches!(phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_)) {
                break phase;
            }
            let now = self.driver.now();
            if !self.kept && !self.driver.machine().peers().is_empty() {
                self.kept = true;
                keep_peers(&mut self.driver);
            }
            if stop.asked() {
                // Whether it is told the sender or not needs one more step.
                self.driver.machine_mut().leave(now, "the receiver was interrupted");
                leaving = true;
            }
            if self.args.network.json {
                self.print_news()?;
                if phase == ReceiverPhase::Running && ticker.ready(now) {
                    self.print_progress()?;
                }
            }
            if let Some(line) = self.patience.look(&mut self.driver) {
                match &self.bar {
                    Some(bar) => bar.suspend(|| say(line)),
                    None => say(line),
                }
            }
            if screen.ready(now) {
                self.show(&phase);
            }
        };
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if self.args.network.json {
            self.print_news()?;
        }
        Ok(end)
    }

    fn show(&self, phase: &ReceiverPhase) {
        let Some(bar) = &self.bar else { return };
        let incoming = self.driver.application();
        let sender = self.driver.machine().sender_name().unwrap_or("a sender");
        let message = match phase {
            ReceiverPhase::Seeking => "waiting for a sender".to_owned(),
            ReceiverPhase::Joining => format!("joining {sender}"),
            ReceiverPhase::Assembling => format!("{sender} introduces the members"),
            _ => format!("from {sender}"),
        };
        if let Some(total) = incoming.total()
            && bar.length() != Some(total)
        {
            bar.set_length(total);
            bar.set_style(bar_style(Some(total)));
        }
        bar.set_message(shown(&message).into_owned());
        bar.set_position(incoming.bytes());
    }

    /// The sender, once it is known, and each file that is complete.
    fn print_news(&mut self) -> anyhow::Result<()> {
        if !self.announced
            && let (Some(sender), Some(number)) =
                (self.driver.machine().sender_name(), self.driver.machine().member_number())
        {
            self.announced = true;
            print_json(&json!({ "event": "joined", "sender": sender, "member": number }))?;
        }
        if self.driver.application().has_completed() {
            for (sender, file) in self.driver.application_mut().take_completed() {
                let digest = file.digest.to_hex();
                print_json(&json!({
                    "event": "file", "path": file.name, "bytes": file.bytes, "blake3": digest.as_str(),
                    "sender": sender,
                }))?;
            }
        }
        Ok(())
    }

    fn print_progress(&self) -> anyhow::Result<()> {
        let incoming = self.driver.application();
        print_json(&json!({ "event": "progress", "bytes": incoming.bytes(), "total": incoming.total() }))
    }

    /// What there is of a transfer that has failed.
    fn rest(&self, files: u32, bytes: u64) -> String {
        let incoming = self.driver.application();
        match incoming.intakes().next() {
            None => String::new(),
            Some(_) if self.args.stream => String::new(),
            Some(_) => {
                let plural = if files == 1 { "" } else { "s" };
                let of = incoming.total().map_or_else(String::new, |total| format!(" of {}", Human(total)));
                format!("; {files} file{plural} complete, {}{of} received", Human(bytes))
            }
        }
    }

    /// Says how it ended.
    fn finish(&mut self, end: &ReceiverPhase, stop: &Stop) -> anyhow::Result<()> {
        let untouched = self.driver.machine().member_number().is_none();
        let result = match (self.driver.application_mut().take_result(), end) {
            (Some(result), _) => result,
            // To be interrupted while it waits is the usual end of one that keeps going.
            (None, ReceiverPhase::Failed(ReceiverFailure::Left(_)))
                if untouched && self.args.keep_going && stop.asked() =>
            {
                return Ok(());
            }
            (None, ReceiverPhase::Failed(ReceiverFailure::Left(_))) if untouched => {
                Err(Problem::Transfer("interrupted while it waited for a sender".to_owned()))
            }
            (None, ReceiverPhase::Failed(failure)) => Err(Problem::Transfer(explain(failure))),
            (None, _) => Err(Problem::Transfer("the transfer is incomplete".to_owned())),
        };
        for line in self.driver.application_mut().take_notes() {
            say(line);
        }
        let incoming = self.driver.application();
        let (files, bytes, seconds) = (incoming.files(), incoming.bytes(), incoming.seconds());
        let goodput = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let peers = self.driver.machine().peers();
        let lost: Vec<_> = peers.iter().filter_map(|peer| Some((&peer.name, peer.lost.as_ref()?))).collect();
        let live = match incoming.sink() {
            Sink::Live(live) => Some(live),
            Sink::Files(_) => None,
        };
        if self.args.network.json {
            let stats = self.driver.stats();
            let senders: Vec<_> = incoming
                .intakes()
                .map(|intake| {
                    json!({
                        "name": intake.name(),
                        "files": intake.files(),
                        "bytes": intake.bytes(),
                        "digest": live.and_then(|live| live.digest_of(intake.name())).map(hex),
                        "outcome": if let Some(Ok(())) = intake.result() { "verified" } else { "failed" },
                        "reason": intake.result().and_then(|result| result.as_ref().err()),
                    })
                })
                .collect();
            print_json(&json!({
                "event": "report",
                "outcome": if result.is_ok() { "verified" } else { "failed" },
                "reason": result.as_ref().err().map(ToString::to_string),
                "sender": self.driver.machine().sender_name(),
                "acknowledged": self.driver.machine().report_acknowledged(),
                "files": files,
                "messages": live.map(Live::messages),
                "digest": live.map(|live| hex(live.digest())),
                "senders": senders,
                "lost": lost.iter().map(|(name, reason)| json!({ "name": name, "reason": reason })).collect::<Vec<_>>(),
                "bytes": bytes,
                "seconds": seconds,
                "goodput_bps": goodput,
                "datagrams_received": stats.datagrams_received,
                "injected_drops": stats.injected_drops,
                "kernel_drops": self.driver.endpoint().kernel_drops(),
            }))?;
        }
        if !self.args.network.json {
            for (name, reason) in lost {
                say(format_args!("{name} is gone: {reason}"));
            }
        }
        if let Some(live) = live {
            let (messages, digest) = (live.messages(), live.digest());
            eprintln!("received {messages} messages, digest of their order {digest}");
        }
        match result {
            Ok(()) => {
                if !self.args.network.json && !self.args.stdout && !self.args.stream {
                    let plural = if files == 1 { "" } else { "s" };
                    println!(
                        "received {files} file{plural}, {} in {seconds:.2} s, verified ({})",
                        Human(bytes),
                        Rate(goodput)
                    );
                }
                Ok(())
            }
            Err(Problem::Transfer(reason)) => {
                say(format_args!("{reason}{}", self.rest(files, bytes)));
                Err(JobFailed.into())
            }
            Err(Problem::Local(error)) if self.args.keep_going => {
                say(format_args!("{error:#}"));
                Err(anyhow!("not every transfer could be written: see above"))
            }
            Err(Problem::Local(error)) => Err(error),
        }
    }
}

/// The end of a receiver that took one transfer after the other.
fn said_all(json: bool, transfers: u64, failed: u64) -> anyhow::Result<()> {
    if json {
        return print_json(&json!({ "event": "end", "transfers": transfers, "failed": failed }));
    }
    let plural = if transfers == 1 { "" } else { "s" };
    say(format_args!("interrupted after {transfers} transfer{plural}, {failed} of them failed"));
    Ok(())
}

/// A failure and what to do about it.
fn explain(failure: &ReceiverFailure) -> String {
    let advice = match failure {
        ReceiverFailure::Refused(RefuseReason::AlreadyStarted, _) => {
            ": start receivers before the sender, or with --keep-going for the next transfer"
        }
        ReceiverFailure::Refused(RefuseReason::NameTaken, _) => ": choose another --name",
        ReceiverFailure::Refused(RefuseReason::NotExpected, _) => ": choose a --name that it does expect",
        ReceiverFailure::SenderSilent => ": is it still running, and the network between?",
        ReceiverFailure::Refused(RefuseReason::Full, _) => ": use another --group for some of the receivers",
        ReceiverFailure::Refused(RefuseReason::Expelled, _) | ReceiverFailure::Expelled => {
            ": too slow, or not heard; see the sender's report and its --timeout"
        }
        ReceiverFailure::Left(reason) => return reason.clone(),
        _ => "",
    };
    format!("{failure}{advice}")
}

fn hex(digest: blake3::Hash) -> String {
    digest.to_string()
}

fn refused(reason: RefuseReason) -> ReceiverFailure {
    ReceiverFailure::Refused(reason, String::new())
}

/// The more serious of two results: an error of this receiver's own before a failed transfer.
fn worse(one: anyhow::Result<()>, other: anyhow::Result<()>) -> anyhow::Result<()> {
    match (&one, &other) {
        (_, Ok(())) => one,
        (Err(error), _) if !error.is::<JobFailed>() => one,
        _ => other,
    }
}

/// No turn waits longer, so that signals are soon noticed.
const LONGEST_STEP: Duration = Duration::from_millis(100);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
const SCREEN_INTERVAL: Duration = Duration::from_millis(100);
