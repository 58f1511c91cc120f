//! Tests of session messages: distances and contents.

use carillon_wire::srm::{Entries, Entry, Packet, Session};

use super::member::Member;

/// Receives an echo of this member's session message from rank 1.
fn echo(member: &mut Member, number: u32, clock_us: u32, came_us: u32, sent_us: u32) {
    let entry = [Entry { member: 0, next: 0, came_us, sent_us }.to_bytes()];
    let (sources, others) = (Entries::default(), Entries::new(&entry));
    let (next, oldest) = (0, 0);
    let session = Session { from: 1, number, clock_us, next, oldest, sources, others };
    member.receive(Packet::Session(session));
}

/// Distance to rank 1 in the next request, in microseconds.
fn distance(member: &mut Member, sequence: u32, ms: u64) -> String {
    member.data(sequence);
    let sent = member.at(ms).into_iter().find(|sent| sent.starts_with("request")).expect("a request");
    let word = |after: &str| sent.split(after).nth(1).unwrap().split(' ').next().unwrap().to_owned();
    word("distance ")
}

#[test]
fn distance_is_half_the_round_trip() {
    let mut member = Member::new(&[]);
    member.at(1000);
    // Sent at 0.5 s of this clock, received at 7.0 s of the other, echoed at 7.4 s: 1000 - 500 - 400 = 100 ms.
    echo(&mut member, 1, 7_400_000, 7_000_000, 500_000);
    assert_eq!(distance(&mut member, 1, 1100), "50000");
}

#[test]
fn older_session_message_is_dropped() {
    let mut member = Member::new(&[]);
    member.at(1000);
    echo(&mut member, 5, 7_400_000, 7_000_000, 500_000);
    echo(&mut member, 4, 7_400_000, 7_000_000, 600_001);
    assert_eq!(member.drops(), [carillon_core::DropReason::OutOfOrder]);
    echo(&mut member, 6, 7_400_000, 7_000_000, 560_000);
    assert_eq!(distance(&mut member, 1, 1100), "20000");
}

#[test]
fn clocks_are_truncated_to_ticks_and_wrap() {
    let mut member = Member::new(&[("clock_tick", "1 ms")]);
    // The other clock passes 2^32 in between.
    member.at(1000);
    echo(&mut member, 1, 100_000, 0_u32.wrapping_sub(300_000), 560_000);
    assert_eq!(distance(&mut member, 1, 1100), "20000");
}

#[test]
fn impossible_echo_is_clamped() {
    let mut member = Member::new(&[]);
    member.at(1000);
    echo(&mut member, 1, 7_400_000, 1, 999_999);
    assert_eq!(distance(&mut member, 1, 1100), "0");
    let mut member = Member::new(&[]);
    member.at(4_000_000);
    echo(&mut member, 1, 7_400_000, 7_400_000, 1);
    assert_eq!(distance(&mut member, 1, 4_000_000 + 130_000), "60000000");
}

#[test]
fn session_message_lists_members_and_sources() {
    let mut member = Member::new(&[("session_ivl", "1 s")]);
    let first = (900..=1100).find(|&ms| !member.at(ms).is_empty()).expect("a session message");
    assert!(first > 900 && first < 1100);
    assert_eq!(member.offer("a"), Ok(0));
    member.data(0);
    member.session(3, 1, 0, 0);
    member.at(1150);
    assert_eq!(member.sent().len(), 0);
    let sent = (first + 900..=first + 1101).find_map(|ms| member.at(ms).pop()).expect("another");
    assert!(sent.starts_with("session 2 from 0 at "), "{sent}");
    assert!(sent.ends_with("next 1 oldest 0 knows 1 sources 1 others to all"), "{sent}");
}

#[test]
fn session_entries_rotate_in_a_large_group() {
    let mut member = Member::new(&[("session_ivl", "1 s"), ("session_entries", "2")]);
    (1..4).for_each(|rank| _ = member.session(rank, 1, 0, 0));
    let sent: Vec<String> = (0..40).flat_map(|tenth| member.at(100 * tenth)).collect();
    let counts: Vec<&str> = sent.iter().map(|line| line.split("knows 0 sources ").nth(1).unwrap()).collect();
    assert_eq!(counts, ["2 others to all", "1 others to all", "2 others to all"]);
}

#[test]
fn log_scaling_slows_sessions_with_group_size() {
    let mut member = Member::new(&[("session_ivl", "1 s"), ("session_scaling", "log")]);
    (1..4).for_each(|rank| _ = member.session(rank, 1, 0, 0));
    // The first interval was set before any member was known; the next ones are 1 + ln 4 = 2.39 s.
    let times: Vec<u64> = (0..90).filter(|tenth| !member.at(100 * tenth).is_empty()).collect();
    assert_eq!(times.len(), 4, "{times:?}");
    assert!(times.windows(2).all(|two| (20..=27).contains(&(two[1] - two[0]))), "{times:?}");
}

#[test]
fn indirectly_known_source_is_reported() {
    let mut member = Member::new(&[("session_ivl", "1 s")]);
    let entry = [Entry { member: 3, next: 2, came_us: 5, sent_us: 6 }.to_bytes()];
    let (sources, others) = (Entries::new(&entry), Entries::default());
    let session = Session { from: 2, number: 1, clock_us: 9, next: 0, oldest: 0, sources, others };
    member.receive(Packet::Session(session));
    let sent = (1..1200).find_map(|ms| member.at(ms).into_iter().find(|sent| sent.starts_with("session")));
    assert!(sent.expect("a session message").contains("knows 1 sources 1 others"));
}
