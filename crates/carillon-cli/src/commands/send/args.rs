//! The arguments of `carillon send`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use carillon_core::{BitRate, DataSize, ProtocolEntry, Role, UnitError};
use carillon_session::{Gather, HelperSelection, Slow};
use carillon_transfer::files::{
    Exclude, Manifest, Selection, Symlinks, Update, check_source, shown, shown_path, split_names,
};
use carillon_transfer::plain::Framing;
use carillon_transfer::{Bound, GATHER_WAIT, History, SendOptions, hears_group};

use crate::delivery::{NetworkArgs, seconds};

/// Send files, directories or standard input to every receiver of a group.
///
/// Waits for receivers, sends, and prints a report with the outcome of each receiver: `verified` if it has
/// everything, else the reason.
///
/// Exit codes: 0 if every expected receiver is verified; 1 if one is not, or an entry of a directory was skipped; 2
/// if the command itself failed. Messages on stderr say what to do.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon send --expect web1,web2 image.iso",
    after_help = "Examples:
  carillon send image.iso                     to all receivers that are waiting
  carillon send --wait 10 image.iso           to all that join within 10 s of the first
  carillon send --expect a,b,c configs/       to exactly these, a directory with all in it
  carillon send --expect a,b --wait 5 f       without b if it joins more than 5 s after a
  carillon send --receivers 20 --rate '800 Mbit/s' image.iso
  tar c /srv | carillon send - --as srv.tar   a stream
  carillon send --protocol msaw --set timeout=20ms notes.txt
  tail -f log | carillon send - --stream      live, line by line
  tail -f log | carillon send - --stream --history '10 s'   late receivers get the last 10 s too
  feed | carillon send - --stream --unordered live, no message waits for a lost one
  carillon send --update --expect a,b site/   only what a or b is missing
  carillon send --update --delete site/       and without what is no longer here (recv --allow-delete)
  carillon send --archive --update --delete /srv   an exact copy, with owners (recv --allow-archive)
  carillon send --device /dev/sdb --receivers 20   a disk (recv --device /dev/sdb)
  carillon send --exclude '*.o' --exclude '/.git/' src   a tree without these
  find . -name '*.jpg' -print0 | carillon send --files-from - .
  carillon send --interface eth1 --ttl 4 f    by this interface, across three routers
  carillon send --datagram 1472 image.iso     no longer datagrams, whatever the network carries
  carillon send --protocol rmtp --helpers 2 f two helpers repair (`carillon relay --protocol rmtp`)
  carillon send --one-way --rate '50 Mbit/s' f over a one-way link (`carillon recv --one-way`)
  carillon send --plain --group 239.6.6.6:3055 f   to receivers of OpenPGM (`carillon recv --plain`)
  carillon send --plain --protocol flute f g       files to receivers of FLUTE
  carillon send --plain --protocol norm f g        files to receivers of NORM
  tail -f log | carillon send --plain --protocol norm --stream -   a stream of messages by NORM
  carillon send --sign-key k.pem f            signed, for `carillon recv --trust k.pub`
  carillon send --key-file key f              sealed: only members with this key can read it
  carillon send --json f | jq 'select(.event == \"report\") | .receivers, .unserved'

Many senders, with a protocol of peers:
  carillon send --protocol NAME --receivers 4 a.txt   one organises: it waits for the others
  carillon send --join b.txt                          a further sender, of files
  tail -f log | carillon send --join - --stream       or live"
)]
pub struct Args {
    /// Files and directories, or - for standard input.
    #[arg(required_unless_present_any = ["files_from", "device"], value_name = "PATH")]
    pub(in crate::commands) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(in crate::commands) network: NetworkArgs,
    /// Join a session that another sender organises, if the protocol has peers.
    #[arg(long, conflicts_with_all = [
        "protocol", "settings", "receivers", "expect", "wait", "datagram",
    ], help_heading = "Receivers")]
    pub(in crate::commands) join: bool,
    /// Send standard input as a live stream: each line at once, as one message.
    #[arg(long, conflicts_with_all = ["rename", "sign_key"], help_heading = "Content")]
    pub(in crate::commands) stream: bool,
    /// Send by the standard of the protocol alone, for programs such as OpenPGM and ZeroMQ: without receivers' names,
    /// reports and encryption. PATH is one file or -, sent as messages; with --stream each line is one. NORM and FLUTE
    /// send files by their names; NORM sends messages too, of - or with --message-bytes or --framing.
    #[arg(long, conflicts_with_all = PLAIN_CONFLICTS, help_heading = "Other programs")]
    pub(in crate::commands) plain: bool,
    /// Framing of plain messages: none, or zeromq for SUB sockets on epgm:// or norm://.
    #[arg(
        long,
        value_name = "NAME",
        requires = "plain",
        default_value = "none",
        help_heading = "Other programs"
    )]
    pub(in crate::commands) framing: Framing,
    /// Bytes of each plain message [default: what fits one packet].
    #[arg(long, value_name = "N", requires = "plain", help_heading = "Other programs")]
    pub(in crate::commands) message_bytes: Option<usize>,
    /// Keep this much of a stream, such as '64 MiB' or '30 s' (at most 256 MiB), for receivers that join late or are
    /// started again. They get the oldest message of it first. With 0 they continue from now.
    #[arg(long, value_name = "SIZE|TIME", requires = "stream", conflicts_with_all = ["join", "plain", "one_way"], help_heading = "Failure handling")]
    history: Option<History>,
    /// Deliver each message as soon as it arrives, without waiting for the repair of earlier ones (with --stream).
    #[arg(long, requires = "stream", conflicts_with = "join", help_heading = "Content")]
    unordered: bool,
    /// Sign the files with this Ed25519 key (PEM), for receivers with --trust.
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub(super) sign_key: Option<PathBuf>,
    /// Protocol; `carillon protocols` lists them.
    #[arg(
        long, value_name = "NAME", default_value = carillon_transfer::DEFAULT_PROTOCOL,
        default_value_if("plain", "true", PLAIN_PROTOCOL), help_heading = "Expert"
    )]
    pub(in crate::commands) protocol: String,
    /// Set a parameter of the protocol; `carillon protocols NAME` lists them.
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = "Expert")]
    pub(in crate::commands) settings: Vec<String>,
    /// Start when N receivers have joined, or after --wait or --join-timeout with fewer. Joined senders count too.
    #[arg(long, value_name = "N", conflicts_with = "expect", help_heading = "Receivers")]
    pub(in crate::commands) receivers: Option<usize>,
    /// Start when the receivers of these names have joined, or after --wait or --join-timeout without the missing
    /// ones. Others are refused. NAME=ADDRESS admits this receiver from this address only.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Receivers")]
    pub(in crate::commands) expect: Option<Vec<String>>,
    /// Accept routers of the protocol (`carillon relay`). Any node that claims to be one is accepted.
    #[arg(long, conflicts_with = "join", help_heading = "Helpers and routers")]
    relays: bool,
    /// Wait for this number of helpers of the protocol (`carillon relay`), or for the helpers of these names.
    #[arg(long, value_name = "N|NAMES", value_parser = helpers, conflicts_with = "join", help_heading = "Helpers and routers")]
    helpers: Option<HelperSelection>,
    /// Arrange helpers as a tree: at most N helpers below the sender and below each helper. Default: all below the
    /// sender.
    #[arg(long, value_name = "N", requires = "helpers", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Helpers and routers")]
    fanout: Option<u32>,
    /// Place each member below the nearest helper, by round-trip times measured before the start. --fanout still
    /// limits the helpers below each helper.
    #[arg(long, requires = "helpers", help_heading = "Helpers and routers")]
    nearest: bool,
    /// Place the receiver or helper NAME below HELPER. The others are distributed.
    #[arg(long, value_name = "NAME=HELPER", requires = "helpers", value_parser = under, help_heading = "Helpers and routers")]
    under: Vec<(String, String)>,
    /// Send without a return path, for receivers with `recv --one-way`. Starts after --wait. Adds 25 % repair
    /// symbols, which make up for a loss of one sixth; --set redundancy=60% makes up for a third.
    #[arg(long, requires = "rate", conflicts_with_all = ["join", "receivers", "expect", "helpers", "relays"], help_heading = "Network")]
    pub(super) one_way: bool,
    /// Start this long after the first receiver has joined [default: 2, or sooner if receivers were waiting before
    /// `send` and no further one asks to join; with --receivers or --expect: no limit but --join-timeout].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Receivers")]
    wait: Option<Duration>,
    /// Send nothing unless all receivers of --receivers or --expect, and all --helpers, have joined within
    /// --join-timeout.
    #[arg(long, conflicts_with_all = ["wait", "join", "one_way"], help_heading = "Receivers")]
    all_or_nothing: bool,
    /// Start without the receivers that have not joined within this time. Fail if none has.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "Receivers")]
    pub(in crate::commands) join_timeout: Duration,
    /// Expel a receiver that stays silent for this long, or acknowledges nothing while the sender waits for it. With
    /// --join: time without the organiser.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds, help_heading = "Failure handling")]
    pub(in crate::commands) timeout: Duration,
    /// Expel a receiver that lets less than this through over four timeouts, while the sender waits for it; 0
    /// disables it.
    #[arg(long, value_name = "BITRATE", default_value = "16 kbit/s", value_parser = optional_rate, help_heading = "Failure handling")]
    min_rate: OptionalRate,
    /// Treatment of stragglers: `lane` serves them in a catch-up session after the others, `wait` slows the transfer
    /// down to their rate, `drop` expels them.
    #[arg(long, value_name = "WHAT", default_value = "lane", help_heading = "Failure handling")]
    slow: Slow,
    /// Maximum number of catch-up sessions, for receivers that join late, fail or fall behind.
    #[arg(long, value_name = "N", default_value_t = carillon_transfer::DEFAULT_ROUNDS, help_heading = "Failure handling")]
    rounds: u32,
    /// Maximum rate, headers included, such as '100 Mbit/s'.
    #[arg(long, value_name = "BITRATE", help_heading = "Network")]
    pub(in crate::commands) rate: Option<BitRate>,
    /// Maximum rate of unicast copies for receivers that multicast does not reach (recv --from), all together; 0 sends
    /// none. Copies never slow the group: those beyond this rate are dropped and repaired.
    #[arg(long, value_name = "BITRATE", default_value = "100 Mbit/s", value_parser = optional_rate, help_heading = "Network")]
    unicast_rate: OptionalRate,
    /// Give copies to relays without the key too (relay --from). They forward what they cannot read.
    #[arg(long, requires = "key_file", help_heading = "Helpers and routers")]
    keyless_relays: bool,
    /// Maximum size of datagrams, such as 1472 or '8 KiB' [default: what the paths to all receivers carry; less on
    /// loopback].
    #[arg(long, value_name = "SIZE", value_parser = datagram, help_heading = "Network")]
    pub(in crate::commands) datagram: Option<u32>,
    /// Maximum number of hops: 1 stays on this network.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Network")]
    pub(in crate::commands) ttl: u8,
    /// Send the contents of this block device, a disk or partition, if nothing uses it. File systems that are mounted
    /// read-only may use it.
    #[arg(long, value_name = "DEV", conflicts_with_all = ["paths", "files_from", "exclude", "archive", "stream", "plain"], help_heading = "Content")]
    device: Option<PathBuf>,
    /// Name of the file at the receivers (for one file or standard input).
    #[arg(long = "as", value_name = "NAME", help_heading = "Content")]
    pub(in crate::commands) rename: Option<OsString>,
    /// Name of the job, for receivers that take part in certain jobs only (`recv --job`). It proves nothing.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["join", "plain"], help_heading = "Receivers")]
    job: Option<String>,
    /// Treatment of symbolic links in directories: `keep` sends them as links, except those that lead out of the
    /// tree; `follow` sends their targets; `skip` omits them.
    #[arg(long, value_name = "WHAT", default_value = "keep", help_heading = "Content")]
    pub(super) symlinks: Symlinks,
    /// Send owners and groups by number, all permission bits, extended attributes, ACLs, hard links, links that lead
    /// out, FIFOs and devices too. Receivers must accept it (`recv --allow-archive`).
    #[arg(long, conflicts_with_all = ["join", "stream", "plain"], help_heading = "Content")]
    archive: bool,
    /// Leave out entries that match PATTERN, as in a .gitignore file of each directory that is sent. Can be given
    /// several times; the last pattern that matches decides.
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["stream", "plain"], help_heading = "Content")]
    exclude: Vec<String>,
    /// Send the entries named in FILE, or - for standard input, instead of everything below PATH [default: the working
    /// directory]. One name a line, or names that end in NUL as of `find -print0`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stream", "plain", "rename"], help_heading = "Content")]
    files_from: Option<PathBuf>,
    /// Send only what a receiver is missing: files of another size or time, and of large files the 4 MiB parts that
    /// differ. Receivers that may not replace files (`recv --overwrite`) still refuse changed ones.
    #[arg(long, conflicts_with_all = ["join", "stream", "one_way", "plain"], help_heading = "Updates")]
    update: bool,
    /// Compare files by digest, not by size and time.
    #[arg(long, requires = "update", help_heading = "Updates")]
    checksum: bool,
    /// Delete what receivers have beyond the directories that are sent, once everything else has arrived. Receivers
    /// must permit it (`recv --allow-delete`), and keep entries that match --exclude.
    #[arg(long, requires = "update", conflicts_with = "files_from", help_heading = "Updates")]
    delete: bool,
    /// Let receivers fail, and change nothing, that would delete more than N entries.
    #[arg(long, value_name = "N", requires = "delete", help_heading = "Updates")]
    max_delete: Option<u64>,
    /// Show what would be sent to which receiver, and send nothing.
    #[arg(long, requires = "update", help_heading = "Updates")]
    pub(super) dry_run: bool,
    /// Send nothing unless every entry of the directories can be sent.
    #[arg(long, help_heading = "Content")]
    pub(super) strict: bool,
}

/// Parses a number of helpers, or their names.
fn helpers(text: &str) -> Result<HelperSelection, String> {
    if let Ok(count) = text.trim().parse::<usize>() {
        return Ok(HelperSelection::Count(count));
    }
    let names: BTreeSet<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    match names.iter().any(String::is_empty) {
        true => Err("expected a number, or names with commas between them".to_owned()),
        false => Ok(HelperSelection::Names(names)),
    }
}

/// Parses the place of a member below a helper.
fn under(text: &str) -> Result<(String, String), String> {
    let (member, helper) = text.split_once('=').ok_or("expected NAME=HELPER, such as alice=h1")?;
    Ok((member.trim().to_owned(), helper.trim().to_owned()))
}

/// A rate; `None` for 0.
#[derive(Clone, Copy, Debug)]
struct OptionalRate(Option<BitRate>);

fn optional_rate(text: &str) -> Result<OptionalRate, String> {
    match text.trim() {
        "0" => Ok(OptionalRate(None)),
        text => {
            text.parse().map(|rate| OptionalRate(Some(rate))).map_err(|error: UnitError| error.to_string())
        }
    }
}

/// Parses a size of datagrams: at least [`MIN_DATAGRAM`]; a number without a unit is in bytes.
fn datagram(text: &str) -> Result<u32, String> {
    let bytes = match text.trim().parse::<u64>() {
        Ok(bytes) => bytes,
        Err(_) => text.parse::<DataSize>().map_err(|error| error.to_string())?.0,
    };
    let fits = u32::try_from(bytes).ok().filter(|&bytes| bytes >= MIN_DATAGRAM);
    fits.ok_or_else(|| format!("a datagram has {MIN_DATAGRAM} bytes at least, and 4 GiB at most"))
}

/// Options that need the session of Carillon.
const PLAIN_CONFLICTS: [&str; 15] = [
    "join",
    "one_way",
    "receivers",
    "expect",
    "wait",
    "all_or_nothing",
    "relays",
    "helpers",
    "sign_key",
    "rename",
    "unordered",
    "key_file",
    "raw_ip",
    "strict",
    "name",
];
/// Default protocol of plain sessions.
pub(in crate::commands) const PLAIN_PROTOCOL: &str = "pgm";
/// Size that every IPv4 network carries, in bytes (RFC 791).
const MIN_DATAGRAM: u32 = 576;

impl Args {
    /// Returns true if no number or list of receivers is given.
    pub fn is_open(&self) -> bool {
        self.receivers.is_none() && self.expect.is_none() && !self.one_way
    }

    /// Entries to send.
    pub(super) fn manifest(&self) -> anyhow::Result<Manifest> {
        if self.rename.is_some() && self.paths.len() > 1 {
            bail!("--as names one file, but {} paths were given", self.paths.len());
        }
        let exclude = Exclude::new(&self.exclude)
            .map_err(|error| anyhow!("--exclude: {}", shown(&error.to_string())))?;
        let names = self.files_from.as_deref().map(read_names).transpose()?;
        if let Some(device) = &self.device {
            check_source(device)?;
        }
        let mut paths: Vec<PathBuf> = self.paths.iter().chain(&self.device).cloned().collect();
        if names.is_some() && paths.is_empty() {
            paths.push(".".into());
        }
        let (rename, symlinks, archive) = (self.rename.clone(), self.symlinks, self.archive);
        let selection = Selection { rename, symlinks, exclude, names, archive };
        Ok(Manifest::list(&paths, &selection)?)
    }

    /// Opens the sockets of a transfer.
    pub(in crate::commands) fn open(&self, protocol: &ProtocolEntry) -> anyhow::Result<Bound> {
        // One-way senders learn of no receiver.
        let unicast_rate = self.unicast_rate.0.filter(|_| !self.one_way);
        self.network.open_sender(
            hears_group(protocol),
            self.ttl,
            self.rate,
            unicast_rate,
            self.keyless_relays,
        )
    }

    /// Applies the arguments to the options of a transfer.
    pub(in crate::commands) fn add_to(
        &self,
        options: &mut SendOptions,
        protocol: &ProtocolEntry,
    ) -> anyhow::Result<()> {
        options.timeout = self.timeout;
        options.min_rate = self.min_rate.0;
        options.settings.extend(settings_of(&self.settings)?);
        if self.unordered {
            let Some((key, value)) = protocol.delivery.unordered_with else {
                bail!("--unordered: the protocol \"{}\" delivers in order, always", protocol.name);
            };
            options.settings.push((key.to_owned(), value.to_owned()));
        }
        options.gather = match (&self.receivers, &self.expect) {
            (Some(count), _) => Gather::Count(*count),
            (None, Some(names)) => {
                let mut expected = BTreeSet::new();
                for name in names {
                    let (name, host) = expected_receiver(name)?;
                    options.hosts.extend(host.map(|host| (name.clone(), host)));
                    expected.insert(name);
                }
                Gather::Names(expected)
            }
            (None, None) => self.wait.map_or(Gather::Quiet(GATHER_WAIT), Gather::Settle),
        };
        if self.all_or_nothing && self.receivers.is_none() && self.expect.is_none() {
            bail!("--all-or-nothing: name the receivers to wait for with --receivers N or --expect NAMES");
        }
        options.wait = self.wait;
        options.all_or_nothing = self.all_or_nothing;
        if let (true, Some(rate)) = (self.one_way, self.rate) {
            options.go_one_way(rate, self.wait.unwrap_or(GATHER_WAIT))?;
        }
        options.helpers.relays = self.relays;
        if self.relays && !protocol.roles.contains(&Role::Relay) {
            bail!("--relays: routers cannot help the protocol \"{}\"", protocol.name);
        }
        options.helpers.wanted = self.helpers.clone().unwrap_or(HelperSelection::Nobody);
        options.helpers.fanout = self.fanout.map(|fanout| fanout as usize);
        options.helpers.nearest = self.nearest;
        options.helpers.under = self.under.iter().cloned().collect();
        options.join_timeout = self.join_timeout;
        options.slow = self.slow;
        options.rounds = self.rounds;
        options.history = self.stream.then(|| self.history.unwrap_or(History::EMPTY));
        options.update = self.update.then_some(Update {
            checksum: self.checksum,
            dry_run: self.dry_run,
            delete: self.delete,
            max_delete: self.max_delete,
        });
        if self.update && self.paths.iter().any(|path| path.as_os_str() == "-") {
            bail!("--update: the standard input cannot be compared with what receivers have");
        }
        options.job_name = self.job.clone();
        options.rate = self.rate;
        options.datagram = self.datagram;
        Ok(())
    }
}

/// Reads the names of --files-from.
fn read_names(path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let read = match path.as_os_str() == "-" {
        true => {
            let mut list = Vec::new();
            std::io::stdin().lock().read_to_end(&mut list).map(|_| list)
        }
        false => std::fs::read(path),
    };
    let list = read.with_context(|| format!("--files-from {}: cannot be read", shown_path(path)))?;
    Ok(split_names(&list))
}

/// Parses the parameters of --set.
pub(in crate::commands) fn settings_of(settings: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let parse = |setting: &String| match setting.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => bail!("--set {setting}: expected KEY=VALUE, such as window=64"),
    };
    settings.iter().map(parse).collect()
}

/// Parses an expected receiver: its name and, after `=`, the only address that it may join from.
fn expected_receiver(text: &str) -> anyhow::Result<(String, Option<IpAddr>)> {
    match text.split_once('=') {
        None => Ok((text.trim().to_owned(), None)),
        Some((name, host)) => {
            let host = host.trim().parse().with_context(|| format!("--expect {text}: an IP address"))?;
            Ok((name.trim().to_owned(), Some(host)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_have_a_size_with_its_unit_or_a_number_of_bytes() {
        assert_eq!(datagram("1472"), Ok(1472));
        assert_eq!(datagram(" 8 KiB "), Ok(8192));
        for bad in ["575", "0", "-1", "9 GB", "8 kilo", "", "1.5"] {
            assert!(datagram(bad).is_err(), "{bad}");
        }
    }
}
