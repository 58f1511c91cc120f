//! The network element. The source lies behind port 0, upstream of it node 3; receivers behind 1 and 2.

use carillon_core::{DropReason, Role};
use carillon_wire::pgm::Options;

use super::desk::{Desk, list, nak, ncf, none, odata, rdata, spm};

/// Its interval of elimination is 500 ms.
fn element(settings: &[(&str, &str)]) -> Desk {
    let mut all = vec![("nak_elim_ivl", "500 ms")];
    all.extend_from_slice(settings);
    let mut desk = Desk::new(Role::Relay, &all);
    desk.pass(0, spm(0, 3, 0, 0), none());
    desk
}

const NOTHING: [&str; 0] = [];

#[test]
fn an_spm_goes_on_with_this_element_as_its_path_7_1() {
    let mut desk = Desk::new(Role::Relay, &[]);
    let passed = desk.pass(0, spm(4, 3, 0, 7), Options { fin: true, ..none() });
    assert_eq!(passed, "pgm spm 4 trail 0 lead 6 path 10.0.0.10 fin");
    // Old ones go nowhere.
    assert_eq!(desk.pass(0, spm(4, 3, 0, 7), none()), "absorb");
    assert_eq!(desk.drops(), [DropReason::Redundant]);
    assert_eq!(desk.pass(0, spm(5, 3, 0, 7), none()), "pgm spm 5 trail 0 lead 6 path 10.0.0.10");
}

#[test]
fn original_data_passes_and_changes_nothing_7_1() {
    let mut desk = element(&[]);
    desk.hear_by(1, 5, nak(3), none());
    assert_eq!(desk.pass(0, odata(3), none()), "forward");
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p1");
}

#[test]
fn a_nak_is_confirmed_on_its_port_and_sent_on_until_it_is_confirmed_7_2() {
    let mut desk = element(&[("ne_nak_rpt_rte", "50 ms")]);
    desk.hear_by(1, 5, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n3"]);
    desk.at(49);
    assert_eq!(desk.sent(), NOTHING);
    desk.at(100);
    assert_eq!(desk.sent(), ["nak 3 to n3"; 2]);
    assert_eq!(desk.pass(0, ncf(3), none()), "absorb");
    desk.at(9000);
    assert_eq!(desk.sent(), NOTHING);
}

#[test]
fn without_confirmation_it_gives_up_7_2() {
    let mut desk = element(&[("ne_nak_rpt_rte", "400 ms"), ("ne_nak_rpt_ivl", "1 s")]);
    desk.hear_by(1, 5, nak(3), none());
    desk.at(60_000);
    assert_eq!(desk.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n3", "nak 3 to n3", "nak 3 to n3"]);
    assert_eq!(desk.pass(0, rdata(3), none()), "absorb");
}

#[test]
fn further_naks_are_eliminated_but_confirmed_and_served_7_3() {
    let mut desk = element(&[]);
    desk.hear_by(1, 5, nak(3), none());
    desk.pass(0, ncf(3), none());
    desk.sent();
    desk.events();
    desk.at(499).hear_by(2, 6, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p2 as n0 to all"]);
    assert_eq!(desk.drops(), [DropReason::Redundant]);
    // The first one after the interval goes on, and begins it anew.
    desk.at(500).hear_by(2, 6, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p2 as n0 to all", "nak 3 to n3"]);
    desk.hear_by(1, 5, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p1 as n0 to all"]);
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p1 p2");
}

/// What makes a source repair again and again: the repair took the state away before the slower branch asked.
#[test]
fn a_repair_deletes_the_state_so_that_a_later_nak_goes_all_the_way_7_4() {
    let mut desk = element(&[]);
    desk.hear_by(1, 5, nak(3), none());
    desk.pass(0, ncf(3), none());
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p1");
    assert_eq!(desk.pass(0, rdata(3), none()), "absorb");
    desk.sent();
    desk.hear_by(2, 6, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p2 as n0 to all", "nak 3 to n3"]);
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p2");
    desk.at(60_000);
    assert_eq!(desk.sent(), NOTHING);
}

#[test]
fn an_ncf_makes_state_for_naks_to_come_7_5() {
    let mut desk = element(&[]);
    assert_eq!(desk.pass(0, ncf(3), none()), "absorb");
    desk.hear_by(1, 5, nak(3), none());
    assert_eq!(desk.sent(), ["ncf 3 to p1 as n0 to all"]);
    assert_eq!(desk.pass(0, rdata(3), none()), "forward on p1");
    // But nobody has asked here for the next.
    desk.pass(0, ncf(4), none());
    assert_eq!(desk.pass(0, rdata(4), none()), "forward on ");
}

#[test]
fn an_ncf_that_does_not_come_from_upstream_confirms_nothing_7_2() {
    let mut desk = element(&[("ne_nak_rpt_rte", "50 ms")]);
    desk.hear_by(1, 5, nak(3), none());
    desk.sent();
    assert_eq!(desk.pass(2, ncf(3), none()), "absorb");
    desk.at(50);
    assert_eq!(desk.sent(), ["nak 3 to n3"]);
}

#[test]
fn the_state_dies_without_a_repair_7_2() {
    let mut desk = element(&[("ne_nak_rdata_ivl", "10 s")]);
    desk.hear_by(1, 5, nak(3), none());
    desk.pass(0, ncf(3), none());
    desk.at(10_000);
    assert_eq!(desk.pass(0, rdata(3), none()), "absorb");
}

#[test]
fn a_list_is_confirmed_whole_and_what_is_new_of_it_goes_on_7_6() {
    let mut desk = element(&[]);
    desk.hear_by(1, 5, nak(3), none());
    desk.pass(0, ncf(3), none());
    desk.sent();
    desk.hear_by(2, 6, nak(3), list(&[0, 0, 0, 4, 0, 0, 0, 5]));
    assert_eq!(desk.sent(), ["ncf 3 list [4, 5] to p2 as n0 to all", "nak 4 list [5] to n3"]);
    desk.pass(0, ncf(4), list(&[0, 0, 0, 5]));
    desk.hear_by(1, 5, nak(4), list(&[0, 0, 0, 5]));
    assert_eq!(desk.sent(), ["ncf 4 list [5] to p1 as n0 to all"]);
    assert_eq!(desk.pass(0, rdata(5), none()), "forward on p1 p2");
}

#[test]
fn where_no_spm_has_passed_it_is_a_router_like_any_other() {
    let mut desk = Desk::new(Role::Relay, &[]);
    for packet in [odata(1), rdata(1), ncf(1)] {
        assert_eq!(desk.pass(0, packet, none()), "forward");
    }
    desk.hear_by(1, 5, nak(1), none());
    assert_eq!(desk.drops(), [DropReason::Foreign]);
    assert_eq!(desk.sent(), NOTHING);
}

#[test]
fn a_source_that_is_silent_is_forgotten() {
    let mut desk = element(&[("ne_tsi_expiry", "10 s")]);
    desk.hear_by(1, 5, nak(1), none());
    desk.at(10_000);
    assert_eq!(desk.timer(), None);
    assert_eq!(desk.pass(0, rdata(1), none()), "forward");
}

#[test]
fn what_it_remembers_is_bounded() {
    let mut desk = element(&[("ne_repairs", "2")]);
    desk.hear_by(1, 5, nak(3), list(&[0, 0, 0, 4]));
    desk.sent();
    desk.events();
    desk.hear_by(1, 5, nak(5), none());
    assert_eq!(desk.drops(), [DropReason::BufferFull]);
    // Not confirmed: whoever asks asks again.
    assert_eq!(desk.sent(), NOTHING);
    desk.pass(0, ncf(6), none());
    assert_eq!(desk.pass(0, rdata(6), none()), "absorb");
}
