//! Tests of unrecoverable losses and bounded memory.

use carillon_core::{DropReason, Event};

use super::member::{MEMBERS, Member, context, repair, request};

#[test]
fn message_purged_by_source_is_given_up() {
    let mut member = Member::new(&[]);
    for sequence in [0, 2, 4] {
        member.data(sequence);
    }
    assert_eq!(member.take_all(), [0]);
    assert_eq!(member.losses(), [("found", 1), ("found", 3)]);
    // The source holds messages 2 to 4 only.
    member.session(1, 1, 5, 2);
    assert_eq!(member.losses(), [("final", 1)]);
    assert_eq!(member.take_all(), [2]);
    assert_eq!(member.at(20), [request(1, 3)]);
    member.repair(2, 1, 3);
    assert_eq!(member.take_all(), [0_u64; 0], "what was given up is not delivered");
    member.repair(2, 3, 3);
    assert_eq!(member.take_all(), [3, 4]);
}

#[test]
fn message_outside_buffer_is_neither_awaited_nor_repaired() {
    let mut member = Member::new(&[("buffer", "3")]);
    member.data(0);
    member.data(2);
    member.losses();
    member.data(4);
    // Messages 2 to 4 are kept.
    assert_eq!(member.losses(), [("final", 1), ("found", 3)]);
    assert_eq!(member.take_all(), [0, 2]);
    member.request(2, 0);
    assert_eq!(member.drops(), [DropReason::OutOfWindow]);
    member.request(2, 2);
    assert_eq!(member.at(10), [repair(2, 2, 1)]);
    assert_eq!(member.at(20), [request(1, 3)]);
}

#[test]
fn session_message_of_any_member_reveals_tail_loss() {
    let mut member = Member::new(&[]);
    member.data(0);
    member.session(1, 1, 2, 0);
    assert_eq!(member.losses(), [("found", 1)]);
    let entry = carillon_wire::srm::Entry { member: 1, next: 3, came_us: 0, sent_us: 0 }.to_bytes();
    let (entries, others) = ([entry], carillon_wire::srm::Entries::default());
    let session = carillon_wire::srm::Session {
        from: 2,
        number: 1,
        clock_us: 5,
        next: 0,
        oldest: 0,
        sources: carillon_wire::srm::Entries::new(&entries),
        others,
    };
    member.receive(carillon_wire::srm::Packet::Session(session));
    assert_eq!(member.losses(), [("found", 2)]);
}

#[test]
fn sequence_number_jump_costs_bounded_work() {
    let mut member = Member::new(&[("buffer", "4")]);
    member.data(0);
    member.data(2_000_000_000);
    let events = member.events();
    assert!(events.len() < 5000, "{}", events.len());
    let noted = |event: &&Event| matches!(event, Event::Note(note) if note.name == "unrecoverable");
    assert_eq!(events.iter().filter(noted).count(), 1);
    assert_eq!(member.take_all(), [0]);
    assert_eq!(member.at(20).len(), 3, "only what the source may still hold is asked for");
}

#[test]
fn unread_messages_are_bounded() {
    let mut member = Member::new(&[("buffer", "3")]);
    (0..5).for_each(|sequence| _ = member.data(sequence));
    // Three messages wait for the application; 3 and 4 keep their slots.
    assert_eq!(member.losses(), []);
    (5..7).for_each(|sequence| _ = member.data(sequence));
    assert_eq!(member.losses(), [("final", 3)]);
    assert_eq!(member.take_all(), [0, 1, 2, 4, 5, 6]);
}

#[test]
fn losses_of_expelled_source_end_after_last_back_off() {
    let mut member = Member::new(&[("request_backoff_limit", "1")]);
    member.data(1);
    member.data(3);
    member.expel(1);
    member.losses();
    // Waits of 20, 40 and 40 ms, and then the end.
    assert_eq!(member.at(60), [request(1, 0), request(1, 2), request(2, 0), request(2, 2)]);
    member.losses();
    assert_eq!(member.at(10_000), [""; 0]);
    assert_eq!(member.losses(), [("final", 0), ("final", 2)]);
    assert_eq!(member.take_all(), [1, 3]);
}

#[test]
fn rejoining_member_starts_at_first_message_and_is_mute() {
    let mut member = Member::of(context(0, true), &[]);
    member.data(7);
    member.data(9);
    assert_eq!(member.losses(), [("found", 8)]);
    member.repair(2, 8, 0);
    assert_eq!(member.take_all(), [7, 8, 9]);
    assert_eq!(member.offer("a"), Err(carillon_core::OfferError::Finished));
    // It does not claim messages of its earlier life.
    member.request_of(0, 2, 5);
    let sent = (0..1200).find_map(|second| member.at(1000 * second).pop()).expect("a session message");
    assert!(sent.contains("next 0 oldest 0 knows 1 sources 1 others"), "{sent}");
    // Messages of a source before the first one received are no losses.
    let mut member = Member::of(context(0, true), &[]);
    member.session(1, 1, 7, 0);
    assert_eq!(member.losses(), []);
    member.data(7);
    assert_eq!(member.take_all(), [7]);
}

#[test]
fn forged_packets_are_dropped() {
    let mut member = Member::new(&[]);
    let mut bytes = Vec::new();
    let data = carillon_wire::srm::Data { from: 1, source: 1, sequence: 0, payload: b"a" };
    carillon_wire::srm::Packet::Data(data).emit(carillon_testkit::ASSOCIATION, &mut bytes);
    member.receive_bytes(MEMBERS[2], bytes.clone());
    member.receive_bytes(MEMBERS[0], bytes.clone());
    bytes[19] = 2;
    assert_eq!(member.drops(), [DropReason::NotAMember; 2]);
    // Rank 1 sends an original of rank 2.
    let data = carillon_wire::srm::Data { source: 2, ..data };
    member.receive(carillon_wire::srm::Packet::Data(data));
    assert_eq!(member.drops(), [DropReason::Malformed]);
    assert_eq!(member.take_all(), [0_u64; 0]);
}
