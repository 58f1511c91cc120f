//! The arguments of `carillon send`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use carillon_core::{BitRate, DataSize, ProtocolEntry, Role, UnitError};
use carillon_proto::session::{Gather, Helping, Slow};
use carillon_transfer::SendOptions;
use carillon_transfer::files::Symlinks;

use crate::delivery::{NetworkArgs, seconds};

/// Send files, directories or the standard input to every receiver of a group.
///
/// Waits for receivers, sends, and then says of every single one whether it has all of it,
/// verified, or why not. Exits with 0 if all have, with 1 if one has not or an entry of a directory was skipped, with 2 if the
/// trouble is here.
/// Who is not served, and what else is wrong, is said on stderr in a line that says what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  carillon send image.iso                     to all who join within 2 s of the first
  carillon send --expect a,b,c configs/       to exactly these, a directory with all in it
  carillon send --expect a,b --wait 5 f       without b if it joins more than 5 s after a
  carillon send --receivers 20 --rate '800 Mbit/s' image.iso
  tar c /srv | carillon send - --as srv.tar   a stream
  carillon send --protocol msaw --set timeout=20ms notes.txt
  tail -f log | carillon send - --stream      live, line by line
  feed | carillon send - --stream --unordered live, no message waits for a lost one
  carillon send --interface eth1 --ttl 4 f    by this interface, across three routers
  carillon send --datagram 1472 image.iso     no longer datagrams, whatever the network carries
  carillon send --protocol rmtp --helpers 2 f two helpers repair (`carillon relay --protocol rmtp`)
  carillon send --one-way --rate '50 Mbit/s' f where nobody can answer (`carillon recv --one-way`)
  carillon send --sign-key k.pem f            signed, for `carillon recv --trust k.pub`
  carillon send --key-file key f              sealed: to those alone who have the key
  carillon send --json f | jq 'select(.event == \"report\") | .receivers, .unserved'

Many senders, with a protocol of peers:
  carillon send --protocol NAME --receivers 4 a.txt   one organises: it waits for the others
  carillon send --join b.txt                          a further sender, of files
  tail -f log | carillon send --join - --stream       or live")]
pub struct Args {
    /// Files and directories, or - for the standard input.
    #[arg(required = true, value_name = "PATH")]
    pub(in crate::commands) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(in crate::commands) network: NetworkArgs,
    /// Be a further sender of a session that another one organises, as its protocol allows.
    #[arg(long, conflicts_with_all = [
        "protocol", "settings", "receivers", "expect", "wait", "datagram",
    ])]
    pub(in crate::commands) join: bool,
    /// Send the standard input as a live stream: each line at once, as a message of its own.
    #[arg(long, conflicts_with_all = ["rename", "sign_key"])]
    pub(in crate::commands) stream: bool,
    /// With --stream: receivers have each message as soon as it is there, so that none waits for the repair of another.
    #[arg(long, requires = "stream", conflicts_with = "join")]
    unordered: bool,
    /// Sign the files with this Ed25519 key (PEM), for receivers that --trust its public key.
    #[arg(long, value_name = "FILE")]
    pub(super) sign_key: Option<PathBuf>,
    /// The protocol, see `carillon protocols`.
    #[arg(long, value_name = "NAME", default_value = carillon_transfer::DEFAULT_PROTOCOL)]
    pub(in crate::commands) protocol: String,
    /// Set a parameter of the protocol, see `carillon protocols NAME`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Start when this many receivers have joined, or after --wait or --join-timeout with those that have; further senders
    /// count too.
    #[arg(long, value_name = "N", conflicts_with = "expect")]
    pub(in crate::commands) receivers: Option<usize>,
    /// Start when the receivers of these names have joined, or after --wait or --join-timeout with those that have; let in
    /// no others. NAME=ADDRESS lets the receiver of this name in from this address only.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(in crate::commands) expect: Option<Vec<String>>,
    /// Let routers of the protocol help (`carillon relay`): whoever says that it is one is heard.
    #[arg(long, conflicts_with = "join")]
    relays: bool,
    /// Wait for helpers of the protocol too (`carillon relay`): so many, or those of these names.
    #[arg(long, value_name = "N|NAMES", value_parser = helpers, conflicts_with = "join")]
    helpers: Option<Helping>,
    /// So many helpers turn to this sender, and to each helper; without it all turn to this sender.
    #[arg(long, value_name = "N", requires = "helpers", value_parser = clap::value_parser!(u32).range(1..))]
    fanout: Option<u32>,
    /// Each turns to the nearest helper: before the start members measure how far they are from helpers and from this sender.
    /// With --fanout no helper has more helpers below it than that.
    #[arg(long, requires = "helpers")]
    nearest: bool,
    /// This receiver, or helper, turns to that helper; the others have the places that are left.
    #[arg(long, value_name = "NAME=HELPER", requires = "helpers", value_parser = under)]
    under: Vec<(String, String)>,
    /// Wait for nobody, where there is no way back: receivers that never say anything take it (recv --one-way). A quarter more goes out
    /// than the files, which makes up for a sixth that is lost; --set redundancy=60% for more. Starts after --wait.
    #[arg(long, requires = "rate", conflicts_with_all = ["join", "receivers", "expect", "helpers", "relays"])]
    pub(super) one_way: bool,
    /// Start this long after the first receiver has joined [default: 2; with --receivers or --expect, what --join-timeout
    /// says].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
    /// Send nothing unless all receivers of --receivers or --expect, and all --helpers, have joined within --join-timeout.
    #[arg(long, conflicts_with_all = ["wait", "join", "one_way"])]
    all_or_nothing: bool,
    /// Start without receivers that have not joined within this time; give up if none has.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(in crate::commands) join_timeout: Duration,
    /// Give a receiver up that was not heard for this long, or is waited for and acknowledges nothing;
    /// with --join, the one who organises.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(in crate::commands) timeout: Duration,
    /// Give a receiver up that the sender waits for most of the time and that lets less than this through
    /// over four timeouts; 0 for none.
    #[arg(long, value_name = "BITRATE", default_value = "16 kbit/s", value_parser = least_rate)]
    min_rate: Least,
    /// Receivers that keep the others waiting: `wait` for them, serve them in a `lane` of their own, which is a further session
    /// once the others have everything, or `drop` them.
    #[arg(long, value_name = "WHAT", default_value = "lane")]
    slow: Slow,
    /// Serve those who come late, or are given up and heard again, in so many further sessions at most.
    #[arg(long, value_name = "N", default_value_t = carillon_transfer::DEFAULT_ROUNDS)]
    rounds: u32,
    /// Send at most this fast, headers included, such as '100 Mbit/s'.
    #[arg(long, value_name = "BITRATE")]
    pub(in crate::commands) rate: Option<BitRate>,
    /// Send datagrams of at most this size, such as 1472 or '8 KiB' [default: as much as the interface carries in one
    /// piece and comes to all receivers, less on loopback].
    #[arg(long, value_name = "SIZE", value_parser = datagram)]
    datagram: Option<u32>,
    /// Router hops the datagrams may travel: 1 stays on this network.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(in crate::commands) ttl: u8,
    /// The name the one file, or the standard input, has at the receivers.
    #[arg(long = "as", value_name = "NAME")]
    pub(in crate::commands) rename: Option<OsString>,
    /// Symbolic links in directories: `keep` them as links, except those that lead out of the tree; `follow` them; or `skip` them.
    #[arg(long, value_name = "WHAT", default_value = "keep")]
    pub(super) symlinks: Symlinks,
    /// Send nothing unless every entry of the directories can be sent.
    #[arg(long)]
    pub(super) strict: bool,
}

/// How many, or who.
fn helpers(text: &str) -> Result<Helping, String> {
    if let Ok(count) = text.trim().parse::<usize>() {
        return Ok(Helping::Count(count));
    }
    let names: BTreeSet<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    match names.iter().any(String::is_empty) {
        true => Err("expected a number, or names with commas between them".to_owned()),
        false => Ok(Helping::Names(names)),
    }
}

/// Who turns to whom.
fn under(text: &str) -> Result<(String, String), String> {
    let (member, helper) = text.split_once('=').ok_or("expected NAME=HELPER, such as alice=h1")?;
    Ok((member.trim().to_owned(), helper.trim().to_owned()))
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

/// The least datagram that every network carries, or more; a number alone is of bytes.
fn datagram(text: &str) -> Result<u32, String> {
    let bytes = match text.trim().parse::<u64>() {
        Ok(bytes) => bytes,
        Err(_) => text.parse::<DataSize>().map_err(|error| error.to_string())?.0,
    };
    let fits = u32::try_from(bytes).ok().filter(|&bytes| bytes >= LEAST_DATAGRAM);
    fits.ok_or_else(|| format!("a datagram has {LEAST_DATAGRAM} bytes at least, and 4 GiB at most"))
}

/// Time for further receivers to join after the first, where none is expected.
const SETTLE: Duration = Duration::from_secs(2);
/// What every IPv4 network carries (RFC 791).
const LEAST_DATAGRAM: u32 = 576;

impl Args {
    /// How it is to be sent.
    pub(in crate::commands) fn add_to(
        &self,
        options: &mut SendOptions,
        protocol: &ProtocolEntry,
    ) -> anyhow::Result<()> {
        options.timeout = self.timeout;
        options.min_rate = self.min_rate.0;
        for setting in &self.settings {
            let Some((key, value)) = setting.split_once('=') else {
                bail!("--set {setting}: expected KEY=VALUE, such as window=64");
            };
            options.settings.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        if self.unordered {
            let Some((key, value)) = protocol.unordered_with else {
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
            (None, None) => Gather::Settle(self.wait.unwrap_or(SETTLE)),
        };
        if self.all_or_nothing && self.receivers.is_none() && self.expect.is_none() {
            bail!("--all-or-nothing: say whom to wait for, with --receivers N or --expect NAMES");
        }
        options.wait = self.wait;
        options.all_or_nothing = self.all_or_nothing;
        if let (true, Some(rate)) = (self.one_way, self.rate) {
            options.go_one_way(rate, self.wait.unwrap_or(SETTLE))?;
        }
        options.relays = self.relays;
        if self.relays && !protocol.roles.contains(&Role::Relay) {
            bail!("--relays: the protocol \"{}\" has no routers that help", protocol.name);
        }
        options.helping = self.helpers.clone().unwrap_or(Helping::Nobody);
        options.fanout = self.fanout.map(|fanout| fanout as usize);
        options.nearest = self.nearest;
        options.under = self.under.iter().cloned().collect();
        options.join_timeout = self.join_timeout;
        options.slow = self.slow;
        options.rounds = self.rounds;
        options.rate = self.rate;
        options.datagram = self.datagram;
        Ok(())
    }
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
