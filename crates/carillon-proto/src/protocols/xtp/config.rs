//! Parameters. The thesis names what its program was told and two timers; where it is silent the defaults are Carillon's.

use std::time::Duration;

use carillon_core::{BuildContext, Config, HostValue, Pace, Parameter};
use carillon_wire::xtp::option;

use crate::blocks::PastLimit;
use crate::blocks::retransmission::parameters::PAST_LIMIT;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("service", (4, 6), "6")
        .doc("by the numbers of XTP's traffic segment: 4: a reliable stream to the one receiver (-t of the thesis's program), 5: an unacknowledged stream to the group, of which nothing is sent again, 6: a reliable stream to the group (-T)"),
    Parameter::choice("error_control", &["go-back-n", "selective", "none"], "go-back-n")
        .doc("what is sent again: everything from what is missing on, which receivers do not keep either (the thesis), what is missing alone (as it suggests), or nothing (NOERR): what comes is delivered, and nobody is told of the rest"),
    Parameter::switch("fastnak", "true").doc("FASTNAK: a receiver that sees a gap says so at once (-F)"),
    Parameter::choice("flow_control", &["on", "off", "reservation"], "on")
        .doc("on: no more is sent than receivers have room for (alloc); off: the sender does not look at it (NOFLOW); reservation: room is what the receiving user has reserved (RES)"),
    Parameter::count("window", (1, 65_536), "32")
        .doc("packets of maxdata bytes, or of the longest message if that is less, that a receiver has room for, and that may be under way"),
    Parameter::count("reserved", (1, 65_536), "4")
        .doc("with flow_control = \"reservation\": buffers, each as long as the longest message, that the receiving user has reserved"),
    Parameter::size("maxdata", (1, 65_000), "1448 byte")
        .doc("data of a packet at most: a longer message is cut (1448 is what an Ethernet takes over IP)"),
    Parameter::count("calls", (1, 65_536), "1")
        .doc("messages that may wait to go out: with 1 a call returns when its data have been sent, as a call of the thesis's program does"),
    Parameter::choice("sreq", &["pause", "window"], "pause")
        .doc("when SREQ is set, besides in FIRST (-f): pause: in the last data packet before the sender has nothing to send or no room; window: in the last before it has no room, in the last of all, and when nothing has gone out for WTIMER"),
    Parameter::count("sreq_interval", (0, 65_536), "0")
        .doc("SREQ is also set in each so manyth data packet; 0: in no others (the thesis suggests more)"),
    Parameter::choice("status_request", &["sreq", "dreq"], "sreq")
        .doc("what asks for status in data: SREQ, answered at once, or DREQ, answered when the data have been taken by the user"),
    Parameter::choice("handshake", &["repaired", "thesis"], "repaired")
        .doc("the synchronizing handshake: thesis: WTIMER doubles without bound, round trips of what was lost count, and CTIMEOUT runs from the handshake's beginning; repaired: WTIMER doubles three times at most, up to wtimer_max, round trips are those of the packet that was answered, and CTIMEOUT counts silence (as the thesis suggests)"),
    Parameter::span("wtimer", "500 ms").doc("WTIMER before a round trip is known"),
    Parameter::span("wtimer_min", "10 ms").doc("WTIMER is never shorter (Carillon's)"),
    Parameter::span("wtimer_max", "1 s").doc("with handshake = \"repaired\", WTIMER is never longer"),
    Parameter::span("ctimeout", "60 s").doc("CTIMEOUT: how long the synchronizing handshake may take (60 s in SandiaXTP)"),
    Parameter::span("ctimer", "60 s")
        .doc("CTIMER: when nothing has come for so long while more is expected to be sent, a handshake asks whether the others live"),
    Parameter::count("handshake_limit", (0, 1_000_000), "0")
        .doc("attempts of a handshake after which past_limit applies too; 0: CTIMEOUT alone says (Carillon's)"),
    Parameter {
        default: "expel",
        doc: "past CTIMEOUT: expel those that have not answered, by name (the association with one receiver is aborted so), skip what they have not acknowledged, or wait: ask on until told that they are gone (both Carillon's; delivery waits)",
        ..PAST_LIMIT
    },
    Parameter::rate("rate", "0").doc("outrate: bytes a second; 0: as fast as it goes"),
    Parameter::size("burst", (1, 1_000_000_000), "65536 byte").doc("outburst: bytes at once at this rate"),
    Parameter::count("sort", (0, 65_535), "0").doc("the priority in the sort field; 0: none"),
    Parameter::choice("checksum", &["all", "header"], "all")
        .doc("what the checksum covers: all of a packet, or its header alone (NOCHECK)"),
];

/// For files over a real network: what is missing alone goes again, nothing is cut, and calls go ahead of what is sent.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("error_control", "selective"),
    ("handshake", "repaired"),
    ("past_limit", "wait"),
    ("maxdata", "65000"),
    ("calls", "256"),
    ("sreq_interval", "16"),
    ("wtimer", "100 ms"),
    ("wtimer_min", "5 ms"),
    ("wtimer_max", "500 ms"),
];

/// No more is under way than fits the receivers' buffers.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[("window", HostValue::Window { min: 4, max: 8192 })];

/// What is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorControl {
    GoBack,
    Selective,
    Off,
}

/// The parameters as the machines use them.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub is_unicast: bool,
    pub errors: ErrorControl,
    pub flow: bool,
    /// Bytes that receivers have room for.
    pub room: u64,
    pub maxdata: usize,
    pub calls: u64,
    pub sreq_interval: u64,
    pub asks_at_pauses: bool,
    pub service: u8,
    pub asks_for: u32,
    /// What every packet of the association has set.
    pub modes: u32,
    pub sort: u16,
    pub ctimeout: Duration,
    pub ctimer: Duration,
    pub handshake_limit: u32,
    pub past_limit: PastLimit,
    pub pace: Pace,
    pub rates: (u32, u32),
}

impl Settings {
    pub fn new(context: &BuildContext, config: &Config) -> Self {
        let span = |name: &str| config.span(name).at(context.bit_rate);
        let maxdata = config.size("maxdata").0;
        let unit = maxdata.min(u64::from(context.max_payload).max(1));
        let flow_control = config.choice("flow_control");
        let packets = context.most_messages(config.count("window"));
        let room = match flow_control {
            "reservation" => config.count("reserved") * u64::from(context.max_payload).max(1),
            _ => packets * unit,
        };
        // Two of the longest messages have room, so that whoever is told that half of the room is free can send a whole one.
        let room = room.max(2 * u64::from(context.max_payload));
        let (rate, burst) = (config.rate("rate"), config.size("burst").0);
        let service = config.count("service") as u8;
        let is_unicast = service == carillon_wire::xtp::service::UNICAST_STREAM;
        let errors = match config.choice("error_control") {
            _ if service == carillon_wire::xtp::service::UNACKNOWLEDGED_MULTICAST => ErrorControl::Off,
            "go-back-n" => ErrorControl::GoBack,
            "selective" => ErrorControl::Selective,
            _ => ErrorControl::Off,
        };
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        let modes = flag(!is_unicast, option::MULTI)
            | flag(config.switch("fastnak"), option::FASTNAK)
            | flag(errors == ErrorControl::Off, option::NOERR)
            | flag(flow_control == "off", option::NOFLOW)
            | flag(flow_control == "reservation", option::RES)
            | flag(config.count("sort") > 0, option::SORT)
            | flag(config.choice("checksum") == "header", option::NOCHECK);
        Settings {
            is_unicast,
            errors,
            flow: flow_control != "off",
            room,
            maxdata: maxdata as usize,
            calls: config.count("calls"),
            sreq_interval: config.count("sreq_interval"),
            asks_at_pauses: config.choice("sreq") == "pause",
            service,
            asks_for: if config.choice("status_request") == "dreq" { option::DREQ } else { option::SREQ },
            modes,
            sort: config.count("sort") as u16,
            ctimeout: span("ctimeout").max(LEAST_CTIMER),
            ctimer: span("ctimer").max(LEAST_CTIMER),
            handshake_limit: config.count("handshake_limit") as u32,
            past_limit: match config.choice("past_limit") {
                "expel" => PastLimit::Expel,
                "wait" => PastLimit::Wait,
                _ => PastLimit::Skip,
            },
            pace: Pace::new(rate, rate.map_or(Duration::ZERO, |rate| rate.time_for_bytes(burst))),
            rates: rate.map_or((u32::MAX, u32::MAX), |rate| {
                let bytes = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
                (bytes(rate.bps() / 8), bytes(burst))
            }),
        }
    }
}

const LEAST_CTIMER: Duration = Duration::from_millis(10);
