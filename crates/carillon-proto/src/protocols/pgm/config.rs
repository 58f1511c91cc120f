//! Parameters of PGM, named after the variables of RFC 3208.

use std::time::Duration;

use carillon_core::{BitRate, Config, ConfigError, Parameter};

use crate::blocks::REPAIR_BUDGET;

/// Duration of a repeated timer. Fails if it is zero, which would fire without end.
pub(super) fn interval(settings: &Config, rate: BitRate, name: &str) -> Result<Duration, ConfigError> {
    let span = settings.span(name).at(rate);
    match span.is_zero() {
        true => Err(ConfigError::Conflict(format!("{name} is to be longer than no time"))),
        false => Ok(span),
    }
}

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("dport", (1, 65_535), "7500").doc("data-destination port; 51712 to 51967 are refused"),
    // Source.
    Parameter::choice("window_advance", &["time", "data"], "time")
        .doc("time: a packet is held for txw_secs; data: until its room is needed and it was not asked for in txw_adv_ivl"),
    Parameter::span("txw_secs", "30 s")
        .doc("how long a packet is held, and how long SPMs say that the session is over"),
    Parameter::count("txw_sqns", (1, 1 << 24), "65536")
        .doc("packets held, at most: no new ones are taken beyond that"),
    Parameter::span("txw_adv_ivl", "1 s")
        .doc("with data: how long nobody may have asked for a packet before it goes"),
    Parameter::rate("txw_max_rte", "0")
        .doc("of data and SPMs, at most, with window_advance = data of repairs too; 0: as fast as the interface"),
    Parameter::size("txw_burst", (0, 1 << 30), "16384").doc("bytes that may go at once after a pause"),
    Parameter::span("spm_ivl", "500 ms").doc("between two ambient SPMs; ns-2's"),
    Parameter::span("ihb_min", "250 ms").doc("from the last data to the first heartbeat SPM"),
    Parameter::span("ihb_max", "8 s").doc("the greatest wait between two, which doubles"),
    Parameter::switch("join", "true")
        .doc("SPMs say that who comes late may ask for all that is held (OPT_JOIN)"),
    Parameter::span("rdata_delay", "70 ms")
        .doc("from the request to the repair, so that others are known before it; ns-2's; the chapter has 0"),
    Parameter::span("rdata_holdoff", "0 ms")
        .doc("a packet repaired less than this ago is confirmed, but not repaired again"),
    REPAIR_BUDGET,
    // Receiver.
    Parameter::span("nak_bo_ivl", "30 ms").doc("a request waits for a random time up to this; ns-2's"),
    Parameter::span("nak_rpt_ivl", "50 ms").doc("how long a receiver waits for the NCF; ns-2's"),
    Parameter::span("nak_rdata_ivl", "1 s").doc("how long it waits for the repair after that; ns-2's"),
    Parameter::count("nak_ncf_retries", (0, 1_000_000), "50")
        .doc("how often it goes on without an NCF; ns-2 has 5"),
    Parameter::count("nak_data_retries", (0, 1_000_000), "50")
        .doc("how often it goes on without a repair; ns-2 has 5"),
    Parameter::count("nak_list", (1, 63), "63").doc("packets that one request asks for, at most"),
    Parameter::count("rxw_sqns", (1, 65_536), "16384").doc("packets a receiver keeps or asks for, at most"),
    Parameter::span("spmr_bo_ivl", "250 ms")
        .doc("data without an SPM: one is asked for after a random time up to this"),
    Parameter::span("spmr_spm_ivl", "1 s").doc("and again after this"),
    // Network element.
    Parameter::span("ne_nak_rpt_rte", "50 ms")
        .doc("a router repeats a request each so long until the NCF comes; ns-2's"),
    Parameter::span("ne_nak_rpt_ivl", "1 s").doc("for this long; ns-2's"),
    Parameter::span("nak_elim_ivl", "500 ms")
        .doc("how long after the NCF it sends no further request for the packet on; ns-2 has 5 s"),
    Parameter::span("ne_nak_rdata_ivl", "10 s").doc("how long after the NCF it waits for the repair; ns-2's"),
    Parameter::count("ne_tsis", (1, 1 << 20), "1024").doc("sources a router helps, at most"),
    Parameter::count("ne_repairs", (1, 1 << 24), "16384").doc("packets of one source it waits for, at most"),
    Parameter::span("ne_tsi_expiry", "300 s").doc("a source without an SPM for so long is forgotten"),
    // Designated local repairers.
    Parameter::count("dlr_every", (0, u32::MAX as u64), "0")
        .doc("each so-manyth receiver, the first on, is a designated local repairer; 0: there are none"),
    Parameter::count("dlr_sqns", (1, 1 << 20), "1024")
        .doc("packets that a repairer holds for others, at most"),
    Parameter::span("dlr_poll_ivl", "1 s").doc("how often repairers are looked for, and answer"),
    Parameter::span("poll_bo_ivl", "50 ms").doc("a repairer answers after a random time up to this"),
    Parameter::span("dlr_expiry", "5 s")
        .doc("a repairer that has not answered for so long is not asked any more"),
    Parameter::span("dlr_nak_rpt_ivl", "100 ms")
        .doc("a repairer that has not confirmed a request for so long is dropped, and the source asked"),
    Parameter::count("ne_dlrs", (1, 1 << 16), "16").doc("repairers of one source a router knows, at most"),
    Parameter::count("ne_dlr_sqns", (0, 1 << 16), "0")
        .doc("packets of each source that a router keeps, at most, and repairs itself; 0: routers repair nothing"),
];

/// Settings for files over a real network: a window that advances with data (section 5.1.2) and short timers.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("window_advance", "data"),
    ("txw_sqns", "32768"),
    ("rxw_sqns", "32768"),
    ("txw_adv_ivl", "1 s"),
    ("txw_max_rte", "100 Mbit/s"),
    ("spm_ivl", "200 ms"),
    ("ihb_min", "10 ms"),
    ("ihb_max", "1 s"),
    ("rdata_delay", "2 ms"),
    // At most 100 repairs of a packet per second, however many receivers request it.
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
