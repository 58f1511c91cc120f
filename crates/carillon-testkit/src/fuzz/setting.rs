//! Protocol machines with fuzzed settings.

use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, GroupId, HelperTable, Helpers, Kind, NodeId, Parameter,
    ProtocolEntry, Role, Seeds,
};

use super::drive::{Rules, drive};
use super::packets::Known;
use super::{Input, packets};

/// Runs one machine of a protocol under fuzzed operations.
pub fn machine(entry: &'static ProtocolEntry, role: Role, input: &mut Input<'_>) {
    let rate = bit_rate(input);
    let config = settings(entry.parameters, input);
    let members = input.pick(MEMBERS);
    let (node, members) = match role {
        Role::Sender => (SENDER, members),
        // The host of a receiver may not know the other members.
        Role::Receiver if input.byte() & 1 == 0 => (NodeId(1), &[][..]),
        Role::Receiver => (NodeId(1), members),
        Role::Peer => (SENDER, PEERS),
        Role::Relay => (NodeId(9), &[][..]),
        Role::Helper => (NodeId(9), members),
    };
    // If the protocol has helpers, the machine has some or is one.
    let helpers = match entry.helpers {
        Helpers::None => HelperTable::default(),
        Helpers::Optional | Helpers::Required(_) => {
            HelperTable::balanced(&[NodeId(9), NodeId(10)], members, 1)
        }
    };
    let context = BuildContext {
        association: ASSOCIATION,
        node,
        sender: SENDER,
        members: members.into(),
        helpers: helpers.into(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: rate,
        link_overhead: input.pick(&[0, 18, 46, u32::MAX]),
        max_payload: input.pick(&[1, 100, 1472, u32::MAX]),
        memory: usize::MAX,
        rejoining: role == Role::Peer && input.byte() & 1 == 1,
    };
    let mut machine = match (entry.build)(role, &context, &config) {
        Ok(machine) => machine,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error says something");
            return;
        }
    };
    let window = config.iter().find(|(name, _)| *name == "window").map_or(1, |_| config.count("window"));
    let window = usize::try_from(window).unwrap_or(usize::MAX);
    // Peers and repairers bound the messages that they hold and repeat by their own parameters. In an unconfirmed
    // protocol no feedback tells a sender what has arrived, or a receiver when the stream ends. The rules are loose
    // for these.
    let rules = match role {
        _ if !entry.confirms(&config) => Rules { transmits: LARGE_GROUP, deliveries: None, plain: false },
        Role::Peer => Rules { transmits: LARGE_GROUP, deliveries: None, plain: false },
        // After the loss of a helper a machine waits for another table, which does not come here.
        _ if entry.helpers != Helpers::None => {
            Rules { transmits: LARGE_GROUP, deliveries: None, plain: false }
        }
        // Each message in flight, a repair for each, and a poll.
        _ => Rules {
            transmits: window.max(members.len()).saturating_mul(2).saturating_add(1),
            deliveries: Some(window),
            plain: true,
        },
    };
    let known = Known::new(ASSOCIATION, SENDER, entry.name);
    drive(&mut machine, &rules, known, &[&packets::own(entry.packets.format), &packets::any], input);
}

/// Draws settings, some of which are not the defaults.
pub fn settings(parameters: &'static [Parameter], input: &mut Input<'_>) -> Config {
    let mut config = Config::defaults(parameters);
    for _ in 0..input.below(8) {
        let parameter = &parameters[input.below(parameters.len().clamp(1, 256))];
        let text = match parameter.kind {
            Kind::Count { min, max } | Kind::Size { min, max } => match input.byte() {
                255 => max.to_string(),
                254 => (max / 2 + 1).to_string(),
                small => min.saturating_add(u64::from(small % 16)).min(max).to_string(),
            },
            Kind::Rate => input.pick(RATES).to_owned(),
            Kind::Span => match input.pick(SPANS) {
                "" => format!("{} bit", u64::from(input.u32()).pow(2)),
                text => text.to_owned(),
            },
            Kind::Probability => format!("{} %", input.below(101)),
            Kind::Switch => (input.byte() & 1 == 1).to_string(),
            Kind::Choice(words) => input.pick(words).to_owned(),
        };
        if let Err(error) = config.set(parameters, parameter.name, &text) {
            assert!(!error.to_string().is_empty(), "an error says something");
        }
    }
    config
}

/// Draws a rate from the slowest to the fastest possible.
pub fn bit_rate(input: &mut Input<'_>) -> BitRate {
    let bps = input.pick(&[10_000_000, 1_000_000_000, 100_000_000_000, 1, 9_600, 1_000_000_000_000_000_000]);
    BitRate::new(bps).expect("none of the rates is zero")
}

/// Association id of every machine.
const ASSOCIATION: AssociationId = AssociationId(7);

/// Node of the sender, which is not the lowest.
const SENDER: NodeId = NodeId(2);

/// Bound on the datagrams of one drain, more than any peer sends at once.
const LARGE_GROUP: usize = 100_000;

/// Peers, with the machine's node, [`SENDER`], among them.
const PEERS: &[NodeId] = &[NodeId(0), NodeId(1), SENDER, NodeId(4), NodeId(5)];

/// Groups with and without gaps in their numbers.
const MEMBERS: &[&[NodeId]] = &[
    &[NodeId(1)],
    &[NodeId(3), NodeId(4)],
    &[NodeId(0), NodeId(1), NodeId(3)],
    &[NodeId(3), NodeId(4), NodeId(5), NodeId(6), NodeId(7)],
    &[],
    &[NodeId(0), NodeId(u32::MAX)],
];

/// Rates, with and without a unit.
const RATES: &[&str] =
    &["0", "1", "12500000", "1 bit/s", "56 kbit/s", "1000000000 Gbit/s", "2305843009213693951"];

/// Spans of time; an empty text draws a random one.
const SPANS: &[&str] = &[
    "0 bit",
    "1 bit",
    "6000 bit",
    "1 ns",
    "1 us",
    "1 ms",
    "20 ms",
    "1 s",
    "1 h",
    "2000000 h",
    "1000000000000000000 bit",
    "",
];
