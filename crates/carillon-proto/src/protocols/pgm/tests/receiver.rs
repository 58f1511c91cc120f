//! The receiver.

use carillon_core::{AssociationId, Config, DropReason, NodeId, Role};
use carillon_wire::pgm::Options;

use super::desk::{Desk, context, list, nak, ncf, none, odata, rdata, spm, time};
use crate::blocks::Player;
use crate::protocols::pgm::{ENTRY, PgmReceiver};

/// Back-off of no time, so that what is sent is sent at once.
fn receiver(settings: &[(&str, &str)]) -> Desk {
    let mut all = vec![("nak_bo_ivl", "0 ms")];
    all.extend_from_slice(settings);
    Desk::new(Role::Receiver, &all)
}

/// It knows the window and has delivered packets 0 to 2.
fn running(settings: &[(&str, &str)]) -> Desk {
    let mut desk = receiver(settings);
    desk.hear(0, spm(0, 9, 0, 0), none());
    for sqn in 0..3 {
        desk.hear(0, odata(sqn), none());
    }
    assert_eq!(desk.fates(), ["delivered 0", "delivered 1", "delivered 2"]);
    desk
}

#[test]
fn a_gap_is_asked_for_where_the_spm_says_6_3() {
    let mut desk = running(&[]);
    desk.hear(0, odata(4), none());
    assert_eq!(desk.sent(), ["nak 3 to n9"]);
    desk.hear(0, ncf(3), none());
    desk.at(20).hear(0, rdata(3), none());
    assert_eq!(desk.fates(), ["found 3", "requested 3", "repaired 3", "delivered 3", "delivered 4"]);
    assert_eq!(desk.timer(), None);
}

#[test]
fn the_newest_spm_says_where_requests_go_6_2() {
    let mut desk = running(&[]);
    desk.hear(0, spm(2, 8, 0, 3), none());
    // An older one says nothing.
    desk.hear(0, spm(1, 7, 0, 9), none());
    assert_eq!(desk.drops(), [DropReason::Redundant]);
    desk.hear(0, odata(4), none());
    assert_eq!(desk.sent(), ["nak 3 to n8"]);
}

#[test]
fn a_path_that_is_no_other_node_is_where_the_spm_came_from() {
    let mut desk = receiver(&[]);
    desk.hear(0, spm(0, 5, 0, 0), none());
    desk.hear(0, odata(1), none());
    assert_eq!(desk.sent(), ["nak 0 to n0"]);
}

#[test]
fn the_back_off_is_random_and_ends_with_the_data_6_4() {
    let mut desk = Desk::new(Role::Receiver, &[("nak_bo_ivl", "30 ms")]);
    desk.hear(0, spm(0, 9, 0, 0), none());
    desk.hear(0, odata(1), none());
    let wait = desk.timer().expect("a back-off");
    assert!(wait > time(0) && wait < time(30), "{wait}");
    // The original was only late: nothing was lost, and nothing is asked for.
    desk.hear(0, odata(0), none());
    desk.at(1000);
    assert_eq!(desk.sent(), [""; 0]);
    assert_eq!(desk.fates(), ["found 0", "delivered 0", "delivered 1"]);
}

#[test]
fn an_ncf_in_back_off_suppresses_the_nak_6_4() {
    let mut desk = Desk::new(Role::Receiver, &[("nak_bo_ivl", "30 ms"), ("nak_rdata_ivl", "1 s")]);
    desk.hear(0, spm(0, 9, 0, 0), none());
    desk.hear(0, odata(1), none());
    desk.hear(0, ncf(0), none());
    assert_eq!(desk.timer(), Some(time(1000)));
    assert_eq!(desk.fates(), ["found 0", "suppressed 0"]);
    // No repair: back-off again, then its own NAK.
    desk.at(1030);
    assert_eq!(desk.sent(), ["nak 0 to n9"]);
}

#[test]
fn an_overheard_nak_waits_for_its_ncf_without_one_of_its_own_6_4() {
    let mut desk = Desk::new(Role::Receiver, &[("nak_bo_ivl", "30 ms"), ("nak_rpt_ivl", "50 ms")]);
    desk.hear(0, spm(0, 9, 0, 0), none());
    desk.hear(0, odata(1), none());
    desk.hear(7, nak(0), none());
    assert_eq!(desk.timer(), Some(time(50)));
    assert_eq!(desk.fates(), ["found 0", "suppressed 0"]);
    desk.at(80);
    assert_eq!(desk.sent(), ["nak 0 to n9"]);
}

#[test]
fn without_an_ncf_the_nak_is_repeated_and_then_given_up_6_4() {
    let mut desk = running(&[("nak_rpt_ivl", "50 ms"), ("nak_ncf_retries", "2")]);
    desk.hear(0, odata(4), none());
    assert_eq!(desk.sent().len(), 1);
    desk.at(49);
    assert_eq!(desk.sent().len(), 0);
    desk.at(50);
    assert_eq!(desk.sent().len(), 1);
    desk.at(149);
    assert_eq!(desk.sent(), ["nak 3 to n9"]);
    desk.events();
    desk.at(150);
    assert_eq!(desk.sent().len(), 0);
    // Delivery goes on behind the gap.
    assert_eq!(desk.fates(), ["final 3", "delivered 4"]);
    assert_eq!(desk.timer(), None);
    desk.hear(0, rdata(3), none());
    assert_eq!(desk.fates(), [""; 0]);
}

#[test]
fn each_ncf_starts_the_wait_for_the_repair_anew_and_retries_are_counted_apart_6_4() {
    let mut desk =
        running(&[("nak_rdata_ivl", "100 ms"), ("nak_data_retries", "1"), ("nak_ncf_retries", "0")]);
    desk.hear(0, odata(4), none());
    desk.hear(0, ncf(3), none());
    desk.at(60).hear(0, ncf(3), none());
    assert_eq!(desk.timer(), Some(time(160)));
    desk.at(160).hear(0, ncf(3), none());
    assert_eq!(desk.sent().len(), 2);
    desk.at(260);
    assert_eq!(desk.fates(), ["found 3", "requested 3", "requested 3", "final 3", "delivered 4"]);
}

#[test]
fn one_request_names_all_that_is_missed_oldest_first_6_4() {
    let mut desk = running(&[("nak_list", "3")]);
    desk.hear(0, odata(8), none());
    assert_eq!(desk.sent(), ["nak 3 list [4, 5] to n9", "nak 6 list [7] to n9"]);
    desk.hear(0, ncf(3), list(&[0, 0, 0, 4, 0, 0, 0, 5]));
    desk.at(50);
    assert_eq!(desk.sent(), ["nak 6 list [7] to n9"]);
}

#[test]
fn an_spm_reveals_the_loss_of_the_last_packet_6_3() {
    let mut desk = running(&[]);
    desk.hear(0, spm(1, 9, 0, 5), none());
    assert_eq!(desk.sent(), ["nak 3 list [4] to n9"]);
    // Without a window it says nothing of the kind (9.8.1).
    let mut desk = running(&[]);
    desk.hear(0, spm(1, 9, 0, 5), Options { neighbour_unreachable: true, ..none() });
    desk.hear(0, spm(2, 9, 0, 0x8000_0001), none());
    assert_eq!(desk.sent(), [""; 0]);
}

#[test]
fn an_ncf_reveals_the_loss_of_a_packet_that_somebody_else_misses_6_3() {
    let mut desk = running(&[]);
    desk.hear(0, ncf(3), none());
    assert_eq!(desk.fates(), ["found 3", "suppressed 3"]);
    assert_eq!(desk.sent(), [""; 0]);
}

#[test]
fn what_the_trailing_edge_passes_is_lost_6_3() {
    let mut desk = running(&[]);
    desk.hear(0, odata(5), none());
    assert_eq!(desk.fates(), ["found 3", "found 4", "requested 3", "requested 4"]);
    desk.hear(0, spm(1, 9, 4, 6), none());
    assert_eq!(desk.fates(), ["final 3"]);
    desk.hear(0, rdata(4), none());
    assert_eq!(desk.fates(), ["repaired 4", "delivered 4", "delivered 5"]);
    // Far beyond everything known.
    desk.hear(0, spm(2, 9, 9, 11), none());
    let fates = desk.fates();
    assert_eq!(fates[..6], ["found 6", "final 6", "found 7", "final 7", "found 8", "final 8"]);
    assert_eq!(fates[6..], ["found 9", "found 10", "requested 9", "requested 10"]);
}

#[test]
fn a_jump_of_the_numbers_costs_no_more_than_the_window() {
    let mut desk = running(&[("rxw_sqns", "10")]);
    desk.hear(0, spm(1, 9, 0x7000_0000, 0x7000_0100), none());
    let fates = desk.fates();
    let count = |word: &str| fates.iter().filter(|fate| fate.starts_with(word)).count();
    assert_eq!((count("final"), count("found"), count("requested")), (10, 20, 10));
    desk.hear(0, odata(0x7000_0000 + 10), none());
    assert_eq!(desk.drops(), [DropReason::OutOfWindow]);
}

#[test]
fn nothing_is_delivered_or_asked_for_before_an_spm_and_one_is_asked_for_6_5() {
    let mut desk = receiver(&[("spmr_bo_ivl", "250 ms"), ("spmr_spm_ivl", "1 s")]);
    desk.hear(0, odata(1), none()).hear(0, odata(3), none());
    let wait = desk.timer().expect("a back-off");
    assert!(wait > time(0) && wait <= time(250), "{wait}");
    desk.at(250);
    assert_eq!(desk.sent(), ["spmr to n0"]);
    desk.at(300).hear(0, odata(4), none());
    desk.at(1300);
    assert_eq!(desk.sent(), ["spmr to n0"]);
    // The first packet heard is the first one there is for it (6.1).
    desk.hear(0, spm(0, 9, 0, 5), none());
    assert_eq!(desk.fates(), ["delivered 1", "found 2", "requested 2"]);
    desk.hear(0, rdata(2), none());
    assert_eq!(desk.fates(), ["repaired 2", "delivered 2", "delivered 3", "delivered 4"]);
}

#[test]
fn the_very_first_packet_waits_for_an_spm_too_6_5() {
    let mut desk = receiver(&[]);
    desk.hear(0, odata(0), none());
    assert_eq!(desk.fates(), [""; 0]);
    desk.hear(0, spm(0, 9, 0, 0), none());
    assert_eq!(desk.fates(), ["delivered 0"]);
}

#[test]
fn opt_join_lets_it_begin_with_the_oldest_packet_held_9_3() {
    let join = Options { join: Some(0), ..none() };
    let mut desk = receiver(&[]);
    desk.hear(0, odata(2), none());
    desk.hear(0, spm(0, 9, 0, 3), join);
    assert_eq!(desk.sent(), ["nak 0 list [1] to n9"]);
    // With nothing but an SPM too; without the option it begins with the next packet.
    let mut desk = receiver(&[]);
    desk.hear(0, spm(0, 9, 0, 2), join);
    assert_eq!(desk.sent(), ["nak 0 list [1] to n9"]);
    let mut desk = receiver(&[]);
    desk.hear(0, spm(0, 9, 0, 2), none()).hear(0, odata(2), none());
    assert_eq!(desk.fates(), ["delivered 2"]);
}

#[test]
fn a_session_given_up_without_repairs_leaves_nothing_to_wait_for_9_9() {
    let mut desk = running(&[]);
    desk.hear(0, odata(4), none());
    desk.hear(0, spm(1, 9, 0, 5), Options { reset: Some(0x40), ..none() });
    assert_eq!(desk.fates(), ["found 3", "requested 3", "final 3", "delivered 4"]);
    assert_eq!(desk.timer(), None);
}

#[test]
fn what_it_has_is_a_duplicate() {
    let mut desk = running(&[]);
    desk.hear(0, rdata(1), none());
    assert_eq!(desk.drops(), [DropReason::Duplicate]);
    desk.hear(0, odata(5), none()).hear(0, rdata(5), none());
    assert_eq!(desk.drops(), [DropReason::Duplicate]);
}

#[test]
fn packets_of_others_are_foreign() {
    let mut desk = running(&[]);
    desk.hear(3, odata(3), none());
    assert_eq!(desk.drops(), [DropReason::NotAMember]);
    let mut other = context(NodeId(5));
    other.association = AssociationId(2);
    let config = Config::defaults(ENTRY.parameters);
    desk.machine = (ENTRY.build)(Role::Receiver, &other, &config).expect("a receiver");
    desk.hear(0, odata(3), none());
    assert_eq!(desk.drops(), [DropReason::Foreign]);
}

#[test]
fn an_application_that_does_not_keep_up_bounds_what_is_kept() {
    let mut desk = receiver(&[("rxw_sqns", "4")]);
    desk.hear(0, spm(0, 9, 0, 0), none());
    for sqn in 0..6 {
        desk.hear(0, odata(sqn), none());
    }
    assert_eq!(desk.drops(), [DropReason::BufferFull; 2]);
    let receiver = desk.machine.as_receiver().expect("a receiver");
    let taken: Vec<u64> = std::iter::from_fn(|| receiver.poll_delivery()).map(|d| d.message.0).collect();
    assert_eq!(taken, [0, 1, 2, 3]);
    desk.at(100).hear(0, rdata(4), none()).hear(0, rdata(5), none());
    assert!(desk.fates().ends_with(&["repaired 5".to_owned(), "delivered 5".to_owned()]));
}

/// Simulations have hundreds of thousands of them.
#[test]
fn an_idle_receiver_is_small() {
    let size = size_of::<Player<PgmReceiver>>();
    assert!(size < 1024, "{size} bytes");
}
