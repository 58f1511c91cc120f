//! PGM repairs whatever is still in the transmit window: here all messages are. Requests and repairs go
//! on until everything is there; routers give way to a second request soon, so that a repair lost on a
//! long way costs little.

use carillon_core::Rng;
use carillon_testkit::Group;

use crate::Promises;

/// Where a way of nine links loses a fifth on each, one repair in eight comes, and each request for it is
/// sent on and confirmed at each of them.
pub const PROMISES: Promises =
    Promises { settings, control_per_node_and_second: 20.0, repeated_by_routers: Some("nak") };

fn settings(group: Group, rng: &mut Rng) -> Group {
    let ms = |from: u64, span: u64, rng: &mut Rng| format!("{} ms", from + rng.below(span));
    let (window, value) = [("time", "600 s"), ("data", "1 s")][rng.below(2) as usize];
    let mut group = group
        .set("window_advance", window)
        .set(if window == "time" { "txw_secs" } else { "txw_adv_ivl" }, value)
        .set("spm_ivl", &ms(100, 400, rng))
        .set("ihb_min", &ms(20, 500, rng))
        .set("rdata_delay", ["0 ms", "10 ms", "70 ms"][rng.below(3) as usize])
        .set("rdata_holdoff", ["0 ms", "50 ms"][rng.below(2) as usize])
        .set("nak_bo_ivl", &ms(0, 60, rng))
        .set("nak_rpt_ivl", &ms(40, 200, rng))
        .set("nak_rdata_ivl", &ms(300, 300, rng))
        .set("nak_ncf_retries", "100000")
        .set("nak_data_retries", "100000")
        .set("nak_list", ["1", "5", "63"][rng.below(3) as usize])
        .set("ne_nak_rpt_rte", &ms(20, 200, rng))
        .set("nak_elim_ivl", &ms(0, 300, rng));
    if rng.chance(0.3) {
        group = group.set("ne_nak_rdata_ivl", &ms(300, 2000, rng));
    }
    if rng.chance(0.5) {
        // The window of a source has all 30 messages, or routers keep less.
        group = group.set("ne_dlr_sqns", ["1", "4", "16", "1000"][rng.below(4) as usize]);
    }
    if rng.chance(0.5) {
        group = group
            .set("dlr_every", ["1", "2", "3"][rng.below(3) as usize])
            .set("dlr_sqns", ["4", "1000"][rng.below(2) as usize])
            .set("dlr_poll_ivl", &ms(100, 1000, rng))
            .set("poll_bo_ivl", &ms(0, 100, rng))
            .set("dlr_expiry", &ms(200, 3000, rng))
            .set("dlr_nak_rpt_ivl", &ms(20, 300, rng))
            .set("ne_dlrs", ["1", "16"][rng.below(2) as usize]);
    }
    group
}
