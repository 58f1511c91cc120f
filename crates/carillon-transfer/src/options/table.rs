//! The options, in the order of the daemon's fields.

use carillon_session::{Gather, HelperOptions};

use super::Scope::{Join, Recv, Relay, Send, Socket};
use super::access::{
    add_expected, add_helper, add_host, add_interface, add_parameter, add_place, add_sources, broadcast,
    expected_helpers, gathering, helpers, hosts, parameters, places, rate_of_copies, rate_or_zero_exact,
    set_datagram, set_fanout, set_helpers, set_min_rate, set_rate_of_copies, share_to_drop, sources,
};
use super::values::{Value, flag, is_set, optional, value};
use super::{Access, Kind, OptionEntry, Scope, Settings};
use crate::network::DEFAULT_GROUP;
use crate::{Network, SendOptions};

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

/// Names every field of the settings: this does not compile while a new one is missing here and has no row.
const _: fn(Settings) = |settings| {
    let Settings { network, send, hops: _ } = settings;
    let Network {
        group: _,
        interface: _,
        name: _,
        drop: _,
        seed: _,
        raw_ip: _,
        from: _,
        unicast_rate: _,
        keyless_relays: _,
        dscp: _,
        sources: _,
        // Not text, and a matter of the command.
        key: _,
        service: _,
    } = network;
    let SendOptions {
        protocol: _,
        settings: _,
        gather: _,
        hosts: _,
        helpers: HelperOptions { wanted: _, fanout: _, nearest: _, under: _, relays: _ },
        wait: _,
        join_timeout: _,
        all_or_nothing: _,
        timeout: _,
        min_rate: _,
        rate: _,
        datagram: _,
        slow: _,
        rounds: _,
        history: _,
        job_name: _,
        // An object of the program, and several options of the command that belong together.
        monitor: _,
        update: _,
    } = send;
};
