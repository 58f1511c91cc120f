//! Tests of the network element. The source is behind port 0 with node 3 upstream; receivers are behind ports 1 and
//! 2.

use carillon_core::{DropReason, Role};
use carillon_wire::pgm::Options;

use super::fixture::{Fixture, list, nak, ncf, none, odata, rdata, spm};

/// Element with NAK_ELIM_IVL = 500 ms that knows the source.
fn element(settings: &[(&str, &str)]) -> Fixture {
    let mut all = vec![("nak_elim_ivl", "500 ms")];
    all.extend_from_slice(settings);
    let mut fixture = Fixture::new(Role::Relay, &all);
    fixture.pass(0, spm(0, 3, 0, 0), none());
    fixture
}

const NO_PACKETS: [&str; 0] = [];

/// Section 7.1: the element writes its own address into SPMs and drops old ones.
#[test]
fn spm_is_forwarded_with_element_as_path() {
    let mut fixture = Fixture::new(Role::Relay, &[]);
    let passed = fixture.pass(0, spm(4, 3, 0, 7), Options { fin: true, ..none() });
    assert_eq!(passed, "pgm spm 4 trail 0 lead 6 path 10.0.0.10 fin");
    // Old SPMs are absorbed.
    assert_eq!(fixture.pass(0, spm(4, 3, 0, 7), none()), "absorb");
    assert_eq!(fixture.drops(), [DropReason::Redundant]);
    assert_eq!(fixture.pass(0, spm(5, 3, 0, 7), none()), "pgm spm 5 trail 0 lead 6 path 10.0.0.10");
}

/// Section 7.1: original data leaves repair state alone.
#[test]
fn original_data_passes_without_state_change() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 5, nak(3), none());
    assert_eq!(fixture.pass(0, odata(3), none()), "forward");
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p1");
}

/// Section 7.2: the NCF answers at once, and the NAK is repeated until the NCF from upstream.
#[test]
fn nak_is_confirmed_on_its_port_and_repeated_upstream() {
    let mut fixture = element(&[("ne_nak_rpt_rte", "50 ms")]);
    fixture.receive_on(1, 5, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n3"]);
    fixture.at(49);
    assert_eq!(fixture.sent(), NO_PACKETS);
    fixture.at(100);
    assert_eq!(fixture.sent(), ["nak 3 to n3"; 2]);
    assert_eq!(fixture.pass(0, ncf(3), none()), "absorb");
    fixture.at(9000);
    assert_eq!(fixture.sent(), NO_PACKETS);
}

/// Section 7.2: the element stops after NAK_RPT_IVL.
#[test]
fn unconfirmed_nak_expires() {
    let mut fixture = element(&[("ne_nak_rpt_rte", "400 ms"), ("ne_nak_rpt_ivl", "1 s")]);
    fixture.receive_on(1, 5, nak(3), none());
    fixture.at(60_000);
    assert_eq!(fixture.sent(), ["ncf 3 to p1 as n0 to all", "nak 3 to n3", "nak 3 to n3", "nak 3 to n3"]);
    assert_eq!(fixture.pass(0, rdata(3), none()), "absorb");
}

/// Section 7.3 (NAK elimination): a further NAK is confirmed and adds its port, and is forwarded only after
/// NAK_ELIM_IVL.
#[test]
fn further_naks_are_eliminated_but_confirmed() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 5, nak(3), none());
    fixture.pass(0, ncf(3), none());
    fixture.sent();
    fixture.events();
    fixture.at(499).receive_on(2, 6, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p2 as n0 to all"]);
    assert_eq!(fixture.drops(), [DropReason::Redundant]);
    // The first NAK after the interval is forwarded and restarts it.
    fixture.at(500).receive_on(2, 6, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p2 as n0 to all", "nak 3 to n3"]);
    fixture.receive_on(1, 5, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p1 as n0 to all"]);
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p1 p2");
}

/// Section 7.4: the repair for the faster branch deletes the state, so that the slower branch causes a second repair.
#[test]
fn repair_deletes_state_so_that_later_nak_goes_upstream() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 5, nak(3), none());
    fixture.pass(0, ncf(3), none());
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p1");
    assert_eq!(fixture.pass(0, rdata(3), none()), "absorb");
    fixture.sent();
    fixture.receive_on(2, 6, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p2 as n0 to all", "nak 3 to n3"]);
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p2");
    fixture.at(60_000);
    assert_eq!(fixture.sent(), NO_PACKETS);
}

/// Section 7.5 (NAK anticipation).
#[test]
fn ncf_creates_state_for_later_naks() {
    let mut fixture = element(&[]);
    assert_eq!(fixture.pass(0, ncf(3), none()), "absorb");
    fixture.receive_on(1, 5, nak(3), none());
    assert_eq!(fixture.sent(), ["ncf 3 to p1 as n0 to all"]);
    assert_eq!(fixture.pass(0, rdata(3), none()), "forward on p1");
    // No requester below asked for the next packet.
    fixture.pass(0, ncf(4), none());
    assert_eq!(fixture.pass(0, rdata(4), none()), "forward on ");
}

/// Section 7.2: only an NCF from upstream confirms.
#[test]
fn ncf_from_downstream_confirms_nothing() {
    let mut fixture = element(&[("ne_nak_rpt_rte", "50 ms")]);
    fixture.receive_on(1, 5, nak(3), none());
    fixture.sent();
    assert_eq!(fixture.pass(2, ncf(3), none()), "absorb");
    fixture.at(50);
    assert_eq!(fixture.sent(), ["nak 3 to n3"]);
}

/// Section 7.2: repair state is deleted after NAK_RDATA_IVL.
#[test]
fn repair_state_expires() {
    let mut fixture = element(&[("ne_nak_rdata_ivl", "10 s")]);
    fixture.receive_on(1, 5, nak(3), none());
    fixture.pass(0, ncf(3), none());
    fixture.at(10_000);
    assert_eq!(fixture.pass(0, rdata(3), none()), "absorb");
}

/// Section 7.6: the NCF repeats the whole list; the forwarded NAK has the new packets only.
#[test]
fn whole_nak_list_is_confirmed_and_new_part_forwarded() {
    let mut fixture = element(&[]);
    fixture.receive_on(1, 5, nak(3), none());
    fixture.pass(0, ncf(3), none());
    fixture.sent();
    fixture.receive_on(2, 6, nak(3), list(&[0, 0, 0, 4, 0, 0, 0, 5]));
    assert_eq!(fixture.sent(), ["ncf 3 list [4, 5] to p2 as n0 to all", "nak 4 list [5] to n3"]);
    fixture.pass(0, ncf(4), list(&[0, 0, 0, 5]));
    fixture.receive_on(1, 5, nak(4), list(&[0, 0, 0, 5]));
    assert_eq!(fixture.sent(), ["ncf 4 list [5] to p1 as n0 to all"]);
    assert_eq!(fixture.pass(0, rdata(5), none()), "forward on p1 p2");
}

#[test]
fn element_without_spm_forwards_like_a_router() {
    let mut fixture = Fixture::new(Role::Relay, &[]);
    for packet in [odata(1), rdata(1), ncf(1)] {
        assert_eq!(fixture.pass(0, packet, none()), "forward");
    }
    fixture.receive_on(1, 5, nak(1), none());
    assert_eq!(fixture.drops(), [DropReason::Foreign]);
    assert_eq!(fixture.sent(), NO_PACKETS);
}

#[test]
fn silent_source_is_forgotten() {
    let mut fixture = element(&[("ne_tsi_expiry", "10 s")]);
    fixture.receive_on(1, 5, nak(1), none());
    fixture.at(10_000);
    assert_eq!(fixture.timer(), None);
    assert_eq!(fixture.pass(0, rdata(1), none()), "forward");
}

#[test]
fn repair_state_is_bounded() {
    let mut fixture = element(&[("ne_repairs", "2")]);
    fixture.receive_on(1, 5, nak(3), list(&[0, 0, 0, 4]));
    fixture.sent();
    fixture.events();
    fixture.receive_on(1, 5, nak(5), none());
    assert_eq!(fixture.drops(), [DropReason::BufferFull]);
    // Without an NCF the requester asks again.
    assert_eq!(fixture.sent(), NO_PACKETS);
    fixture.pass(0, ncf(6), none());
    assert_eq!(fixture.pass(0, rdata(6), none()), "absorb");
}
