//! Settings for trials of protocols with the retransmission of Segovia (1996).

use super::{Trial, TrialNetwork};

/// Chooses settings for a conformance trial of a protocol with these parameters. `may_adapt_wait` permits an adaptive
/// wait before acknowledgments.
pub(super) fn trial(trial: &mut Trial<'_>, may_adapt_wait: bool) {
    trial.set("retransmission_limit", trial.max_attempts.unwrap_or(1_000_000));
    trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
    trial.pick("ack_bytes", &["0 byte", "64 byte", "200 byte"]);
    match trial.network {
        // A machine may stop for a while, which must not look like loss.
        TrialNetwork::Loopback => {
            let timeout = if trial.is_lossy { "40 ms" } else { "2 s" };
            trial.set("timeout_method", "constant").set("timeout", timeout);
            return;
        }
        // A frame that is repeated before it can be answered fills the interface faster than it empties.
        TrialNetwork::Ethernet => trial.set("timeout", "100 ms").set("timeout_min", "50 ms"),
        _ if trial.crashes > 0 => trial.set("timeout", "50 ms"),
        // More than a round trip, or much less, which costs packets but never messages.
        _ => trial.pick("timeout", &["50 ms", "50 ms", "500 us"]),
    };
    trial.pick("timeout_method", &["formula", "constant", "adaptive"]);
    trial.pick("ack_wait", &["0 bit", "1 bit", "6000 bit"]);
    if may_adapt_wait {
        trial.pick("ack_wait_method", &["constant", "adaptive"]);
    }
}
