//! `carillon recv`: receive files.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use carillon_session::{ReceiverFailure, ReceiverPhase};
use carillon_transfer::files::{Accepted, Live, Output, Sink, Target};
use carillon_transfer::monitor::Monitor;
use carillon_transfer::plain::Framing;
use carillon_transfer::run_loop::{RunControl, run_to_end};
use carillon_transfer::{
    Bound, FileOptions, Finish, Follower, Network, NetworkChange, ReceiveOptions, ReceiveRun, Trust,
    VerifyingKey,
};
use clap::builder::NonEmptyStringValueParser;
use indicatif::ProgressBar;

mod exec;
mod from;
mod keys;
mod output;
mod result;

use exec::Exec;
use from::Senders;
use keys::{default_history, trusted};
use output::{Names, note_files, print_news, print_progress, said_all, say_progress, show};

use super::plain;
use super::send::PLAIN_PROTOCOL;
use crate::delivery::{
    EndpointContext, Human, Lines, NetworkArgs, PlainProgress, SpaceCheck, Stop, Ticker, WaitNotices, Watch,
    bar as new_bar, change_text, enable_timestamps, host, is_text_terminal, notice, open_service, record,
    seconds, tell_interface_changes,
};
use crate::exit::JobFailed;

/// Receive the files that a sender delivers to the group.
///
/// Waits for a sender, receives one transfer, and prints what arrived. Files have temporary names until they are
/// complete and verified.
///
/// Exit codes: 0 if everything arrived and was verified; 1 if the transfer failed; 2 if this machine failed (disk,
/// files, network).
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon recv --out incoming",
    after_help = "Examples:
  carillon recv                               one transfer, into this directory
  carillon recv --out /srv --keep-going       one after the other, until interrupted
  carillon recv --name b --overwrite          known to the sender as b
  carillon recv --from build1                 what build1 sends, whoever else sends here
  carillon recv --from 192.0.2.1              by unicast, where multicast does not arrive
  carillon recv --device /dev/sdb             a disk image, onto the disk
  carillon recv --stdout | tar x              what the sender reads from `tar c`
  carillon recv --keep-going --exec /usr/local/bin/installed   with a program after each transfer
  carillon recv --stream                      live: the lines of all senders, in one order
  carillon recv --helps --name h1             repairs for others too (send --protocol rmtp --helpers h1)
  carillon recv --one-way --keep-going        without a word to the sender (send --one-way)
  carillon recv --plain --group 239.6.6.6:3055   what programs with OpenPGM send
  carillon recv --plain --protocol flute         files that programs with FLUTE send
  carillon recv --plain --protocol norm          files and streams that programs with NORM send
  carillon recv --key-file /etc/carillon/key  only what is sealed with this key
  carillon recv --broadcast                   from `send --broadcast`, where no multicast passes
  carillon recv --interface eth1 --group 239.1.2.3:4567
  carillon recv --group 232.1.2.3:4567 --source 192.0.2.1   what this host multicasts, by source-specific multicast
  carillon recv --interface eth0 --group '[ff02::1:2]:4567'   groups of the link need an interface
  carillon recv --drop 0.02 --seed 7          as if the network lost every fiftieth datagram"
)]
pub struct Args {
    #[command(flatten)]
    pub(super) network: NetworkArgs,
    /// Directory for the received files.
    #[arg(long, value_name = "DIR", default_value = ".", help_heading = "Files")]
    pub(super) out: PathBuf,
    /// Accept senders of these names only (their --name). An address or HOST:PORT instead asks that sender for unicast
    /// copies, for networks without multicast.
    #[arg(long, value_name = "NAMES|HOST:PORT", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new(), help_heading = "Senders")]
    pub(super) from: Vec<String>,
    /// Take part only in jobs of this name (`send --job`). Can be given several times. Names can be forged; use
    /// --key-file or --trust against that.
    #[arg(long, value_name = "NAME", help_heading = "Senders")]
    job: Vec<String>,
    /// Wait for the next transfer after each one, also after failures.
    #[arg(long, help_heading = "Senders")]
    pub(super) keep_going: bool,
    /// Replace existing files.
    #[arg(long, help_heading = "Files")]
    pub(super) overwrite: bool,
    /// Replace existing files, and change those of 4 MiB and more in place instead of writing the new version beside
    /// the old one. That takes the room of one version. If the transfer fails, such a file is neither its old nor its
    /// new version: the report names it, and the next transfer repairs it, best with `send --update`.
    #[arg(long, conflicts_with_all = ["stdout", "stream"], help_heading = "Files")]
    inplace: bool,
    /// Write everything to the disk before the transfer counts as verified. Block devices at standard output always
    /// are.
    #[arg(long, conflicts_with = "stream", help_heading = "Files")]
    sync: bool,
    /// Run CMD after each transfer, once per job, without a shell. Its failure fails the transfer. What arrived is in
    /// its environment (CARILLON_RESULT, CARILLON_SENDER and others), and the digests and names of files on its
    /// standard input.
    #[arg(long, value_name = "CMD", conflicts_with = "stream", help_heading = "Files")]
    exec: Option<String>,
    /// Kill the command of --exec after this time. The sender waits for 12 of its --timeout.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds, requires = "exec", help_heading = "Files")]
    exec_timeout: Duration,
    /// Let senders delete what they do not have, below the directories that they send (`send --delete`). Others that
    /// want to are declined.
    #[arg(long, conflicts_with_all = ["stdout", "stream"], help_heading = "Files")]
    allow_delete: bool,
    /// Accept owners, permissions, attributes and special entries (`send --archive`). `ordinary`, the default, leaves
    /// out what gives rights: set-user-id files, devices, file capabilities; `privileged` accepts them too. Without
    /// this option such senders are declined.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "ordinary", conflicts_with_all = ["stdout", "stream"], help_heading = "Files")]
    allow_archive: Option<Accepted>,
    /// Write the contents of a single file to this block device, from its beginning on. The device must not be in use.
    /// Everything is on it when the transfer counts as verified.
    #[arg(long, value_name = "DEV", conflicts_with_all = ["out", "overwrite", "inplace", "stdout", "stream", "allow_delete", "allow_archive"], help_heading = "Files")]
    device: Option<PathBuf>,
    /// Write the contents of the files to standard output.
    #[arg(long, conflicts_with_all = ["out", "overwrite", "json"], help_heading = "Files")]
    pub(super) stdout: bool,
    /// Write the messages of live streams to standard output as they arrive.
    #[arg(long, conflicts_with_all = ["out", "overwrite", "stdout"], help_heading = "Files")]
    stream: bool,
    /// Accept only files signed with the key of this public key (PEM, or base64). Can be given several times.
    #[arg(long, value_name = "FILE|KEY", value_parser = trusted, conflicts_with = "stream", help_heading = "Security")]
    trust: Vec<VerifyingKey>,
    /// File that remembers the signing times of accepted transfers, so that older ones of the same name are refused
    /// [default: carillon/accepted in $STATE_DIRECTORY, $XDG_STATE_HOME, ~/.local/state or /var/lib].
    #[arg(long, value_name = "FILE", requires = "trust", help_heading = "Security")]
    trust_history: Option<PathBuf>,
    /// Accept transfers that are older than the last accepted one.
    #[arg(long, requires = "trust", help_heading = "Security")]
    allow_older: bool,
    /// Send repairs to other receivers too, if the protocol has helpers and the sender admits this one (send
    /// --helpers).
    #[arg(long, conflicts_with = "stream", help_heading = "Expert")]
    helps: bool,
    /// Send nothing at all, for links without a return path (send --one-way). The first sender is accepted; use
    /// --trust against others.
    #[arg(long, conflicts_with = "helps", help_heading = "Network")]
    one_way: bool,
    /// Receive from senders of the protocol's standard alone (OpenPGM, ZeroMQ, `send --plain`), each into a file of
    /// its own. --from has their addresses.
    #[arg(long, conflicts_with_all = PLAIN_CONFLICTS, help_heading = "Other programs")]
    pub(super) plain: bool,
    /// Framing of plain messages: none, or zeromq for PUB sockets on epgm:// or norm://.
    #[arg(
        long,
        value_name = "NAME",
        requires = "plain",
        default_value = "none",
        help_heading = "Other programs"
    )]
    pub(super) framing: Framing,
    /// Protocol of plain senders; other senders name theirs.
    #[arg(long, value_name = "NAME", requires = "plain", default_value = PLAIN_PROTOCOL, help_heading = "Other programs")]
    pub(super) protocol: String,
    /// Set a parameter of the protocol of plain senders.
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "plain", help_heading = "Other programs")]
    pub(super) settings: Vec<String>,
    /// Fail if the sender stays silent for this long [default: 5; with --plain: 60].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Failure handling")]
    pub(super) timeout: Option<Duration>,
}

/// `carillon recv`
pub fn run(args: Args) -> anyhow::Result<()> {
    if args.plain {
        return plain::recv(&args);
    }
    let exec = match &args.exec {
        Some(command) => Some(Arc::new(Exec::new(command, args.exec_timeout, args.place().to_owned())?)),
        None => None,
    };
    // Signals are caught first: from the first file on, an interrupted receiver leaves no incomplete files.
    let stop = Stop::on_signals()?;
    let mut sink = sink(&args)?;
    if args.keep_going {
        enable_timestamps();
    }
    let senders = Senders::parse(&args.from, args.network.group())?;
    let (network, bound) = open(&args, senders.host, &stop)?;
    let Some(bound) = bound else { return said_all(args.network.json, 0, 0) };
    args.network.remark(&bound);
    EndpointContext::of(&bound.endpoint).without_source().into_iter().for_each(notice);
    let Bound { mut endpoint, mut seeds, .. } = bound;
    let mut follower = Follower::new(&network);
    let mut watch = Watch::new(args.network.trace.as_deref(), &endpoint)?;
    let mut numbers = args.network.numbers.serve()?;
    let mut options = options(&args, senders.names, exec.clone(), numbers.monitor())?;
    let mut name = args.network.name();
    let mut second = args.network.second_name().filter(|_| !args.keep_going);
    let mut worst = Ok(());
    let mut told_open = false;
    let mut patience = WaitNotices::new(&endpoint);
    let (mut transfers, mut failed) = (0u64, 0u64);
    loop {
        for line in sink.take_notes() {
            notice(line);
        }
        let run = options.open(&name, endpoint, &seeds, sink, watch)?;
        let mut transfer = Transfer::new(run, &args, patience, follower, told_open);
        transfer.conduct(&stop)?;
        numbers.work_is_over(&stop);
        let attempt = transfer.next_attempt(&stop, &mut second);
        let again = attempt.is_some();
        match attempt {
            Some(Attempt::Name(other)) => name = other,
            Some(Attempt::Later) => {}
            None => {
                let result = transfer.finish(&stop);
                if let Some(exec) = &exec {
                    transfer.run_after_failure(exec, &result);
                }
                if transfer.run.driver().machine().association().is_some() {
                    transfers += 1;
                    failed += u64::from(result.is_err());
                }
                worst = worse(worst, result);
            }
        }
        (patience, follower, told_open) = (transfer.patience, transfer.follower, transfer.told_open);
        options.returning = transfer.run.returning();
        options.done = transfer.run.done_jobs();
        let there;
        (endpoint, watch, there) = transfer.run.into_parts();
        let Some(place) = there else { return worst };
        sink = place;
        if !again && (!args.keep_going || stop.asked()) {
            if args.keep_going {
                said_all(args.network.json, transfers, failed)?;
            }
            let traced = watch.finish();
            numbers.linger(&stop);
            // A service that is terminated exits with 0: failed transfers were reported when they failed.
            return if args.keep_going { traced } else { worst.and(traced) };
        }
        if !again {
            sink = sink.again();
        }
        seeds = seeds.part("next");
    }
}

impl Args {
    /// Directory or device for the received data.
    fn place(&self) -> &Path {
        self.device.as_deref().unwrap_or(&self.out)
    }
}

/// Opens the sockets; none if a service is stopped before there is a network.
fn open(args: &Args, from: Option<SocketAddr>, stop: &Stop) -> anyhow::Result<(Network, Option<Bound>)> {
    if args.one_way && from.is_some() {
        bail!(
            "--one-way sends nothing, and unicast copies must be asked for: leave out the address in --from"
        );
    }
    let network = Network { service: args.keep_going, from, ..args.network.keyed_network()? };
    let bound = match args.keep_going {
        true => open_service(&network, stop, 1, None)?,
        false => Some(network.open(true, 1, None)?),
    };
    Ok((network, bound))
}

/// Destination of the received data.
fn sink(args: &Args) -> anyhow::Result<Sink> {
    Ok(match args.stdout {
        _ if args.stream => Sink::Live(Live::new(Lines::new(args.network.json))),
        true => Sink::Files(Target::Output(Output::stdout())),
        false if args.device.is_some() => Sink::Files(Target::device(args.place())?),
        false => {
            let mut target = Target::directory(&args.out, args.overwrite || args.inplace)?;
            if args.inplace {
                target.change_in_place();
            }
            Sink::Files(target)
        }
    })
}

/// Options of the receiver.
fn options(
    args: &Args,
    from: BTreeSet<String>,
    exec: Option<Arc<Exec>>,
    monitor: Option<Monitor>,
) -> anyhow::Result<ReceiveOptions> {
    let history = match &args.trust_history {
        None if args.trust.is_empty() => None,
        None => default_history(),
        path => path.clone(),
    };
    Ok(ReceiveOptions {
        monitor,
        timeout: args.timeout.unwrap_or(TIMEOUT),
        keep_seeking: args.keep_going,
        from,
        files: FileOptions {
            tell: args.network.json || args.keep_going,
            finish: exec.map(|exec| Finish::new(move |arrived| exec.arrived(arrived))),
            sync: args.sync,
            allow_delete: args.allow_delete,
            allow_archive: args.allow_archive.unwrap_or_default(),
        },
        helps: args.helps,
        trust: Trust { keys: args.trust.clone(), history, allow_older: args.allow_older },
        jobs: args.job.iter().cloned().collect(),
        one_way: args.one_way,
        process: Some(getrandom::u64().map_err(|_| anyhow!("the system gives no random numbers"))?),
        ..ReceiveOptions::default()
    })
}

/// Another attempt at the same transfer.
enum Attempt {
    /// Attempt at once, with this name.
    Name(String),
    /// Attempt in a catch-up session.
    Later,
}

/// Transfer from waiting for a sender to the report.
struct Transfer<'a> {
    run: ReceiveRun<Watch>,
    args: &'a Args,
    bar: Option<ProgressBar>,
    /// Notices for the user while no sender is active.
    patience: WaitNotices,
    /// Notice for the case that the disk is too small.
    room: SpaceCheck,
    follower: Follower,
    /// True after the endpoint moved to another interface or address: the session, or waiting for one, starts again.
    moved: bool,
    /// True after the notice that the session is open was printed; a service prints it once.
    told_open: bool,
    /// Names of complete files.
    files: Names,
    plain: PlainProgress,
}

impl<'a> Transfer<'a> {
    fn new(
        run: ReceiveRun<Watch>,
        args: &'a Args,
        patience: WaitNotices,
        follower: Follower,
        told_open: bool,
    ) -> Self {
        // Files that are changed in place have their room already.
        let takes_room = !args.stdout && !args.stream && !args.inplace && args.device.is_none();
        Transfer {
            run,
            args,
            bar: None,
            patience,
            room: SpaceCheck::new(takes_room.then_some(&args.out)),
            follower,
            moved: false,
            told_open,
            files: Names::default(),
            plain: PlainProgress::default(),
        }
    }

    /// Another attempt at the same transfer, if there is one. `second` is a name for the case that the first one is
    /// taken.
    fn next_attempt(&self, stop: &Stop, second: &mut Option<String>) -> Option<Attempt> {
        // The name is taken, usually by another receiver on this host.
        let other = second.take().filter(|_| self.run.name_is_taken());
        // A complete transfer stays complete if the sender could not be notified.
        let complete = self.run.driver().application().has_succeeded() == Some(true);
        if self.moved && !stop.asked() && !complete {
            // The session continues without this receiver; a catch-up session serves it.
            return Some(Attempt::Later);
        }
        if let Some(other) = other {
            return Some(Attempt::Name(other));
        }
        if !self.run.is_served_later() || stop.asked() {
            return None;
        }
        if self.args.stream {
            if !self.run.is_continued() {
                notice("the sender has gone on without this receiver: waiting to be admitted again");
            }
            return Some(Attempt::Later);
        }
        match self.run.returning() {
            Some(ReceiverFailure::Damaged(why)) => {
                notice(format_args!("{why}: waiting for a catch-up session to receive it again"));
            }
            _ => notice("not complete: waiting for a catch-up session"),
        }
        Some(Attempt::Later)
    }

    /// Runs the session to its end.
    fn conduct(&mut self, stop: &Stop) -> anyhow::Result<()> {
        let Transfer { run, args, bar, patience, room, follower, moved, files, plain, .. } = self;
        let json = args.network.json;
        if is_text_terminal() && !json {
            let new = new_bar(None);
            new.set_message("waiting for a sender");
            *bar = Some(new);
        }
        let mut ticker = Ticker::new(PROGRESS_INTERVAL);
        let mut screen = Ticker::new(SCREEN_INTERVAL);
        run_to_end(run, |run| -> anyhow::Result<RunControl> {
            record(run.driver_mut(), |tally| &mut tally.inner);
            tell_interface_changes(json, run.driver_mut().endpoint_mut())?;
            let now = run.driver().now();
            if json {
                print_news(run)?;
                if *run.phase() == ReceiverPhase::Running && ticker.ready(now) {
                    print_progress(run)?;
                }
            } else {
                note_files(run, files);
                if bar.is_none() && !args.stream {
                    say_progress(run, plain);
                }
            }
            for line in patience.look(run).into_iter().chain(room.look(run.driver().application())) {
                match &*bar {
                    Some(bar) => bar.suspend(|| notice(line)),
                    None => notice(line),
                }
            }
            if let Some(bar) = bar.as_ref().filter(|_| screen.ready(now)) {
                show(bar, run);
            }
            let in_session = run.driver().machine().association().is_some();
            if let Some(change) = follower.look(run.driver_mut().endpoint_mut(), in_session) {
                let line = change_text(&change, run.driver().endpoint());
                match &*bar {
                    Some(bar) => bar.suspend(|| notice(line)),
                    None => notice(line),
                }
                patience.moved(run.driver().endpoint());
                *moved |= match change {
                    NetworkChange::Absent(_) => false,
                    NetworkChange::Present => !in_session,
                    NetworkChange::Moved => true,
                };
            }
            Ok(match (stop.asked(), *moved) {
                (true, _) => RunControl::Quit("the receiver was interrupted"),
                (false, true) if in_session => RunControl::Quit("the address of this receiver has changed"),
                (false, true) => RunControl::Drop,
                (false, false) => RunControl::Continue,
            })
        })?;
        record(run.driver_mut(), |tally| &mut tally.inner);
        if let Some(bar) = bar.take() {
            bar.finish_and_clear();
        }
        if json {
            return print_news(run);
        }
        note_files(run, files);
        Ok(())
    }

    /// Start of a service's line: what arrived, and from which sender.
    fn origin(&self) -> String {
        let session = self.run.driver().machine();
        let address = session.sender_node().and_then(|node| self.run.driver().endpoint().peer(node));
        let sender = session.sender_name().map(|name| format!("from {}", host(name, address)));
        let files = Some(self.files.to_string()).filter(|names| !names.is_empty());
        [files, sender].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Summary of a failed transfer: what was received before the failure.
    fn rest(&self, files: u32, bytes: u64) -> String {
        let incoming = self.run.driver().application();
        match incoming.senders().next() {
            None => String::new(),
            Some(_) if self.args.stream => String::new(),
            Some(_) => {
                let plural = if files == 1 { "" } else { "s" };
                let of = incoming.total().map_or_else(String::new, |total| format!(" of {}", Human(total)));
                format!("; {files} file{plural} complete, {}{of} received", Human(bytes))
            }
        }
    }
}

/// Returns the more serious of two results: an error of this machine before a failed transfer.
fn worse(one: anyhow::Result<()>, other: anyhow::Result<()>) -> anyhow::Result<()> {
    match (&one, &other) {
        (_, Ok(())) => one,
        (Err(error), _) if !error.is::<JobFailed>() => one,
        _ => other,
    }
}

/// Options that need the session of Carillon.
const PLAIN_CONFLICTS: [&str; 14] = [
    "stream",
    "trust",
    "trust_history",
    "helps",
    "one_way",
    "key_file",
    "raw_ip",
    "exec",
    "sync",
    "inplace",
    "device",
    "allow_delete",
    "allow_archive",
    "job",
];
/// Default silence of a sender after which a receiver fails.
const TIMEOUT: Duration = Duration::from_secs(5);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
const SCREEN_INTERVAL: Duration = Duration::from_millis(100);
