//! Tests of the receiver.

use carillon_core::{AssociationId, Config, DropReason, NodeId, Role};
use carillon_wire::pgm::Options;

use super::fixture::{Fixture, context, list, nak, ncf, none, odata, rdata, spm, time};
use crate::blocks::Player;
use crate::protocols::pgm::{ENTRY, PgmReceiver};

/// Receiver without back-off, so that NAKs leave at once.
fn receiver(settings: &[(&str, &str)]) -> Fixture {
    let mut all = vec![("nak_bo_ivl", "0 ms")];
    all.extend_from_slice(settings);
    Fixture::new(Role::Receiver, &all)
}

/// Receiver that has a window and has delivered packets 0 to 2.
fn running(settings: &[(&str, &str)]) -> Fixture {
    let mut fixture = receiver(settings);
    fixture.receive(0, spm(0, 9, 0, 0), none());
    for sqn in 0..3 {
        fixture.receive(0, odata(sqn), none());
    }
    assert_eq!(fixture.message_events(), ["delivered 0", "delivered 1", "delivered 2"]);
    fixture
}

/// Section 6.3: a gap in the numbers of data is a loss; the NAK goes to the path of the newest SPM.
#[test]
fn gap_is_requested_at_the_path_of_the_spm() {
    let mut fixture = running(&[]);
    fixture.receive(0, odata(4), none());
    assert_eq!(fixture.sent(), ["nak 3 to n9"]);
    fixture.receive(0, ncf(3), none());
    fixture.at(20).receive(0, rdata(3), none());
    assert_eq!(
        fixture.message_events(),
        ["found 3", "requested 3", "repaired 3", "delivered 3", "delivered 4"]
    );
    assert_eq!(fixture.timer(), None);
}

/// Section 6.2: an SPM with a lower sequence number is ignored.
#[test]
fn newest_spm_sets_the_upstream_node() {
    let mut fixture = running(&[]);
    fixture.receive(0, spm(2, 8, 0, 3), none());
    // An older SPM is ignored.
    fixture.receive(0, spm(1, 7, 0, 9), none());
    assert_eq!(fixture.drops(), [DropReason::Redundant]);
    fixture.receive(0, odata(4), none());
    assert_eq!(fixture.sent(), ["nak 3 to n8"]);
}

#[test]
fn spm_path_of_the_receiver_itself_means_its_origin() {
    let mut fixture = receiver(&[]);
    fixture.receive(0, spm(0, 5, 0, 0), none());
    fixture.receive(0, odata(1), none());
    assert_eq!(fixture.sent(), ["nak 0 to n0"]);
}

/// Section 6.4: NAK_RB_IVL is random, and data that arrives in it cancels the NAK.
#[test]
fn back_off_is_random_and_ends_with_late_data() {
    let mut fixture = Fixture::new(Role::Receiver, &[("nak_bo_ivl", "30 ms")]);
    fixture.receive(0, spm(0, 9, 0, 0), none());
    fixture.receive(0, odata(1), none());
    let wait = fixture.timer().expect("a back-off");
    assert!(wait > time(0) && wait < time(30), "{wait}");
    // The original was late, not lost.
    fixture.receive(0, odata(0), none());
    fixture.at(1000);
    assert_eq!(fixture.sent(), [""; 0]);
    assert_eq!(fixture.message_events(), ["found 0", "delivered 0", "delivered 1"]);
}

/// Section 6.4: an NCF in back-off moves the state machine to WAIT_DATA.
#[test]
fn ncf_in_back_off_suppresses_the_nak() {
    let mut fixture = Fixture::new(Role::Receiver, &[("nak_bo_ivl", "30 ms"), ("nak_rdata_ivl", "1 s")]);
    fixture.receive(0, spm(0, 9, 0, 0), none());
    fixture.receive(0, odata(1), none());
    fixture.receive(0, ncf(0), none());
    assert_eq!(fixture.timer(), Some(time(1000)));
    assert_eq!(fixture.message_events(), ["found 0", "suppressed 0"]);
    // Without a repair it backs off again and then sends its own NAK.
    fixture.at(1030);
    assert_eq!(fixture.sent(), ["nak 0 to n9"]);
}

/// Section 6.4: the NAK of another receiver counts as one's own.
#[test]
fn overheard_nak_moves_back_off_to_wait_ncf() {
    let mut fixture = Fixture::new(Role::Receiver, &[("nak_bo_ivl", "30 ms"), ("nak_rpt_ivl", "50 ms")]);
    fixture.receive(0, spm(0, 9, 0, 0), none());
    fixture.receive(0, odata(1), none());
    fixture.receive(7, nak(0), none());
    assert_eq!(fixture.timer(), Some(time(50)));
    assert_eq!(fixture.message_events(), ["found 0", "suppressed 0"]);
    fixture.at(80);
    assert_eq!(fixture.sent(), ["nak 0 to n9"]);
}

/// Section 6.4: after NAK_NCF_RETRIES the packet is lost.
#[test]
fn nak_without_ncf_is_repeated_up_to_the_limit() {
    let mut fixture = running(&[("nak_rpt_ivl", "50 ms"), ("nak_ncf_retries", "2")]);
    fixture.receive(0, odata(4), none());
    assert_eq!(fixture.sent().len(), 1);
    fixture.at(49);
    assert_eq!(fixture.sent().len(), 0);
    fixture.at(50);
    assert_eq!(fixture.sent().len(), 1);
    fixture.at(149);
    assert_eq!(fixture.sent(), ["nak 3 to n9"]);
    fixture.events();
    fixture.at(150);
    assert_eq!(fixture.sent().len(), 0);
    // Delivery continues behind the gap.
    assert_eq!(fixture.message_events(), ["final 3", "delivered 4"]);
    assert_eq!(fixture.timer(), None);
    fixture.receive(0, rdata(3), none());
    assert_eq!(fixture.message_events(), [""; 0]);
}

/// Section 6.4: each NCF restarts NAK_RDATA_IVL, and NCF and data retries have separate counters.
#[test]
fn ncf_restarts_the_wait_for_data_with_its_own_retries() {
    let mut fixture =
        running(&[("nak_rdata_ivl", "100 ms"), ("nak_data_retries", "1"), ("nak_ncf_retries", "0")]);
    fixture.receive(0, odata(4), none());
    fixture.receive(0, ncf(3), none());
    fixture.at(60).receive(0, ncf(3), none());
    assert_eq!(fixture.timer(), Some(time(160)));
    fixture.at(160).receive(0, ncf(3), none());
    assert_eq!(fixture.sent().len(), 2);
    fixture.at(260);
    assert_eq!(fixture.message_events(), ["found 3", "requested 3", "requested 3", "final 3", "delivered 4"]);
}

/// OPT_NAK_LIST: one NAK names up to `nak_list` missing packets.
#[test]
fn nak_lists_missing_packets_oldest_first() {
    let mut fixture = running(&[("nak_list", "3")]);
    fixture.receive(0, odata(8), none());
    assert_eq!(fixture.sent(), ["nak 3 list [4, 5] to n9", "nak 6 list [7] to n9"]);
    fixture.receive(0, ncf(3), list(&[0, 0, 0, 4, 0, 0, 0, 5]));
    fixture.at(50);
    assert_eq!(fixture.sent(), ["nak 6 list [7] to n9"]);
}

/// Section 6.3: the leading edge in an SPM shows losses at the end; without a window (9.8.1) an SPM shows none.
#[test]
fn spm_reveals_loss_of_the_last_packet() {
    let mut fixture = running(&[]);
    fixture.receive(0, spm(1, 9, 0, 5), none());
    assert_eq!(fixture.sent(), ["nak 3 list [4] to n9"]);
    // An SPM without a window reveals no loss (9.8.1).
    let mut fixture = running(&[]);
    fixture.receive(0, spm(1, 9, 0, 5), Options { neighbour_unreachable: true, ..none() });
    fixture.receive(0, spm(2, 9, 0, 0x8000_0001), none());
    assert_eq!(fixture.sent(), [""; 0]);
}

/// Section 6.3: an NCF for an unknown packet shows that it was sent.
#[test]
fn ncf_reveals_loss_of_unknown_packet() {
    let mut fixture = running(&[]);
    fixture.receive(0, ncf(3), none());
    assert_eq!(fixture.message_events(), ["found 3", "suppressed 3"]);
    assert_eq!(fixture.sent(), [""; 0]);
}

/// Section 6.3: the source no longer repairs packets behind TXW_TRAIL.
#[test]
fn packets_behind_the_trailing_edge_are_lost() {
    let mut fixture = running(&[]);
    fixture.receive(0, odata(5), none());
    assert_eq!(fixture.message_events(), ["found 3", "found 4", "requested 3", "requested 4"]);
    fixture.receive(0, spm(1, 9, 4, 6), none());
    assert_eq!(fixture.message_events(), ["final 3"]);
    fixture.receive(0, rdata(4), none());
    assert_eq!(fixture.message_events(), ["repaired 4", "delivered 4", "delivered 5"]);
    // A jump far beyond the known packets.
    fixture.receive(0, spm(2, 9, 9, 11), none());
    let message_events = fixture.message_events();
    assert_eq!(message_events[..6], ["found 6", "final 6", "found 7", "final 7", "found 8", "final 8"]);
    assert_eq!(message_events[6..], ["found 9", "found 10", "requested 9", "requested 10"]);
}

#[test]
fn sequence_number_jump_costs_at_most_the_window() {
    let mut fixture = running(&[("rxw_sqns", "10")]);
    fixture.receive(0, spm(1, 9, 0x7000_0000, 0x7000_0100), none());
    let message_events = fixture.message_events();
    let count = |word: &str| message_events.iter().filter(|fate| fate.starts_with(word)).count();
    assert_eq!((count("final"), count("found"), count("requested")), (10, 20, 10));
    fixture.receive(0, odata(0x7000_0000 + 10), none());
    assert_eq!(fixture.drops(), [DropReason::OutOfWindow]);
}

/// Section 6.5: data before the first SPM triggers an SPMR after a random back-off.
#[test]
fn receiver_without_spm_sends_spmr_and_delivers_nothing() {
    let mut fixture = receiver(&[("spmr_bo_ivl", "250 ms"), ("spmr_spm_ivl", "1 s")]);
    fixture.receive(0, odata(1), none()).receive(0, odata(3), none());
    let wait = fixture.timer().expect("a back-off");
    assert!(wait > time(0) && wait <= time(250), "{wait}");
    fixture.at(250);
    assert_eq!(fixture.sent(), ["spmr to n0"]);
    fixture.at(300).receive(0, odata(4), none());
    fixture.at(1300);
    assert_eq!(fixture.sent(), ["spmr to n0"]);
    // Reception starts at the first packet received (6.1).
    fixture.receive(0, spm(0, 9, 0, 5), none());
    assert_eq!(fixture.message_events(), ["delivered 1", "found 2", "requested 2"]);
    fixture.receive(0, rdata(2), none());
    assert_eq!(fixture.message_events(), ["repaired 2", "delivered 2", "delivered 3", "delivered 4"]);
}

/// Section 6.5: data waits for the first SPM.
#[test]
fn first_packet_waits_for_an_spm() {
    let mut fixture = receiver(&[]);
    fixture.receive(0, odata(0), none());
    assert_eq!(fixture.message_events(), [""; 0]);
    fixture.receive(0, spm(0, 9, 0, 0), none());
    assert_eq!(fixture.message_events(), ["delivered 0"]);
}

/// Section 9.3 (OPT_JOIN): a late joiner may request packets from the given minimum on.
#[test]
fn opt_join_starts_reception_at_the_trailing_edge() {
    let join = Options { join: Some(0), ..none() };
    let mut fixture = receiver(&[]);
    fixture.receive(0, odata(2), none());
    fixture.receive(0, spm(0, 9, 0, 3), join);
    assert_eq!(fixture.sent(), ["nak 0 list [1] to n9"]);
    // OPT_JOIN works with an SPM alone; without it reception starts at the next packet.
    let mut fixture = receiver(&[]);
    fixture.receive(0, spm(0, 9, 0, 2), join);
    assert_eq!(fixture.sent(), ["nak 0 list [1] to n9"]);
    let mut fixture = receiver(&[]);
    fixture.receive(0, spm(0, 9, 0, 2), none()).receive(0, odata(2), none());
    assert_eq!(fixture.message_events(), ["delivered 2"]);
}

/// Section 9.9 (OPT_RST): the N bit says that the source repairs nothing more.
#[test]
fn opt_rst_with_n_bit_ends_recovery() {
    let mut fixture = running(&[]);
    fixture.receive(0, odata(4), none());
    fixture.receive(0, spm(1, 9, 0, 5), Options { reset: Some(0x40), ..none() });
    assert_eq!(fixture.message_events(), ["found 3", "requested 3", "final 3", "delivered 4"]);
    assert_eq!(fixture.timer(), None);
}

#[test]
fn repeated_packet_is_dropped_as_duplicate() {
    let mut fixture = running(&[]);
    fixture.receive(0, rdata(1), none());
    assert_eq!(fixture.drops(), [DropReason::Duplicate]);
    fixture.receive(0, odata(5), none()).receive(0, rdata(5), none());
    assert_eq!(fixture.drops(), [DropReason::Duplicate]);
}

#[test]
fn packets_of_others_are_foreign() {
    let mut fixture = running(&[]);
    fixture.receive(3, odata(3), none());
    assert_eq!(fixture.drops(), [DropReason::NotAMember]);
    let mut other = context(NodeId(5));
    other.association = AssociationId(2);
    let config = Config::defaults(ENTRY.parameters);
    fixture.machine = (ENTRY.build)(Role::Receiver, &other, &config).expect("a receiver");
    fixture.receive(0, odata(3), none());
    assert_eq!(fixture.drops(), [DropReason::Foreign]);
}

#[test]
fn slow_application_bounds_the_receive_window() {
    let mut fixture = receiver(&[("rxw_sqns", "4")]);
    fixture.receive(0, spm(0, 9, 0, 0), none());
    for sqn in 0..6 {
        fixture.receive(0, odata(sqn), none());
    }
    assert_eq!(fixture.drops(), [DropReason::BufferFull; 2]);
    let receiver = fixture.machine.as_receiver().expect("a receiver");
    let taken: Vec<u64> = std::iter::from_fn(|| receiver.poll_delivery()).map(|d| d.message.0).collect();
    assert_eq!(taken, [0, 1, 2, 3]);
    fixture.at(100).receive(0, rdata(4), none()).receive(0, rdata(5), none());
    assert!(fixture.message_events().ends_with(&["repaired 5".to_owned(), "delivered 5".to_owned()]));
}

/// Simulations hold hundreds of thousands of receivers.
#[test]
fn an_idle_receiver_is_small() {
    let size = size_of::<Player<PgmReceiver>>();
    assert!(size < 1024, "{size} bytes");
}
