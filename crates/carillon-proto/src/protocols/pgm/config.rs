//! Parameters of PGM, named after the variables of RFC 3208.

use std::time::Duration;

use carillon_core::{BitRate, Config, ConfigError, Parameter};

use crate::blocks::REPAIR_BUDGET;

/// Duration of a repeated timer. Fails if it is zero, which would fire without end.
pub(super) fn interval(settings: &Config, rate: BitRate, name: &str) -> Result<Duration, ConfigError> {
    let span = settings.span(name).at(rate);
    match span.is_zero() {
        true => Err(ConfigError::Conflict(format!("{name} must be more than zero"))),
        false => Ok(span),
    }
}

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("dport", (1, 65_535), "7500").doc("data-destination port; 51712 to 51967 are refused"),
    // Source.
    Parameter::choice("window_advance", &["time", "data"], "time")
        .doc("advance of the transmit window (RFC 3208, 5.1.2): time: packets are kept for txw_secs; data: packets are kept until their room is needed and no NAK named them within txw_adv_ivl"),
    Parameter::span("txw_secs", "30 s")
        .doc("time that packets are kept, and that SPMs announce the end of the session"),
    Parameter::count("txw_sqns", (1, 1 << 24), "65536")
        .doc("maximum number of packets kept; no new ones are accepted beyond it"),
    Parameter::span("txw_adv_ivl", "1 s")
        .doc("with window_advance = data, time without a NAK after which a packet may be dropped"),
    Parameter::rate("txw_max_rte", "0")
        .doc("maximum rate of data and SPMs, and with window_advance = data of repairs; 0: the interface's rate"),
    Parameter::size("txw_burst", (0, 1 << 30), "16384").doc("maximum burst after a pause"),
    Parameter::span("spm_ivl", "500 ms").doc("interval of ambient SPMs; from ns-2"),
    Parameter::span("ihb_min", "250 ms").doc("time from the last data to the first heartbeat SPM"),
    Parameter::span("ihb_max", "8 s").doc("maximum interval of heartbeat SPMs, which doubles each time"),
    Parameter::switch("join", "true")
        .doc("SPMs allow late receivers to request everything in the window (OPT_JOIN)"),
    Parameter::span("rdata_delay", "70 ms")
        .doc("delay of a repair, which collects further NAKs; from ns-2; the chapter has 0"),
    Parameter::span("rdata_holdoff", "0 ms")
        .doc("time after a repair in which further NAKs for the packet are confirmed but not repaired"),
    REPAIR_BUDGET,
    Parameter::choice("parity", &["none", "on-demand", "proactive", "both"], "none")
        .doc("parity packets (RFC 3208, 11): on-demand: NAKs ask for a number of parity packets of a transmission group; proactive: tg_parity of them follow each group"),
    Parameter::choice("tg_size", &["2", "4", "8", "16", "32", "64", "128"], "16")
        .doc("number of data packets in a transmission group"),
    Parameter::count("tg_parity", (1, 127), "1").doc("with proactive parity, number of parity packets after each group"),
    Parameter::choice("congestion", &["none", "pgmcc"], "none")
        .doc("congestion control: pgmcc: a window that the acknowledgments of the slowest receiver move (PGMCC); receivers must know PGMCC too"),
    // Receiver.
    Parameter::span("nak_bo_ivl", "30 ms").doc("maximum random back-off of a NAK; from ns-2"),
    Parameter::span("nak_rpt_ivl", "50 ms").doc("time that a receiver waits for an NCF; from ns-2"),
    Parameter::span("nak_rdata_ivl", "1 s").doc("time that a receiver waits for the repair after an NCF; from ns-2"),
    Parameter::count("nak_ncf_retries", (0, 1_000_000), "50")
        .doc("maximum number of retries without an NCF; ns-2 has 5"),
    Parameter::count("nak_data_retries", (0, 1_000_000), "50")
        .doc("maximum number of retries without a repair; ns-2 has 5"),
    Parameter::count("nak_list", (1, 63), "63").doc("maximum number of packets in one NAK"),
    Parameter::count("rxw_sqns", (1, 65_536), "16384").doc("maximum number of packets in the receive window"),
    Parameter::span("spmr_bo_ivl", "250 ms")
        .doc("maximum random back-off of an SPM request (SPMR), sent when data arrives without an SPM"),
    Parameter::span("spmr_spm_ivl", "1 s").doc("interval of repeated SPM requests"),
    // Network element.
    Parameter::span("ne_nak_rpt_rte", "50 ms")
        .doc("interval at which a router repeats a NAK until its NCF arrives; from ns-2"),
    Parameter::span("ne_nak_rpt_ivl", "1 s").doc("time for which a router repeats a NAK; from ns-2"),
    Parameter::span("nak_elim_ivl", "500 ms")
        .doc("time after an NCF in which a router forwards no further NAK for the packet; ns-2 has 5 s"),
    Parameter::span("ne_nak_rdata_ivl", "10 s").doc("time that a router waits for the repair after an NCF; from ns-2"),
    Parameter::count("ne_tsis", (1, 1 << 20), "1024").doc("maximum number of sources that a router serves"),
    Parameter::count("ne_repairs", (1, 1 << 24), "16384").doc("maximum number of requested packets per source at a router"),
    Parameter::span("ne_tsi_expiry", "300 s").doc("time without an SPM after which a router forgets a source"),
    // Designated local repairers.
    Parameter::count("dlr_every", (0, u32::MAX as u64), "0")
        .doc("every n-th receiver, starting with the first, is a designated local repairer; 0: none"),
    Parameter::count("dlr_sqns", (1, 1 << 20), "1024")
        .doc("maximum number of packets that a repairer keeps for others"),
    Parameter::span("dlr_poll_ivl", "1 s").doc("interval of POLLs for repairers"),
    Parameter::span("poll_bo_ivl", "50 ms").doc("maximum random delay of a repairer's answer to a POLL"),
    Parameter::span("dlr_expiry", "5 s")
        .doc("time without an answer after which a repairer is no longer asked"),
    Parameter::span("dlr_nak_rpt_ivl", "100 ms")
        .doc("time without an NCF after which a repairer is dropped and the source is asked"),
    Parameter::count("ne_dlrs", (1, 1 << 16), "16").doc("maximum number of repairers per source at a router"),
    Parameter::count("ne_dlr_sqns", (0, 1 << 16), "0")
        .doc("maximum number of packets per source that a router stores and repairs itself; 0: routers do not repair"),
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
