//! Parameters of XTP. The thesis names the options of its program and two timers; all other defaults are Carillon's.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HeaderBytes, HostValue, Parameter, TokenBucket};
use carillon_wire::xtp::{HEADER_LEN, TAG_LEN, option, service};

use crate::blocks::PastLimit;
use crate::blocks::retransmission::parameters::PAST_LIMIT;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::choice("paradigm", &["stream", "datagram", "acknowledged-datagram", "transaction"], "stream")
        .doc("association: stream: a stream of messages; or one message in FIRST: datagram: without an answer; acknowledged-datagram: acknowledged by the receivers; transaction: answered when the receiving user has read it"),
    Parameter::count("service", (4, 6), "6")
        .doc("service of a stream in the traffic segment: 4: reliable unicast (-t of the thesis's program); 5: unacknowledged multicast without retransmission; 6: reliable multicast (-T). The other paradigms have their own numbers, 1 to 3, and are unicast with 4, multicast otherwise"),
    Parameter::switch("data_in_first", "false")
        .doc("FIRST carries the first data of a stream, which then does not wait for all answers (not in the thesis)"),
    Parameter::choice("reliability", &["all", "named", "none"], "all")
        .doc("receivers that must get a stream completely: all; named: the first `named` ones, while the others may join late and cause neither waiting nor retransmissions; none: as error_control = none"),
    Parameter::count("named", (1, 65_536), "1").doc("with reliability = \"named\", number of receivers that must get everything"),
    Parameter::switch("late_join", "false")
        .doc("late or returning receivers may join a stream and get the messages not yet begun (JCNTL); data packets then carry message numbers in their tags"),
    Parameter::count("leave_after", (0, 1_000_000_000), "0")
        .doc("number of messages after which a receiver leaves (END); 0: never"),
    Parameter::choice("feedback", &["unicast", "slotted"], "unicast")
        .doc("control packets of receivers: unicast: at once, to the sender; slotted: after a random number of slots, with reports of gaps to the group, where an equivalent report suppresses them (damping)"),
    Parameter::count("slots", (1, 1024), "8").doc("with feedback = \"slotted\", number of slots (Carillon's)"),
    Parameter::span("slot_time", "2 ms").doc("with feedback = \"slotted\", length of a slot (Carillon's)"),
    Parameter::choice("error_control", &["go-back-n", "selective", "none"], "go-back-n")
        .doc("retransmission: go-back-n: everything from the first missing byte on, with receivers that keep nothing beyond a gap (the thesis); selective: missing data only (suggested there); none: nothing (NOERR), and losses are not reported"),
    Parameter::switch("fastnak", "true").doc("FASTNAK: a receiver reports a gap at once (-F)"),
    Parameter::choice("flow_control", &["on", "off", "reservation"], "on")
        .doc("on: no more data than receivers have room for (alloc); off: the sender ignores alloc (NOFLOW); reservation: room is what the receiving user has reserved (RES)"),
    Parameter::count("window", (1, 65_536), "32")
        .doc("receive buffer, and maximum data in flight, in packets of maxdata bytes or of the longest message if that is less"),
    Parameter::count("reserved", (1, 65_536), "4")
        .doc("with flow_control = \"reservation\", number of buffers of the longest message's size that the receiving user reserves"),
    Parameter::size("maxdata", (1, 65_535), "1448 byte")
        .doc("maximum data per packet: longer messages are fragmented (1448 fit an Ethernet frame over IP)"),
    Parameter::count("calls", (1, 65_536), "1")
        .doc("messages that may wait to be sent; with 1 a call returns when its data was sent"),
    Parameter::choice("segmentation", &["stream", "repairs", "messages"], "stream")
        .doc("bytes of several messages in one packet: stream: a packet takes what waits to be sent; repairs: only a retransmission is filled with the data behind it; messages: none. Packets with message numbers in their tags have one message"),
    Parameter::size("buffer", (0, 1_000_000_000), "0 byte")
        .doc("reserved space in the sender and in each receiver: a call returns when the association is open and its data fits, and receivers have that much room; 0: calls and window decide (Carillon's)"),
    Parameter::span("group_wait", "0 ms")
        .doc("time for which the sender of a multicast stream collects answers to FIRST before it sends data (Carillon's)"),
    Parameter::choice("sreq", &["pause", "window", "service"], "pause")
        .doc("when data carries SREQ, besides FIRST (-f): service: pause by unicast, window by multicast, since each answer of a group costs the sender; pause: the last packet before the sender has nothing to send or no room; window: the last packet before it has no room, the last of all, and after WTIMER without data"),
    Parameter::count("sreq_interval", (0, 65_536), "0")
        .doc("every n-th data packet also carries SREQ; 0: none (the thesis suggests more)"),
    Parameter::choice("status_request", &["sreq", "dreq"], "sreq")
        .doc("status request in data: SREQ, answered at once, or DREQ, answered when the user has read the data"),
    Parameter::choice("handshake", &["repaired", "thesis"], "repaired")
        .doc("synchronizing handshake: thesis: WTIMER doubles without bound, lost packets count as round trips, and CTIMEOUT runs from its start; repaired: WTIMER doubles at most three times, up to wtimer_max, round trips belong to answered packets, and CTIMEOUT counts silence (suggested there)"),
    Parameter::span("wtimer", "500 ms").doc("WTIMER before the first round trip"),
    Parameter::span("wtimer_min", "10 ms").doc("minimum of WTIMER (Carillon's)"),
    Parameter::span("wtimer_max", "1 s").doc("with handshake = \"repaired\", maximum of WTIMER, unless answers take longer on average"),
    Parameter::span("ctimeout", "60 s").doc("CTIMEOUT: maximum duration of the synchronizing handshake (60 s in SandiaXTP)"),
    Parameter::span("ctimer", "60 s")
        .doc("CTIMER: silence of the receivers after which a handshake checks that they are alive"),
    Parameter::count("handshake_limit", (0, 1_000_000), "0")
        .doc("attempts of a handshake after which past_limit applies too; 0: CTIMEOUT alone decides (Carillon's)"),
    Parameter {
        default: "expel",
        doc: "action past CTIMEOUT: expel: expel silent receivers by name (which aborts an association with one receiver); skip: skip their unacknowledged data; wait: ask until they are expelled otherwise (the last two are Carillon's; deliveries wait)",
        ..PAST_LIMIT
    },
    Parameter::rate("rate", "0").doc("outrate: bytes per second; 0: unlimited"),
    Parameter::size("burst", (1, 1_000_000_000), "65536 byte").doc("outburst: bytes per burst at this rate"),
    Parameter::count("sort", (0, 65_535), "0").doc("priority in the sort field; 0: none"),
    Parameter::choice("checksum", &["all", "header"], "all")
        .doc("coverage of the checksum: the whole packet, or its header only (NOCHECK)"),
];

/// Parameters of datagrams without acknowledgment, with the same defaults.
pub(super) const DATAGRAM_PARAMETERS: [Parameter; 7] = [
    Parameter::count("service", (4, 6), "6")
        .doc("4: unicast to the one receiver; otherwise multicast (the traffic segment says 1, an unacknowledged datagram)"),
    Parameter::count("window", (1, 65_536), "32")
        .doc("receive buffer in packets of maxdata bytes, or of the longest message if that is less"),
    Parameter::size("maxdata", (1, 65_535), "1448 byte").doc("maximum data per packet, and so per message"),
    Parameter::count("calls", (1, 65_536), "1").doc("messages that may wait to be sent"),
    Parameter::rate("rate", "0").doc("outrate: bytes per second; 0: unlimited"),
    Parameter::size("burst", (1, 1_000_000_000), "65536 byte").doc("outburst: bytes per burst at this rate"),
    Parameter::choice("checksum", &["all", "header"], "all")
        .doc("coverage of the checksum: the whole packet, or its header only (NOCHECK)"),
];

/// Settings for files over a real network: selective retransmission, no fragmentation, and a queue of messages ahead
/// of the sender.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("error_control", "selective"),
    ("handshake", "repaired"),
    ("past_limit", "wait"),
    ("maxdata", "65535"),
    // A packet is as long as a message, since maxdata does not bound it.
    ("segmentation", "messages"),
    ("calls", "256"),
    ("sreq_interval", "16"),
    ("wtimer", "100 ms"),
    ("wtimer_min", "5 ms"),
    ("wtimer_max", "500 ms"),
];

/// Values from the host: no more data in flight than fits the receivers' buffers.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[("window", HostValue::Window { min: 4, max: 8192 })];

/// Paradigm of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paradigm {
    /// Stream of messages.
    Stream,
    /// Single message without an answer.
    Datagram,
    /// Single message and its acknowledgment.
    AcknowledgedDatagram,
    /// Single message and a response to it.
    Transaction,
}

impl Paradigm {
    fn of(config: &Config) -> Self {
        match config.choice("paradigm") {
            "datagram" => Paradigm::Datagram,
            "acknowledged-datagram" => Paradigm::AcknowledgedDatagram,
            "transaction" => Paradigm::Transaction,
            _ => Paradigm::Stream,
        }
    }

    /// Returns true if each message has its own association, opened by a FIRST with the whole message.
    pub fn is_single(self) -> bool {
        self != Paradigm::Stream
    }
}

/// Bytes that FIRST adds to a payload.
pub(super) const FIRST_LEN: usize = HEADER_LEN + ADDRESS_LEN + TRAFFIC_LEN;

/// Bytes that packets add to a payload.
pub(super) fn header_bytes(config: &Config) -> HeaderBytes {
    let first = HeaderBytes { data: FIRST_LEN, max: FIRST_LEN + TAG_LEN + 1 };
    match Paradigm::of(config) {
        Paradigm::Stream if config.switch("data_in_first") => HeaderBytes { data: HEADER_LEN, ..first },
        Paradigm::Stream => HeaderBytes { data: HEADER_LEN, max: HEADER_LEN + TAG_LEN + 1 },
        Paradigm::Datagram => HeaderBytes { data: FIRST_LEN + TAG_LEN, ..first },
        Paradigm::AcknowledgedDatagram | Paradigm::Transaction => first,
    }
}

/// Retransmission strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorControl {
    GoBack,
    Selective,
    Off,
}

/// Packets that may have bytes of several messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segmentation {
    /// Every packet.
    Stream,
    /// Packets that begin with a retransmission.
    Repairs,
    /// No packet.
    Messages,
}

/// Parameters in the units that the machines use.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub paradigm: Paradigm,
    pub is_unicast: bool,
    /// True if FIRST carries data.
    pub data_in_first: bool,
    /// Number of receivers, from the first on, that must receive the whole stream.
    pub demanded: usize,
    pub late_join: bool,
    /// True if every data packet has a tag with its message number.
    pub are_numbered: bool,
    pub leave_after: u64,
    /// Number and length of the slots that delay feedback.
    pub slots: Option<(u64, Duration)>,
    pub wtimer: Duration,
    pub errors: ErrorControl,
    pub flow: bool,
    /// Receive buffer, in bytes.
    pub room: u64,
    pub maxdata: usize,
    pub calls: u64,
    /// Bytes that may wait for acknowledgment in the sender; `None` without a bound.
    pub send_buffer: Option<u64>,
    pub segmentation: Segmentation,
    /// Time for which answers to FIRST are collected.
    pub group_wait: Duration,
    pub sreq_interval: u64,
    pub asks_at_pauses: bool,
    pub service: u8,
    pub asks_for: u32,
    /// Option bits that every packet of the association carries.
    pub modes: u32,
    pub sort: u16,
    pub ctimeout: Duration,
    pub ctimer: Duration,
    pub handshake_limit: u32,
    pub past_limit: PastLimit,
    pub pace: TokenBucket,
    pub rates: (u32, u32),
}

impl Settings {
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let span = |name: &str| config.span(name).at(context.bit_rate);
        let maxdata = config.size("maxdata").0;
        let unit = maxdata.min(u64::from(context.max_payload).max(1));
        let flow_control = config.choice("flow_control");
        let packets = context.max_messages(config.count("window"));
        let room = match flow_control {
            "reservation" => config.count("reserved") * u64::from(context.max_payload).max(1),
            _ => packets * unit,
        };
        // Room for two of the longest messages: a receiver reports when half is free, and that must fit a whole
        // message.
        let buffer = config.size("buffer").0;
        let room = if buffer > 0 { buffer } else { room }.max(2 * u64::from(context.max_payload));
        let (rate, burst) = (config.rate("rate"), config.size("burst").0);
        let paradigm = Paradigm::of(config);
        let stream = config.count("service") as u8;
        let is_unicast = stream == service::UNICAST_STREAM;
        let service = match paradigm {
            Paradigm::Stream => stream,
            Paradigm::Datagram => service::DATAGRAM,
            Paradigm::AcknowledgedDatagram => service::ACKNOWLEDGED_DATAGRAM,
            Paradigm::Transaction => service::TRANSACTION,
        };
        check_single(config, paradigm, context.max_payload, maxdata)?;
        let errors = error_control(config, service, paradigm);
        let modes = modes(config, is_unicast, errors);
        let asks_for_taking = config.choice("status_request") == "dreq" || paradigm == Paradigm::Transaction;
        let is_named = config.choice("reliability") == "named" && !paradigm.is_single();
        // A receiver that the sender does not wait for may have missed FIRST.
        let late_join = (config.switch("late_join") || is_named) && !paradigm.is_single();
        let are_numbered = errors == ErrorControl::Off || late_join;
        Ok(Settings {
            paradigm,
            send_buffer: (buffer > 0).then_some(room),
            segmentation: segmentation(config, paradigm, are_numbered),
            group_wait: if is_unicast { Duration::ZERO } else { span("group_wait") },
            demanded: if is_named { config.count("named") as usize } else { usize::MAX },
            late_join,
            are_numbered,
            leave_after: config.count("leave_after"),
            slots: (config.choice("feedback") == "slotted")
                .then(|| (config.count("slots"), span("slot_time"))),
            wtimer: span("wtimer").max(MIN_TIMEOUT),
            is_unicast,
            data_in_first: config.switch("data_in_first") || paradigm.is_single(),
            errors,
            // A single packet needs no window: it fits or is retransmitted.
            flow: flow_control != "off" && !paradigm.is_single(),
            room,
            maxdata: maxdata as usize,
            calls: config.count("calls"),
            sreq_interval: config.count("sreq_interval"),
            asks_at_pauses: match config.choice("sreq") {
                "pause" => true,
                "service" => is_unicast,
                _ => false,
            },
            service,
            asks_for: if asks_for_taking { option::DREQ } else { option::SREQ },
            modes,
            sort: config.count("sort") as u16,
            ctimeout: span("ctimeout").max(MIN_TIMEOUT),
            ctimer: span("ctimer").max(MIN_TIMEOUT),
            handshake_limit: config.count("handshake_limit") as u32,
            past_limit: match config.choice("past_limit") {
                "expel" => PastLimit::Expel,
                "wait" => PastLimit::Wait,
                _ => PastLimit::Skip,
            },
            pace: TokenBucket::new(rate, rate.map_or(Duration::ZERO, |rate| rate.time_for_bytes(burst))),
            rates: rate.map_or((u32::MAX, u32::MAX), |rate| {
                let bytes = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
                (bytes(rate.bps() / 8), bytes(burst))
            }),
        })
    }
}

/// Error control of a service.
fn error_control(config: &Config, service: u8, paradigm: Paradigm) -> ErrorControl {
    match config.choice("error_control") {
        _ if [service::DATAGRAM, service::UNACKNOWLEDGED_MULTICAST].contains(&service) => ErrorControl::Off,
        _ if config.choice("reliability") == "none" => ErrorControl::Off,
        // The single packet is the only one that can be missing.
        _ if paradigm.is_single() => ErrorControl::GoBack,
        "go-back-n" => ErrorControl::GoBack,
        "selective" => ErrorControl::Selective,
        _ => ErrorControl::Off,
    }
}

/// Division of messages into packets.
fn segmentation(config: &Config, paradigm: Paradigm, are_numbered: bool) -> Segmentation {
    match config.choice("segmentation") {
        // Each message has its own number or its own association.
        _ if are_numbered || paradigm.is_single() => Segmentation::Messages,
        "stream" => Segmentation::Stream,
        "repairs" => Segmentation::Repairs,
        _ => Segmentation::Messages,
    }
}

/// Option bits of every packet.
fn modes(config: &Config, is_unicast: bool, errors: ErrorControl) -> u32 {
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    flag(!is_unicast, option::MULTI)
        | flag(config.switch("fastnak"), option::FASTNAK)
        | flag(errors == ErrorControl::Off, option::NOERR)
        | flag(config.choice("flow_control") == "off", option::NOFLOW)
        | flag(config.choice("flow_control") == "reservation", option::RES)
        | flag(config.count("sort") > 0, option::SORT)
        | flag(config.choice("checksum") == "header", option::NOCHECK)
}

/// Checks that a message fits one packet, where it has to.
fn check_single(
    config: &Config,
    paradigm: Paradigm,
    max_payload: u32,
    maxdata: u64,
) -> Result<(), ConfigError> {
    if paradigm.is_single() && u64::from(max_payload) > maxdata {
        let (word, most) = (config.choice("paradigm"), max_payload);
        let reason = format!(
            "paradigm = \"{word}\" sends each message in one packet: maxdata must be {most} byte or more"
        );
        return Err(ConfigError::Conflict(reason));
    }
    Ok(())
}

/// Length of an IPv4 address segment, the longest kind, in bytes.
const ADDRESS_LEN: usize = 16;
/// Length of a traffic segment with rates, in bytes.
const TRAFFIC_LEN: usize = 24;
const MIN_TIMEOUT: Duration = Duration::from_millis(10);
