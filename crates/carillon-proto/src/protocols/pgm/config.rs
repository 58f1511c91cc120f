//! Parameters.

use std::time::Duration;

use carillon_core::{BitRate, Config, ConfigError, Kind, Parameter};

use crate::blocks::REPAIR_BUDGET;

/// A span that a repeated timer has: zero would repeat it without end.
pub(super) fn interval(settings: &Config, rate: BitRate, name: &str) -> Result<Duration, ConfigError> {
    let span = settings.span(name).at(rate);
    match span.is_zero() {
        true => Err(ConfigError::Conflict(format!("{name} is to be longer than no time"))),
        false => Ok(span),
    }
}

const fn count(
    name: &'static str,
    (min, max): (u64, u64),
    default: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter { name, kind: Kind::Count { min, max }, default, doc }
}

const fn span(name: &'static str, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Span, default, doc }
}

pub(super) const PARAMETERS: &[Parameter] = &[
    count("dport", (1, 65_535), "7500", "data-destination port; 51712 to 51967 are refused"),
    // The source.
    Parameter {
        name: "window_advance",
        kind: Kind::Choice(&["time", "data"]),
        default: "time",
        doc: "time: a packet is held for txw_secs; data: until its room is needed and it was not asked for in txw_adv_ivl",
    },
    span("txw_secs", "30 s", "how long a packet is held, and how long SPMs say that the session is over"),
    count("txw_sqns", (1, 1 << 24), "65536", "packets held, at most: no new ones are taken beyond that"),
    span("txw_adv_ivl", "1 s", "with data: how long nobody may have asked for a packet before it goes"),
    count(
        "txw_max_rte",
        (0, 1 << 40),
        "0",
        "bytes in a second, at most, of data and SPMs, with data of repairs too; 0: as fast as the interface",
    ),
    Parameter {
        name: "txw_burst",
        kind: Kind::Size { min: 0, max: 1 << 30 },
        default: "16384",
        doc: "bytes that may go at once after a pause",
    },
    span("spm_ivl", "500 ms", "between two ambient SPMs; ns-2's"),
    span("ihb_min", "250 ms", "from the last data to the first heartbeat SPM"),
    span("ihb_max", "8 s", "the greatest wait between two, which doubles"),
    Parameter {
        name: "join",
        kind: Kind::Switch,
        default: "true",
        doc: "SPMs say that who comes late may ask for all that is held (OPT_JOIN)",
    },
    span(
        "rdata_delay",
        "70 ms",
        "from the request to the repair, so that others are known before it; ns-2's; the chapter has 0",
    ),
    span(
        "rdata_holdoff",
        "0 ms",
        "a packet repaired less than this ago is confirmed, but not repaired again",
    ),
    REPAIR_BUDGET,
    // The receiver.
    span("nak_bo_ivl", "30 ms", "a request waits for a random time up to this; ns-2's"),
    span("nak_rpt_ivl", "50 ms", "how long a receiver waits for the NCF; ns-2's"),
    span("nak_rdata_ivl", "1 s", "how long it waits for the repair after that; ns-2's"),
    count("nak_ncf_retries", (0, 1_000_000), "50", "how often it goes on without an NCF; ns-2 has 5"),
    count("nak_data_retries", (0, 1_000_000), "50", "how often it goes on without a repair; ns-2 has 5"),
    count("nak_list", (1, 63), "63", "packets that one request asks for, at most"),
    count("rxw_sqns", (1, 65_536), "16384", "packets a receiver keeps or asks for, at most"),
    span("spmr_bo_ivl", "250 ms", "data without an SPM: one is asked for after a random time up to this"),
    span("spmr_spm_ivl", "1 s", "and again after this"),
    // The network element.
    span("ne_nak_rpt_rte", "50 ms", "a router repeats a request each so long until the NCF comes; ns-2's"),
    span("ne_nak_rpt_ivl", "1 s", "for this long; ns-2's"),
    span(
        "nak_elim_ivl",
        "500 ms",
        "how long after the NCF it sends no further request for the packet on; ns-2 has 5 s",
    ),
    span("ne_nak_rdata_ivl", "10 s", "how long after the NCF it waits for the repair; ns-2's"),
    count("ne_tsis", (1, 1 << 20), "1024", "sources a router helps, at most"),
    count("ne_repairs", (1, 1 << 24), "16384", "packets of one source it waits for, at most"),
    span("ne_tsi_expiry", "300 s", "a source without an SPM for so long is forgotten"),
    // Designated local repairers.
    count(
        "dlr_every",
        (0, u32::MAX as u64),
        "0",
        "each so-manyth receiver, the first on, is a designated local repairer; 0: there are none",
    ),
    count("dlr_sqns", (1, 1 << 20), "1024", "packets that a repairer holds for others, at most"),
    span("dlr_poll_ivl", "1 s", "how often repairers are looked for, and answer"),
    span("poll_bo_ivl", "50 ms", "a repairer answers after a random time up to this"),
    span("dlr_expiry", "5 s", "a repairer that has not answered for so long is not asked any more"),
    span(
        "dlr_nak_rpt_ivl",
        "100 ms",
        "a repairer that has not confirmed a request for so long is dropped, and the source asked",
    ),
    count("ne_dlrs", (1, 1 << 16), "16", "repairers of one source a router knows, at most"),
    count(
        "ne_dlr_sqns",
        (0, 1 << 16),
        "0",
        "packets of each source that a router keeps, at most, and repairs itself; 0: routers repair nothing",
    ),
];

/// For files over a real network: a window that holds on to what was asked for, and short waits.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("window_advance", "data"),
    ("txw_sqns", "32768"),
    ("rxw_sqns", "32768"),
    ("txw_adv_ivl", "1 s"),
    ("txw_max_rte", "12500000"),
    ("spm_ivl", "200 ms"),
    ("ihb_min", "10 ms"),
    ("ihb_max", "1 s"),
    ("rdata_delay", "2 ms"),
    // Whoever asks, and however often, has a packet repaired at most a hundred times a second.
    ("rdata_holdoff", "10 ms"),
    ("repair_budget", "9"),
    ("nak_bo_ivl", "5 ms"),
    ("nak_rpt_ivl", "50 ms"),
    ("nak_rdata_ivl", "100 ms"),
    ("nak_elim_ivl", "50 ms"),
    ("nak_ncf_retries", "200"),
    ("nak_data_retries", "200"),
    ("spmr_bo_ivl", "20 ms"),
    ("spmr_spm_ivl", "100 ms"),
];
