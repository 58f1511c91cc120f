//! The options, in the order of the daemon's fields.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use carillon_core::{BitRate, Probability};
use carillon_session::{Gather, HelperSelection};

use super::Scope::{Join, Recv, Relay, Send, Socket};
use super::values::{Value, datagram, flag, is_set, optional, ranged, rate_or_zero, value};
use super::{Access, Kind, Notation, OptionEntry, Scope, Settings};
use crate::network::{DEFAULT_GROUP, DEFAULT_UNICAST_RATE};

/// Access to the condition for the start of a sender, of this variant.
macro_rules! gather {
    ($variant:ident, $name:literal) => {
        Access {
            set: |settings, text, notation| {
                settings.send.gather = Gather::$variant(Value::parse(text, notation)?);
                Ok(())
            },
            values: |settings| gathering(settings, $name),
        }
    };
}

/// Options of all ends. A new option is a field of [`Settings`] and a row of this table.
pub static OPTIONS: &[OptionEntry] = &[
    OptionEntry::new(
        "group",
        Kind::new("ADDR:PORT", "address and port, such as `239.1.2.3:4567`"),
        value!(network.group),
        EVERY_END,
        "Multicast group and UDP port, such as `239.1.2.3:4567` or `[ff02::1:2]:4567`.",
    )
    .default(DEFAULT_GROUP)
    .argument("group", NETWORK),
    OptionEntry::new(
        "interface",
        Kind::new("NAME|ADDR", "name or address; several are separated by commas"),
        Access { set: add_interface, ..optional!(network.interface) },
        EVERY_END,
        "Network interface, by name or address [default: the one that the route to the group selects, else \
         loopback]. Can be given several times: this machine then sends and receives on each of these \
         networks.",
    )
    .repeated()
    .argument("interface", NETWORK),
    OptionEntry::new(
        "name",
        TEXT,
        optional!(network.name),
        EVERY_END,
        "Name of this machine in the session [default: the host name].",
    )
    .argument("name", NETWORK),
    OptionEntry::new(
        "drop",
        Kind::new("P", "0 to 1, or a percentage such as `2 %`"),
        Access { values: share_to_drop, ..value!(network.drop) },
        EVERY_END,
        "Drop this share of the arriving datagrams on purpose, as a test.",
    )
    .default("0")
    .argument("drop", EXPERT),
    OptionEntry::new(
        "seed",
        NUMBER,
        optional!(network.seed),
        NO_RELAY,
        "Repeat the random choices of an earlier run [default: drawn, and printed with --drop].",
    )
    .argument("seed", EXPERT),
    OptionEntry::new(
        "from",
        Kind::new("ADDR:PORT", "address and port, such as `192.0.2.1:7654`"),
        optional!(network.from),
        &[Recv, Relay, Socket],
        "Ask the sender at this address for unicast copies of its multicasts, until multicast arrives.",
    )
    .own_argument("from"),
    OptionEntry::new(
        "unicast_rate",
        RATE_OR_ZERO,
        Access { set: set_rate_of_copies, values: rate_of_copies },
        SENDERS,
        "Maximum rate of unicast copies for receivers that multicast does not reach (recv --from), all \
         together; 0 sends none. Copies never slow the group: those beyond this rate are dropped and \
         repaired.",
    )
    .default("100 Mbit/s")
    .argument("unicast-rate", NETWORK),
    OptionEntry::new(
        "keyless_relays",
        FLAG,
        flag!(network.keyless_relays),
        SENDERS,
        "Give copies to relays without the key too (relay --from). They forward what they cannot read.",
    )
    .restricted("keyless-relays", HELPERS, &["key_file"], &[]),
    OptionEntry::new(
        "dscp",
        Kind::new("CODE", "0 to 63, or a name such as `af11`"),
        optional!(network.dscp),
        NO_RELAY,
        "Mark everything that this machine sends with a DiffServ code point: a number from 0 to 63, or a \
         name such as `cs1`, `af11`, `ef` or `le`. Switches and routers queue by it, if they are set up to.",
    )
    .argument("dscp", NETWORK),
    OptionEntry::new(
        "raw_ip",
        FLAG,
        flag!(network.raw_ip),
        NO_RELAY,
        "Send the packets of XTP directly over IP, as protocol 36, instead of over UDP. All machines need \
         this, and the right to open raw sockets.",
    )
    .restricted("raw-ip", EXPERT, &[], &["key_file"]),
    OptionEntry::new(
        "broadcast",
        FLAG,
        // The group says it: 255.255.255.255.
        Access { set: broadcast, values: |_| Vec::new() },
        NO_RELAY,
        "Send to all hosts of the network of the interface instead of the group, and receive what is sent \
         so: the last resort where switches do not pass multicast. All machines need it. The port is that \
         of --group. IPv4 only.",
    )
    .restricted("broadcast", NETWORK, &[], &["raw_ip"]),
    OptionEntry::new(
        "source",
        Kind::new("ADDRESS", "address of a host; several are separated by commas"),
        Access { set: add_sources, values: sources },
        EVERY_END,
        "Receive the multicasts of these hosts only, and drop those of others (source-specific multicast). \
         Groups in 232.0.0.0/8 and ff3x::/32 need it where routers pass multicast. Can be given several \
         times.",
    )
    .repeated()
    .argument("source", NETWORK),
    OptionEntry::new(
        "protocol",
        TEXT,
        value!(send.protocol),
        SENDERS,
        "Protocol; `carillon protocols` lists them.",
    )
    .default(crate::send::DEFAULT_PROTOCOL)
    .own_argument("protocol"),
    OptionEntry::new(
        "set",
        Kind::new("KEY=VALUE", "parameter and value, such as `window=64`"),
        Access { set: add_parameter, values: parameters },
        SENDERS,
        "Set a parameter of the protocol; `carillon protocols NAME` lists them.",
    )
    .repeated()
    .own_argument("set"),
    OptionEntry::new(
        "receivers",
        NUMBER,
        gather!(Count, "receivers"),
        SENDERS,
        "Start when this number of receivers has joined, or later with fewer.",
    )
    .own_argument("receivers"),
    OptionEntry::new(
        "expect",
        TEXT,
        Access { set: add_expected, values: |settings| gathering(settings, "expect") },
        SENDERS,
        "Start when the receivers of these names have joined, or later without the missing ones. Others are \
         refused.",
    )
    .repeated()
    .own_argument("expect"),
    OptionEntry::new(
        "wait",
        SECONDS,
        gather!(Wait, "wait"),
        &[Socket],
        "Start after this time, with the receivers that have joined.",
    ),
    OptionEntry::new(
        "silent",
        SECONDS,
        gather!(Silent, "silent"),
        &[Socket],
        "Start after this time, even if no receiver has joined: receivers may listen without sending \
         anything.",
    ),
    OptionEntry::new(
        "settle",
        SECONDS,
        gather!(Settle, "settle"),
        &[Socket],
        "Start this long after the first receiver has joined.",
    ),
    OptionEntry::new(
        "host",
        Kind::new("ADDRESS NAME", "address, a space, name of a receiver"),
        Access { set: add_host, values: hosts },
        &[Socket],
        "Admit the receiver of this name from this address only.",
    )
    .repeated(),
    OptionEntry::new(
        "relays",
        FLAG,
        flag!(send.helpers.relays),
        SENDERS,
        "Accept routers of the protocol (`carillon relay`). Any node that claims to be one is accepted.",
    )
    .restricted("relays", HELPERS, &[], &["join"]),
    OptionEntry::new(
        "helpers",
        NUMBER,
        Access { set: set_helpers, values: helpers },
        SENDERS,
        "Wait for this number of helpers of the protocol (`carillon relay`).",
    )
    .own_argument("helpers"),
    OptionEntry::new(
        "expect_helper",
        TEXT,
        Access { set: add_helper, values: expected_helpers },
        &[Socket],
        "Wait for the helper of this name, and admit no others than those named.",
    )
    .repeated(),
    OptionEntry::new(
        "fanout",
        Kind::new("N", "1 or more"),
        Access { set: set_fanout, ..optional!(send.helpers.fanout) },
        SENDERS,
        "Arrange helpers as a tree: at most N helpers below the sender and below each helper. Default: all \
         below the sender.",
    )
    .restricted("fanout", HELPERS, &["helpers"], &[]),
    OptionEntry::new(
        "nearest",
        FLAG,
        flag!(send.helpers.nearest),
        SENDERS,
        "Place each member below the nearest helper, by round-trip times measured before the start. \
         --fanout still limits the helpers below each helper.",
    )
    .restricted("nearest", HELPERS, &["helpers"], &[]),
    OptionEntry::new(
        "under",
        Kind::with_exact(
            "NAME=HELPER",
            "names of a member and a helper",
            "length of the member's name in bytes, a space, the member, the helper",
        ),
        Access { set: add_place, values: places },
        SENDERS,
        "Place the receiver or helper NAME below HELPER. The others are distributed.",
    )
    .repeated()
    .restricted("under", HELPERS, &["helpers"], &[]),
    OptionEntry::new(
        "join_wait",
        SECONDS,
        optional!(send.wait),
        &[Socket],
        "Start this long after the first receiver has joined, even without receivers that `receivers` or \
         `expect` waits for.",
    ),
    OptionEntry::new(
        "join_timeout",
        SECONDS,
        value!(send.join_timeout),
        &[Send, Join, Socket],
        "Start without the receivers that have not joined within this time. Fail if none has.",
    )
    .default("60")
    .argument("join-timeout", RECEIVERS),
    OptionEntry::new(
        "all_or_nothing",
        FLAG,
        flag!(send.all_or_nothing),
        SENDERS,
        "Send nothing unless all receivers of --receivers or --expect, and all --helpers, have joined \
         within --join-timeout.",
    )
    .restricted("all-or-nothing", RECEIVERS, &[], &["wait", "join", "one_way"]),
    OptionEntry::new(
        "timeout",
        SECONDS,
        value!(send.timeout),
        EVERY_END,
        "Expel a receiver that stays silent for this long, or acknowledges nothing while the sender waits \
         for it. With --join: time without the organiser.",
    )
    .default("5")
    .argument("timeout", FAILURES),
    OptionEntry::new(
        "min_rate",
        RATE_OR_ZERO,
        Access { set: set_min_rate, values: |settings| vec![rate_or_zero_exact(settings.send.min_rate)] },
        SENDERS,
        "Expel a receiver that lets less than this through over four timeouts, while the sender waits for \
         it; 0 disables it.",
    )
    .default("16 kbit/s")
    .argument("min-rate", FAILURES),
    OptionEntry::new(
        "rate",
        Kind::with_exact("BITRATE", "rate, such as `100 Mbit/s`", "bits per second"),
        optional!(send.rate),
        &[Send, Join, Socket],
        "Maximum rate, headers included, such as '100 Mbit/s'.",
    )
    .argument("rate", NETWORK),
    OptionEntry::new(
        "datagram",
        Kind::with_exact("SIZE", "bytes, or a size such as `8 KiB`; at least 576", "bytes"),
        Access { set: set_datagram, ..optional!(send.datagram) },
        SENDERS,
        "Maximum size of datagrams, such as 1472 or '8 KiB' [default: what the paths to all receivers \
         carry; less on loopback].",
    )
    .argument("datagram", NETWORK),
    OptionEntry::new(
        "slow",
        Kind::new("WHAT", "`lane`, `wait` or `drop`"),
        value!(send.slow),
        SENDERS,
        "Treatment of stragglers: `lane` serves them in a catch-up session after the others, `wait` slows \
         the transfer down to their rate, `drop` expels them.",
    )
    .default("lane")
    .argument("slow", FAILURES),
    OptionEntry::new(
        "history",
        Kind::new("SIZE|TIME", "size or time, such as `64 MiB` or `30 s`; at most 256 MiB"),
        optional!(send.history),
        SENDERS,
        "Keep this much of a stream, such as '64 MiB' or '30 s' (at most 256 MiB), for receivers that join \
         late or are started again. They get the oldest message of it first. With 0 they continue from now.",
    )
    .restricted("history", FAILURES, &["stream"], &["join", "plain", "one_way"]),
    OptionEntry::new(
        "hops",
        Kind::new("N", "0 to 255"),
        value!(hops),
        &[Send, Join, Socket],
        "Maximum number of hops: 1 stays on this network.",
    )
    .default("1")
    .argument("ttl", NETWORK),
    OptionEntry::new(
        "rounds",
        NUMBER,
        value!(send.rounds),
        &[Send],
        "Maximum number of catch-up sessions, for receivers that join late, fail or fall behind.",
    )
    .default("3")
    .argument("rounds", FAILURES),
    OptionEntry::new(
        "job",
        TEXT,
        optional!(send.job_name),
        &[Send],
        "Name of the job, for receivers that take part in certain jobs only (`recv --job`). It proves \
         nothing.",
    )
    .restricted("job", RECEIVERS, &[], &["join", "plain"]),
];

const EVERY_END: &[Scope] = &[Send, Recv, Join, Relay, Socket];
const NO_RELAY: &[Scope] = &[Send, Recv, Join, Socket];
const SENDERS: &[Scope] = &[Send, Socket];

// Headings of the help.
const NETWORK: &str = "Network";
const EXPERT: &str = "Expert";
const RECEIVERS: &str = "Receivers";
const HELPERS: &str = "Helpers and routers";
const FAILURES: &str = "Failure handling";

const FLAG: Kind = Kind::with_exact("", "none", "`1`");
const TEXT: Kind = Kind::new("NAME", "name");
const NUMBER: Kind = Kind::new("N", "number");
const SECONDS: Kind = Kind::with_exact("SECONDS", "seconds, such as `2.5`; at most 1 000 000", "nanoseconds");
const RATE_OR_ZERO: Kind =
    Kind::with_exact("BITRATE", "rate, such as `100 Mbit/s`; 0 for none", "bits per second; 0 for none");

/// Adds interfaces.
fn add_interface(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    let interface = &mut settings.network.interface;
    *interface = Some(match interface.take() {
        Some(before) => format!("{before},{text}"),
        None => text.to_owned(),
    });
    Ok(())
}

/// Adds addresses of sources.
fn add_sources(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    let sources: Result<Vec<IpAddr>, String> =
        text.split(',').map(|source| Value::parse(source.trim(), notation)).collect();
    settings.network.sources.extend(sources?);
    Ok(())
}

fn sources(settings: &Settings) -> Vec<String> {
    settings.network.sources.iter().map(Value::exact).collect()
}

fn share_to_drop(settings: &Settings) -> Vec<String> {
    let share = settings.network.drop;
    (share > Probability::ZERO).then(|| share.exact()).into_iter().collect()
}

fn set_rate_of_copies(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    settings.network.unicast_rate = rate_or_zero(text, notation)?;
    Ok(())
}

/// Rate of unicast copies, unless it is the default, which earlier daemons do not know.
fn rate_of_copies(settings: &Settings) -> Vec<String> {
    let rate = settings.network.unicast_rate;
    let is_default = rate == Some(DEFAULT_UNICAST_RATE);
    (!is_default).then(|| rate_or_zero_exact(rate)).into_iter().collect()
}

fn set_min_rate(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    settings.send.min_rate = rate_or_zero(text, notation)?;
    Ok(())
}

fn rate_or_zero_exact(rate: Option<BitRate>) -> String {
    rate.map_or(0, BitRate::bps).to_string()
}

fn set_datagram(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    settings.send.datagram = Some(datagram(text, notation)?);
    Ok(())
}

fn set_fanout(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    settings.send.helpers.fanout = Some(ranged(text, 1, u32::MAX.into())? as usize);
    Ok(())
}

/// Replaces the address of the group, and keeps its port.
fn broadcast(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    if is_set(text)? {
        let group = &mut settings.network.group;
        *group = SocketAddr::new(Ipv4Addr::BROADCAST.into(), group.port());
    }
    Ok(())
}

fn add_parameter(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as window=64")?;
    settings.send.settings.push((key.to_owned(), value.to_owned()));
    Ok(())
}

fn parameters(settings: &Settings) -> Vec<String> {
    settings.send.settings.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

fn add_expected(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    match &mut settings.send.gather {
        Gather::Names(names) => drop(names.insert(text.to_owned())),
        gather => *gather = Gather::Names(BTreeSet::from([text.to_owned()])),
    }
    Ok(())
}

/// Values of the option that says for which receivers a sender waits; none if it is another one than `name`.
fn gathering(settings: &Settings, name: &str) -> Vec<String> {
    let (said, values) = match &settings.send.gather {
        Gather::Count(count) => ("receivers", vec![count.to_string()]),
        Gather::Names(names) => ("expect", names.iter().cloned().collect()),
        Gather::Wait(time) => ("wait", vec![time.exact()]),
        Gather::Silent(time) => ("silent", vec![time.exact()]),
        // Messages cannot be sent again, so their session never starts sooner.
        Gather::Settle(time) | Gather::Quiet(time) => ("settle", vec![time.exact()]),
        // Only later sessions use these settings.
        Gather::Again { .. } => return Vec::new(),
    };
    if said == name { values } else { Vec::new() }
}

fn add_host(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    let (host, name) = text.split_once(' ').ok_or("expected ADDRESS NAME")?;
    settings.send.hosts.insert(name.to_owned(), Value::parse(host, notation)?);
    Ok(())
}

fn hosts(settings: &Settings) -> Vec<String> {
    settings.send.hosts.iter().map(|(name, host)| format!("{host} {name}")).collect()
}

fn set_helpers(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    settings.send.helpers.wanted = HelperSelection::Count(Value::parse(text, notation)?);
    Ok(())
}

fn helpers(settings: &Settings) -> Vec<String> {
    match &settings.send.helpers.wanted {
        HelperSelection::Count(count) => vec![count.to_string()],
        HelperSelection::Nobody | HelperSelection::Names(_) => Vec::new(),
    }
}

fn add_helper(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    match &mut settings.send.helpers.wanted {
        HelperSelection::Names(names) => drop(names.insert(text.to_owned())),
        wanted => *wanted = HelperSelection::Names(BTreeSet::from([text.to_owned()])),
    }
    Ok(())
}

fn expected_helpers(settings: &Settings) -> Vec<String> {
    match &settings.send.helpers.wanted {
        HelperSelection::Names(names) => names.iter().cloned().collect(),
        HelperSelection::Nobody | HelperSelection::Count(_) => Vec::new(),
    }
}

/// Places a member below a helper. In exact notation the names may contain any character.
fn add_place(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    let (member, helper) = match notation {
        Notation::Text => {
            let (member, helper) = text.split_once('=').ok_or("expected NAME=HELPER, such as alice=h1")?;
            (member.trim(), helper.trim())
        }
        Notation::Exact => {
            let place =
                text.split_once(' ').and_then(|(len, names)| names.split_at_checked(len.parse().ok()?));
            place.ok_or("expected a length, a space and two names")?
        }
    };
    settings.send.helpers.under.insert(member.to_owned(), helper.to_owned());
    Ok(())
}

fn places(settings: &Settings) -> Vec<String> {
    let under = &settings.send.helpers.under;
    under.iter().map(|(member, helper)| format!("{} {member}{helper}", member.len())).collect()
}
