//! Transcripts of a consumer (rank 3).

use carillon_core::{Event, MessageId, Outcome};
use carillon_wire::mtp::{Body, Mark, Ranges, member_id};

use super::fixture::{HEARTBEAT, MEMBERS, Member, dally, data, eom, range, record};
use carillon_testkit::ASSOCIATION;

const NO_PACKETS: [&str; 0] = [];

/// 2.2.6: accepted messages are delivered in the order of their numbers; a pending one holds the later ones up.
#[test]
fn pending_message_holds_later_ones_up() {
    let mut member = Member::new(3, &[]);
    member.receive(1, record(0, 0, ""), eom());
    member.receive(2, record(1, 0, "p"), eom());
    member.receive(0, record(2, 0, "ap"), dally());
    assert_eq!(member.take_all(), []);
    member.receive(0, record(2, 0, "aa"), dally());
    assert_eq!(member.take_all(), [(1, 0), (2, 0)]);
}

/// 2.2.6: a rejected message is skipped, whatever has arrived of it.
#[test]
fn rejected_message_is_skipped() {
    let mut member = Member::new(3, &[]);
    member.receive(1, record(0, 0, ""), eom());
    member.receive(2, record(1, 0, "p"), eom());
    member.receive(0, record(2, 0, "ar"), dally());
    assert_eq!(member.take_all(), [(2, 0)]);
}

/// 2.2.6: any member's packets carry decisions.
#[test]
fn decisions_travel_with_data_of_other_members() {
    let mut member = Member::new(3, &[]);
    member.receive(1, record(0, 0, ""), eom());
    member.receive(2, record(1, 0, "a"), eom());
    assert_eq!(member.take_all(), [(1, 0)]);
}

/// 3.2.4: a gap is requested from the producer at the end of a window or message.
#[test]
fn gap_is_requested_at_the_end_of_a_message() {
    let mut member = Member::new(3, &[("message_packets", "4")]);
    member.receive(1, record(0, 0, ""), data(Mark::Data, 0));
    assert_eq!(member.receive(1, record(0, 2, ""), data(Mark::Data, 2)), NO_PACKETS);
    let sent = member.receive(1, record(0, 3, ""), data(Mark::EndOfMessage, 3));
    assert_eq!(sent, ["nak 1.0 paa 0.1-0.1 to rank 1"]);
    let lost = Event::LossFound { source: Some(MEMBERS[1]), message: MessageId(0) };
    assert!(member.events().contains(&lost));
    member.receive(1, record(0, 1, ""), data(Mark::Data, 1));
    let repaired = Event::LossRepaired { source: MEMBERS[1], message: MessageId(0) };
    assert!(member.events().contains(&repaired));
}

/// 3.2.4: an incomplete message is requested after a heartbeat of silence, up to its unknown end.
#[test]
fn silent_message_is_requested_after_a_heartbeat() {
    let mut member = Member::new(3, &[("message_packets", "4")]);
    member.receive(1, record(0, 0, ""), data(Mark::Data, 0));
    let sent = member.at(HEARTBEAT);
    assert!(sent.contains(&"nak 1.0 paa 0.1-0.65535 to rank 1".to_owned()), "{sent:?}");
}

/// A message of which nothing came has no known producer: the master is asked.
#[test]
fn unknown_message_is_requested_from_the_master() {
    let mut member = Member::new(3, &[]);
    assert_eq!(member.receive(0, record(1, 0, "a"), dally()), NO_PACKETS);
    let sent = member.at(HEARTBEAT);
    assert!(sent.contains(&"nak 1.0 aaa 0.0-0.65535 to rank 0".to_owned()), "{sent:?}");
}

/// 3.2.6: a consumer that is refused a message by the producer and by the master reports the loss and quits.
#[test]
fn refused_consumer_reports_the_loss_and_quits() {
    let mut member = Member::new(3, &[]);
    member.offer("own").unwrap();
    member.receive(2, record(1, 0, "a"), eom());
    member.at(HEARTBEAT);
    let bytes = range(0, 0, u16::MAX);
    member.receive(0, record(1, 0, "a"), Body::Deny(Ranges::new(&bytes)));
    member.events();
    let sent = member.at(2 * HEARTBEAT);
    let own = member_id(ASSOCIATION, 3);
    assert!(sent.contains(&format!("quit_request 2.0 paa of {own:08x} to rank 0")), "{sent:?}");
    member.receive(0, record(1, 0, "a"), Body::Quit(true, own));
    let events = member.events();
    let first = Event::LossFinal { source: MEMBERS[2], message: MessageId(0) };
    assert!(events.contains(&first), "{events:?}");
    let failed = |event: &Event| matches!(event, Event::Completed { outcome: Outcome::Failed, .. });
    assert!(events.iter().any(failed), "its own message failed");
    assert_eq!(member.take_all(), [], "the later message is not delivered");
}

/// 3.2.5: without its master, the web is abandoned after `retention` heartbeats, with a report.
#[test]
fn web_is_abandoned_without_its_master() {
    let mut member = Member::new(3, &[]);
    member.offer("own").unwrap();
    (1..=5).for_each(|beat| _ = member.at(beat * HEARTBEAT));
    let events = member.events();
    assert!(events.contains(&Event::MemberLost { member: MEMBERS[0] }), "{events:?}");
    member.finish();
    assert!(member.is_finished());
    assert_eq!(member.at(60_000), NO_PACKETS);
}

/// 3.2.4: a consumer with NAK spreading waits up to `retention` - 2 heartbeats more.
#[test]
fn nak_spreading_delays_requests_at_random() {
    let waits = |spreading| {
        let settings = [("nak_spreading", spreading), ("retention", "8"), ("message_packets", "2")];
        let mut member = Member::new(3, &settings);
        let first = member.receive(1, record(0, 1, ""), data(Mark::EndOfMessage, 1));
        let is_nak = |line: &String| line.starts_with("nak");
        match first.iter().any(is_nak) {
            true => Some(0),
            false => (1..20).find(|beat| member.at(beat * HEARTBEAT).iter().any(is_nak)),
        }
    };
    assert_eq!(waits("off"), Some(0));
    assert!(waits("on").is_some_and(|beats| (1..=6).contains(&beats)));
}
