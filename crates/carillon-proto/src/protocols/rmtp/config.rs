//! Parameters of RMTP. The papers leave them to a session manager and publish no defaults; these suit networks with
//! delays of some tens of milliseconds.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Parameter, Scope};

use crate::blocks::{FAILURE_TIMEOUT, FailureTimeout, PastLimit, REPAIR_BUDGET};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("window", (1, 65_536), "64")
        .doc("W_s: the sender sends no message that lies so many beyond the first that one of those who report to it lacks"),
    Parameter::count("cache_size", (1, 65_536), "1024")
        .doc("messages that the sender and each designated receiver keep for repairs, at least as many as the window; the sources put older ones on disk, here nothing is sent while so many are not with all"),
    Parameter::span("t_send", "10 ms")
        .doc("interval of the sender's opportunities to send: at each it may send as many new messages as the congestion window has"),
    Parameter::span("t_retx", "20 ms")
        .doc("interval at which what was asked for is repaired"),
    Parameter::span("t_ack", "50 ms")
        .doc("least interval between two acknowledgments of a receiver; it is no less than the round trip to whom it reports"),
    Parameter::count("k_max", (1, 32), "1")
        .doc("while nothing changes the interval doubles up to so many times its length; 1: it stays what it is, as in the sources (Carillon's, after SNR)"),
    Parameter::span("t_rtt", "1 s").doc("interval at which that round trip is measured"),
    Parameter::span("t_sap", "1 s")
        .doc("with ap_choice = \"nearest\", interval at which those who repair offer themselves (SND_ACK_TOME)"),
    Parameter::choice("ap_choice", &["table", "nearest"], "table")
        .doc("whom a receiver reports to: table: whom the session says; nearest: of those who offer themselves who is the fewest routers away, the session's being told now and then"),
    Parameter::count("sap_ttl", (1, 255), "64")
        .doc("routers that an offer may pass, all the same: by what is left the nearest is known"),
    Parameter::count("mcast_thresh", (0, 1_000_000), "2")
        .doc("what more receivers than this ask for goes to the group, else to each of them"),
    Parameter::count("repair_ttl", (1, 255), "255")
        .doc("routers that a designated receiver's multicast may pass: the sources have it sent down the subtree alone, which IP cannot (Carillon's)"),
    Parameter::count("congestion_thresh", (0, 1_000_000), "16")
        .doc("more requests than this since the last opportunity set the congestion window to one message; else it grows by one"),
    Parameter::count("txnow_burst", (0, 65_536), "64")
        .doc("messages sent at once to a receiver that is a window behind and says so (ACK_TXNOW)"),
    Parameter::count("ack_limit", (1, 1_000_000), "100")
        .doc("past_limit applies to who has got on by nothing in so many intervals t_ack, though something was there to get (Carillon's)"),
    Parameter::choice("past_limit", &["wait", "expel", "skip"], "wait")
        .doc("past the limit: wait: repair until told that it is gone; expel the receiver; or skip what it lacks (Carillon's: the sources know no members)"),
    FAILURE_TIMEOUT,
    REPAIR_BUDGET,
];

/// Settings for files over a real network: short round trips and no rate limit beyond the windows.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("t_send", "1 ms"),
    ("t_retx", "1 ms"),
    ("t_ack", "5 ms"),
    ("k_max", "32"),
    ("t_rtt", "200 ms"),
    ("congestion_thresh", "100000"),
    ("repair_budget", "9"),
];

/// Values from the host: no more messages in flight than fit the receivers' buffers.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[
    ("window", HostValue::Window { min: 4, max: 8192 }),
    ("cache_size", HostValue::Bytes(32 << 20)),
    ("failure_timeout", HostValue::MemberTimeout),
];

/// Parameters in the units that the machines use.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub window: u64,
    pub cache: u64,
    pub t_send: Duration,
    pub t_retx: Duration,
    pub t_ack: Duration,
    pub k_max: u32,
    pub t_rtt: Duration,
    pub t_sap: Duration,
    pub nearest: bool,
    pub sap_scope: Scope,
    pub mcast_thresh: usize,
    pub repair_scope: Scope,
    pub congestion_thresh: u64,
    pub txnow_burst: usize,
    pub patience: FailureTimeout,
    pub past_limit: PastLimit,
    pub repair_budget: u64,
}

impl Settings {
    /// Reads and checks the parameters. Fails if a duration is zero.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let span = |name: &str| {
            let span = config.span(name).at(context.bit_rate);
            if span.is_zero() {
                return Err(ConfigError::Conflict(format!("{name} must be more than zero")));
            }
            Ok(span)
        };
        let window = config.count("window");
        Ok(Settings {
            window,
            cache: config.count("cache_size").max(window),
            t_send: span("t_send")?,
            t_retx: span("t_retx")?,
            t_ack: span("t_ack")?,
            k_max: config.count("k_max") as u32,
            t_rtt: span("t_rtt")?,
            t_sap: span("t_sap")?,
            nearest: config.choice("ap_choice") == "nearest",
            sap_scope: Scope(config.count("sap_ttl") as u8),
            mcast_thresh: config.count("mcast_thresh") as usize,
            repair_scope: Scope(config.count("repair_ttl") as u8),
            congestion_thresh: config.count("congestion_thresh"),
            txnow_burst: config.count("txnow_burst") as usize,
            patience: FailureTimeout::new(
                config.count("ack_limit") as u32,
                config.span("failure_timeout").at(context.bit_rate),
            ),
            past_limit: match config.choice("past_limit") {
                "expel" => PastLimit::Expel,
                "skip" => PastLimit::Skip,
                _ => PastLimit::Wait,
            },
            repair_budget: config.count("repair_budget"),
        })
    }
}
