//! Parameters of RMTP. The papers leave them to a session manager and publish no defaults; these suit networks with
//! delays of some tens of milliseconds.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Parameter, Scope};

use crate::blocks::{FAILURE_TIMEOUT, FailureTimeout, PastLimit, REPAIR_BUDGET};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("window", (1, 65_536), "64")
        .doc("W_s: maximum distance of a new message from the first one that a reporting node is missing, in messages"),
    Parameter::count("cache_size", (1, 65_536), "1024")
        .doc("messages that the sender and each designated receiver keep for repairs, at least the window; the sources move older ones to disk, here \
        the sender stops while this many are not stable"),
    Parameter::span("t_send", "10 ms")
        .doc("T_send: interval of the sender's opportunities, at each of which it may send as many new messages as the congestion window holds"),
    Parameter::span("t_retx", "20 ms")
        .doc("T_retx: interval of repairs"),
    Parameter::span("t_ack", "50 ms")
        .doc("T_ack: minimum interval of a receiver's acknowledgments; at least the round-trip time to its acknowledgment processor"),
    Parameter::count("k_max", (1, 32), "1")
        .doc("maximum factor by which the acknowledgment interval grows, doubling while nothing changes; 1: constant, as in the sources (Carillon's, after SNR)"),
    Parameter::span("t_rtt", "1 s").doc("T_rtt: interval of round-trip time measurements"),
    Parameter::span("t_sap", "1 s")
        .doc("with ap_choice = \"nearest\", interval of offers to serve as acknowledgment processor (SND_ACK_TOME)"),
    Parameter::choice("ap_choice", &["table", "nearest"], "table")
        .doc("acknowledgment processor of a receiver: table: its parent in the session; nearest: the offering node the fewest routers away, with occasional reports to the parent"),
    Parameter::count("sap_ttl", (1, 255), "64")
        .doc("TTL of an offer; the remaining TTL tells which node is nearest"),
    Parameter::count("mcast_thresh", (0, 1_000_000), "2")
        .doc("number of requesters above which a repair goes to the group instead of to each of them"),
    Parameter::count("repair_ttl", (1, 255), "255")
        .doc("TTL of a designated receiver's multicast repairs: the sources send them down the subtree only, which IP cannot (Carillon's)"),
    Parameter::count("congestion_thresh", (0, 1_000_000), "16")
        .doc("number of requests since the last opportunity above which the congestion window falls to one message; otherwise it grows by one"),
    Parameter::count("txnow_burst", (0, 65_536), "64")
        .doc("messages sent at once to a receiver that is a window behind and asks for it (ACK_TXNOW)"),
    Parameter::count("ack_limit", (1, 1_000_000), "100")
        .doc("number of intervals t_ack without progress, although messages were available, after which past_limit applies (Carillon's)"),
    Parameter::choice("past_limit", &["wait", "expel", "skip"], "wait")
        .doc("action past the limit: wait: repair until the member is expelled otherwise; expel: expel the receiver; skip: skip its missing messages (Carillon's: the sources know no members)"),
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
