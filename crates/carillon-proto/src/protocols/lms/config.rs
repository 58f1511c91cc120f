//! Parameters of the protocol. The source publishes few of them; the other defaults suit networks with delays of some
//! tens of milliseconds.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, Parameter};

use super::sample::{Limits, Offers};
use crate::blocks::REPAIR_BUDGET;

/// Parameters in the order of the protocol's page.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::span("setup_ivl", "5 s")
        .doc("the source sends SETUP this often, the first at once; a replier or way up that was not refreshed for three of these is forgotten (ns-2 sends one SETUP)"),
    Parameter::span("heartbeat", "250 ms")
        .doc("after the last message the source says with SPM how far it has come: after this time, then each time after twice the time, until that reaches setup_ivl; zero is never (Carillon's)"),
    Parameter::size("nak_bytes", (0, 1500), "80")
        .doc("size of a REQ and a REFRESH on the network, its headers included, as far as they are not longer (ns-2)"),
    Parameter::choice("retry", &["escalate", "as-published"], "escalate")
        .doc("what another attempt does: escalate: it goes past one replier more each time and is no duplicate of the one before; as-published: as the first, so that a replier that remembers the first ignores it (ns-2)"),
    Parameter::span("retry_max", "2 s")
        .doc("longest wait for a repair; it starts at twice the RTT and doubles at each attempt (ns-2 has no longest one)"),
    Parameter::count("direct_after", (1, 1_000_000), "6")
        .doc("with retry = escalate, attempts after which a receiver asks the source itself, which answers it alone (Carillon's)"),
    Parameter::span("rtt", "0 bit")
        .doc("round-trip time to the source; zero: twice the time that its SETUP took, for which all clocks must agree (ns-2)"),
    Parameter::choice("replier_choice", &["static", "adaptive", "triggered"], "static")
        .doc("static: every receiver offers itself as replier at cost 0, so that the nearest stays; adaptive: at the cost of its losses; triggered: the same, but only when conditions have changed (thesis, section 5.8.4)"),
    Parameter::count("loss_smpl_ivl", (1, 1_000_000), "100")
        .doc("unless replier_choice = static, packets of a sample: its number of losses is the cost, and after it a receiver may offer itself anew"),
    Parameter::probability("trigger_exposure", "0.2")
        .doc("with replier_choice = triggered: a receiver offers itself anew when more than this share of a sample's packets are duplicates (Carillon's value)"),
    Parameter::count("trigger_latency", (1, 1_000_000), "150")
        .doc("with replier_choice = triggered: a receiver offers itself anew when its repairs take longer than this percentage of its round trip to the source, on average over a sample (Carillon's value)"),
    Parameter::count("refresh_limit", (0, 1_000_000), "0")
        .doc("updates of the replier that a router accepts from an interface in each setup_ivl, the answers to SETUP included; 0: any number (thesis, section 5.8.4: a filter against malfunctioning receivers)"),
    Parameter::switch("src_refresh", "false")
        .doc("the source offers itself as replier too: a router that is nearer to it than to its replier turns to it"),
    Parameter::count("buffer", (1, 65_536), "1024")
        .doc("messages that the source holds for repairs, and that a receiver keeps out of order or for a slow application; the same at both (Carillon's)"),
    Parameter::count("replier_buffer", (0, 65_536), "128")
        .doc("messages that a receiver keeps for others after it delivered them (ns-2 keeps all)"),
    Parameter::span("send_interval", "0 bit")
        .doc("least time between packets with a message of the source, repairs too; zero hands all to the interface at once (Carillon's)"),
    Parameter::span("repair_holdoff", "0 bit")
        .doc("the source sends a message that it repaired less than this ago, for all or for the same one, not again (Carillon's)"),
    REPAIR_BUDGET,
    Parameter::count("sources", (1, 65_536), "1024")
        .doc("sources that a router keeps state for; to others it is no LMS router (Carillon's)"),
];

/// Settings for files over a real network: no LMS routers, no common clock, and short round-trip times.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("setup_ivl", "500 ms"),
    ("heartbeat", "10 ms"),
    ("retry_max", "100 ms"),
    ("rtt", "5 ms"),
    ("buffer", "16384"),
    ("replier_buffer", "0"),
    ("send_interval", "50 us"),
    // The hold-off is shorter than the minimum time after which a receiver repeats a request.
    ("repair_holdoff", "8 ms"),
    ("repair_budget", "9"),
];

/// Settings of the machines, read from the configuration.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Interval of SETUP.
    pub setup_ivl: Duration,
    /// First interval of the heartbeat; `None` for no heartbeat.
    pub heartbeat: Option<Duration>,
    /// Minimum length of a REQ or REFRESH datagram in bytes.
    pub nak_len: usize,
    /// True if each attempt passes one more replier.
    pub escalate: bool,
    /// Maximum wait for a repair.
    pub retry_max: Duration,
    /// Number of attempts after which a receiver asks the source directly.
    pub direct_after: u32,
    /// Configured round-trip time; `None` to measure it from SETUP.
    pub rtt: Option<Duration>,
    /// Rule for offers of a receiver as replier; `None` for static repliers.
    pub offers: Option<Offers>,
    /// Number of packets in a loss sample.
    pub loss_smpl_ivl: u64,
    /// Maximum number of updates from an interface in a SETUP interval; 0 for any number.
    pub refresh_limit: u32,
    /// True if the source offers itself as replier.
    pub src_refresh: bool,
    /// Messages that the source holds, or a receiver keeps out of order.
    pub buffer: u64,
    /// Messages that a receiver keeps for repairs after their delivery.
    pub replier_buffer: u64,
    /// Minimum interval between packets with a message.
    pub send_interval: Duration,
    /// Time within which the source does not repeat a repair.
    pub repair_holdoff: Duration,
    /// Maximum number of repairs that one member may cause in a window.
    pub repair_budget: u64,
    /// Maximum number of sources for which a router keeps state.
    pub sources: usize,
}

impl Settings {
    /// Reads the settings; refuses a zero interval.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let span = |name| config.span(name).at(context.bit_rate);
        let some = |span: Duration| (!span.is_zero()).then_some(span);
        let (setup_ivl, retry_max) = (span("setup_ivl"), span("retry_max"));
        if setup_ivl.is_zero() {
            return Err(ConfigError::Conflict("setup_ivl must be more than zero".to_owned()));
        }
        if retry_max < MIN_REQUEST_WAIT {
            return Err(ConfigError::Conflict(format!("retry_max must be {MIN_REQUEST_WAIT:?} at least")));
        }
        let offers = match config.choice("replier_choice") {
            "adaptive" => Some(Offers::Sampled),
            "triggered" => Some(Offers::Triggered(Limits {
                exposure: config.probability("trigger_exposure").value() as f32,
                latency: config.count("trigger_latency") as f32 / 100.0,
            })),
            _ => None,
        };
        Ok(Settings {
            setup_ivl,
            heartbeat: some(span("heartbeat")),
            nak_len: (config.size("nak_bytes").0 as usize).saturating_sub(context.link_overhead as usize),
            escalate: config.choice("retry") == "escalate",
            retry_max,
            direct_after: config.count("direct_after") as u32,
            rtt: some(span("rtt")),
            offers,
            loss_smpl_ivl: config.count("loss_smpl_ivl"),
            refresh_limit: config.count("refresh_limit") as u32,
            src_refresh: config.switch("src_refresh"),
            buffer: config.count("buffer"),
            replier_buffer: config.count("replier_buffer"),
            send_interval: span("send_interval"),
            repair_holdoff: span("repair_holdoff"),
            repair_budget: config.count("repair_budget"),
            sources: config.count("sources") as usize,
        })
    }
}

/// Minimum wait before a request is repeated, so that time passes between two attempts.
pub(super) const MIN_REQUEST_WAIT: Duration = Duration::from_millis(1);
