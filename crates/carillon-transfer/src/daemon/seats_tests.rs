use std::sync::Arc;

use carillon_net::Bell;
use carillon_wire::daemon::Role;

use super::options::DaemonOptions;
use super::seats::{Refusal, Seat, Seats};
use crate::socket::bind;

const ALICE: u32 = 1001;
const BOB: u32 = 1002;

fn seats(limit: impl FnOnce(DaemonOptions) -> DaemonOptions) -> (Seats, Bell) {
    let bell = Bell::new().expect("two sockets");
    (Seats::new(limit(DaemonOptions::new("/nonexistent")), bell.waker()), bell)
}

fn sit(seats: &Seats, process: i32, user: u32) -> Result<Arc<Seat>, Refusal> {
    let bell = Bell::new().expect("two sockets");
    seats.sit(process, user, bell.waker()).map_err(|(refusal, _)| refusal)
}

fn occupy(seats: &Seats, process: i32, user: u32) -> Result<(), (Refusal, String)> {
    let seat = sit(seats, process, user).expect("a place to say what it is for");
    let socket = bind("239.1.2.3:4567".parse().expect("an address"));
    let occupied = seats.occupy(&seat, Role::Listen, &socket);
    if occupied.is_err() {
        seats.leave(&seat);
    }
    occupied
}

#[test]
fn one_user_leaves_half_of_the_sockets_to_others() {
    let (seats, _bell) = seats(|options| options.clients(8).mode(0o666));
    for process in 0..4 {
        occupy(&seats, process, ALICE).expect("one of the half");
    }
    for process in 4..20 {
        let (refusal, text) = occupy(&seats, process, ALICE).expect_err("it is the other half");
        assert!(refusal == Refusal::Greedy && text.contains("user 1001 has 4 sockets"), "{text}");
    }
    for process in 20..24 {
        occupy(&seats, process, BOB).expect("one of the other half");
    }
    assert_eq!(occupy(&seats, 30, 1003).expect_err("all are taken").0, Refusal::Full);
}

#[test]
fn the_quota_is_what_was_said_or_all_of_a_private_daemon() {
    for (options, expected) in [
        (DaemonOptions::new("/").clients(9), 9),
        (DaemonOptions::new("/").clients(9).mode(0o660), 5),
        (DaemonOptions::new("/").clients(9).mode(0o666).per_user(2), 2),
        (DaemonOptions::new("/").clients(9).per_user(2), 2),
    ] {
        assert_eq!(options.user_limit(), expected, "{options:?}");
    }
    let of_files = |files| DaemonOptions::new("/").limited_by_files(files).clients;
    assert_eq!([0, 150, 1024, u64::MAX].map(of_files), [1, 5, 92, 128]);
}

/// All sockets are taken, and crowds of both users say nothing: still each user finds a place to say what it wants.
#[test]
fn silent_connections_never_keep_a_command_out() {
    let (seats, _bell) = seats(|options| options.clients(2).mode(0o666));
    occupy(&seats, 1, ALICE).expect("a place");
    occupy(&seats, 2, BOB).expect("a place");
    for at in 0..1000 {
        let user = if at % 10 == 0 { BOB } else { ALICE };
        let seat = sit(&seats, 100 + at / 2, user).expect("nobody is kept out");
        assert!(!seat.is_displaced(), "who has just come has time to say what it wants");
        // The threads of displaced connections end.
        seats.all().iter().filter(|seat| seat.is_displaced()).for_each(|seat| seats.leave(seat));
        let silent =
            |user| seats.all().iter().filter(|seat| seat.user == user && seat.open().is_none()).count();
        assert!(silent(ALICE) <= 8 && silent(BOB) <= 8);
    }
    assert!(seats.refused(Refusal::Greedy) > 900);
}

/// Of many users that say nothing the one with most makes room, and not the one that has just come.
#[test]
fn whoever_has_most_silent_connections_makes_room() {
    let (seats, _bell) = seats(|options| options.mode(0o666));
    let crowd: Vec<_> = (0..8).map(|at| sit(&seats, at, ALICE).expect("a place")).collect();
    let single = sit(&seats, 50, BOB).expect("a place");
    let others: Vec<_> = (0..8).map(|at| sit(&seats, 100 + at, 2000).expect("a place")).collect();
    assert!(crowd[0].is_displaced() && !crowd[1].is_displaced() && !single.is_displaced());
    assert!(others.iter().all(|seat| !seat.is_displaced()));
    assert_eq!(seats.refused(Refusal::Full), 1);
}

#[test]
fn threads_of_displaced_connections_are_bounded() {
    let (seats, _bell) = seats(|options| options.clients(2));
    let taken = (0..1000).filter(|&at| sit(&seats, at, ALICE).is_ok()).count();
    assert!(taken < 100, "{taken} threads that never end");
}
