//! Guarantee, trial and forgeries for tests of PGM.

use super::{DeliveryGuarantee, ProtocolTests, TrialNetwork};

/// Tests of PGM.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "pgm",
    // The source repairs everything that is still in the transmit window. On a path of nine links with 20 % loss
    // each, one repair in eight arrives, and every hop forwards and confirms each NAK.
    guarantee: DeliveryGuarantee::ByRequest {
        control_per_node_and_second: 20.0,
        repeated_by_routers: Some("nak"),
    },
    // The window holds all messages of a trial. Requests and repairs continue until every receiver is complete, and
    // routers soon forward a second NAK, so that a repair lost on a long path costs little.
    trial: |trial| {
        match trial.chance(0.5) {
            true => trial.set("window_advance", "time").set("txw_secs", "600 s"),
            false => trial.set("window_advance", "data").set("txw_adv_ivl", "1 s"),
        };
        trial.ms("spm_ivl", 100, 400).ms("ihb_min", 20, 500).pick("rdata_delay", &["0 ms", "10 ms", "70 ms"]);
        trial.pick("rdata_holdoff", &["0 ms", "50 ms"]).ms("nak_bo_ivl", 0, 60).ms("nak_rpt_ivl", 40, 200);
        trial.ms("nak_rdata_ivl", 300, 300).set("nak_ncf_retries", 100_000).set("nak_data_retries", 100_000);
        trial.pick("nak_list", &["1", "5", "63"]).ms("ne_nak_rpt_rte", 20, 200).ms("nak_elim_ivl", 0, 300);
        if trial.chance(0.3) {
            trial.ms("ne_nak_rdata_ivl", 300, 2000);
        }
        if trial.chance(0.5) {
            // A router may store fewer packets than the source's window, which holds all messages.
            trial.pick("ne_dlr_sqns", &["1", "4", "16", "1000"]);
        }
        if trial.chance(0.5) {
            trial.pick("dlr_every", &["1", "2", "3"]).pick("dlr_sqns", &["4", "1000"]).ms(
                "dlr_poll_ivl",
                100,
                1000,
            );
            trial.ms("poll_bo_ivl", 0, 100).ms("dlr_expiry", 200, 3000).ms("dlr_nak_rpt_ivl", 20, 300);
            trial.pick("ne_dlrs", &["1", "16"]);
        }
        // Few messages pass over loopback, and parity sent ahead would leave nothing to repair.
        if trial.network != TrialNetwork::Loopback && trial.chance(0.4) {
            trial
                .pick("parity", &["on-demand", "proactive", "both"])
                .pick("tg_size", &["2", "4", "16", "64"]);
            trial.count("tg_parity", 1, 4);
        }
        if trial.chance(0.3) {
            trial.set("congestion", "pgmcc");
        }
    },
    rare: &[(
        "receiver, for a missing message",
        "BackOff",
        "Lost",
        "the window of a trial holds every packet that can be missing",
    )],
    ..ProtocolTests::BASE
};

/// Tests of plain sessions, which a suite adds to the registry.
pub(super) const PLAIN_TESTS: ProtocolTests = ProtocolTests {
    name: "pgm-plain",
    trial: |trial| {
        (TESTS.trial)(trial);
        // Receivers that repair for others take part in sessions only, and so does parity.
        trial.set("dlr_every", 0).set("parity", "none");
    },
    ..TESTS
};
