//! The arguments of `carillon send`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use carillon_core::{ProtocolEntry, Role};
use carillon_session::{Gather, HelperSelection};
use carillon_transfer::files::{
    Exclude, Manifest, Selection, Symlinks, Update, check_source, shown, shown_path, split_names,
};
use carillon_transfer::options::Settings;
use carillon_transfer::plain::Framing;
use carillon_transfer::{Bound, GATHER_WAIT, History, SendOptions, hears_group};

use crate::delivery::{NetworkArgs, OptionArgs, SendersOnly, seconds};

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
    /// ones. Others are refused. NAME=ADDRESS admits this receiver from this address only. With --plain and NORM: the
    /// node identifiers of receivers that are to confirm everything.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Receivers")]
    pub(in crate::commands) expect: Option<Vec<String>>,
    /// Wait for this number of helpers of the protocol (`carillon relay`), or for the helpers of these names.
    #[arg(long, value_name = "N|NAMES", value_parser = helpers, conflicts_with = "join", help_heading = "Helpers and routers")]
    helpers: Option<HelperSelection>,
    /// Send without a return path, for receivers with `recv --one-way`. Starts after --wait. Adds 25 % repair
    /// symbols, which make up for a loss of one sixth; --set redundancy=60% makes up for a third.
    #[arg(long, requires = "rate", conflicts_with_all = ["join", "receivers", "expect", "helpers", "relays"], help_heading = "Network")]
    pub(super) one_way: bool,
    /// Start this long after the first receiver has joined [default: 2, or sooner if receivers were waiting before
    /// `send` and no further one asks to join; with --receivers or --expect: no limit but --join-timeout].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Receivers")]
    wait: Option<Duration>,
    #[command(flatten)]
    options: OptionArgs<SendersOnly>,
    /// Send the contents of this block device, a disk or partition, if nothing uses it. File systems that are mounted
    /// read-only may use it.
    #[arg(long, value_name = "DEV", conflicts_with_all = ["paths", "files_from", "exclude", "archive", "stream", "plain"], help_heading = "Content")]
    device: Option<PathBuf>,
    /// Name of the file at the receivers (for one file or standard input).
    #[arg(long = "as", value_name = "NAME", help_heading = "Content")]
    pub(in crate::commands) rename: Option<OsString>,
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

/// Options that need the session of Carillon.
const PLAIN_CONFLICTS: [&str; 14] = [
    "join",
    "one_way",
    "receivers",
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
        let Settings { mut network, send, hops } = self.settings();
        // One-way senders learn of no receiver.
        network.unicast_rate = network.unicast_rate.filter(|_| !self.one_way);
        self.network.open_sender(network, hears_group(protocol), hops, send.rate)
    }

    /// Returns the settings that options of the table make, without the key.
    pub(in crate::commands) fn settings(&self) -> Settings {
        let mut settings = self.network.settings();
        self.options.apply(&mut settings);
        settings
    }

    /// Applies the arguments that are no options of the table to the options of a transfer.
    pub(in crate::commands) fn add_to(
        &self,
        options: &mut SendOptions,
        protocol: &ProtocolEntry,
    ) -> anyhow::Result<()> {
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
        if options.all_or_nothing && self.receivers.is_none() && self.expect.is_none() {
            bail!("--all-or-nothing: name the receivers to wait for with --receivers N or --expect NAMES");
        }
        options.wait = self.wait;
        if let (true, Some(rate)) = (self.one_way, options.rate) {
            options.go_one_way(rate, self.wait.unwrap_or(GATHER_WAIT))?;
        }
        if options.helpers.relays && !protocol.roles.contains(&Role::Relay) {
            bail!("--relays: routers cannot help the protocol \"{}\"", protocol.name);
        }
        options.helpers.wanted = self.helpers.clone().unwrap_or(HelperSelection::Nobody);
        options.history = self.stream.then(|| options.history.unwrap_or(History::EMPTY));
        options.update = self.update.then_some(Update {
            checksum: self.checksum,
            dry_run: self.dry_run,
            delete: self.delete,
            max_delete: self.max_delete,
        });
        if self.update && self.paths.iter().any(|path| path.as_os_str() == "-") {
            bail!("--update: the standard input cannot be compared with what receivers have");
        }
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
