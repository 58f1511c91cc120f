use std::sync::Arc;

use carillon_net::WakeReceiver;
use carillon_wire::daemon::Role;

use super::client_table::{ClientSlot, ClientTable, Refusal};
use super::options::DaemonOptions;
use crate::socket::bind;

const ALICE: u32 = 1001;
const BOB: u32 = 1002;

fn table(limit: impl FnOnce(DaemonOptions) -> DaemonOptions) -> (ClientTable, WakeReceiver) {
    let wakeups = WakeReceiver::new().expect("two sockets");
    (ClientTable::new(limit(DaemonOptions::new("/nonexistent")), wakeups.waker()), wakeups)
}

fn sit(table: &ClientTable, process: i32, user: u32) -> Result<Arc<ClientSlot>, Refusal> {
    let wakeups = WakeReceiver::new().expect("two sockets");
    table.sit(process, user, wakeups.waker()).map_err(|(refusal, _)| refusal)
}

fn occupy(table: &ClientTable, process: i32, user: u32) -> Result<(), (Refusal, String)> {
    let slot = sit(table, process, user).expect("a place to say what it is for");
    let socket = bind("239.1.2.3:4567".parse().expect("an address"));
    let occupied = table.occupy(&slot, Role::Listen, &socket);
    if occupied.is_err() {
        table.leave(&slot);
    }
    occupied
}

#[test]
fn one_user_gets_at_most_half_of_the_sockets() {
    let (table, _wakeups) = table(|options| options.clients(8).mode(0o666));
    for process in 0..4 {
        occupy(&table, process, ALICE).expect("one of the half");
    }
    for process in 4..20 {
        let (refusal, text) = occupy(&table, process, ALICE).expect_err("it is the other half");
        assert!(refusal == Refusal::Greedy && text.contains("user 1001 has 4 sockets"), "{text}");
    }
    for process in 20..24 {
        occupy(&table, process, BOB).expect("one of the other half");
    }
    assert_eq!(occupy(&table, 30, 1003).expect_err("all are taken").0, Refusal::Full);
}

#[test]
fn quota_is_configured_or_unlimited_when_private() {
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

/// Commands are served while every socket is open and both users hold silent connections.
#[test]
fn silent_connections_never_block_a_command() {
    let (table, _wakeups) = table(|options| options.clients(2).mode(0o666));
    occupy(&table, 1, ALICE).expect("a place");
    occupy(&table, 2, BOB).expect("a place");
    for at in 0..1000 {
        let user = if at % 10 == 0 { BOB } else { ALICE };
        let slot = sit(&table, 100 + at / 2, user).expect("nobody is kept out");
        assert!(!slot.is_displaced(), "who has just come has time to say what it wants");
        // The threads of displaced connections end.
        table.all().iter().filter(|slot| slot.is_displaced()).for_each(|slot| table.leave(slot));
        let silent =
            |user| table.all().iter().filter(|slot| slot.user == user && slot.open().is_none()).count();
        assert!(silent(ALICE) <= 8 && silent(BOB) <= 8);
    }
    assert!(table.refused(Refusal::Greedy) > 900);
}

/// The user with most silent connections is displaced, not the latest one.
#[test]
fn user_with_most_silent_connections_is_displaced() {
    let (table, _wakeups) = table(|options| options.mode(0o666));
    let crowd: Vec<_> = (0..8).map(|at| sit(&table, at, ALICE).expect("a place")).collect();
    let single = sit(&table, 50, BOB).expect("a place");
    let others: Vec<_> = (0..8).map(|at| sit(&table, 100 + at, 2000).expect("a place")).collect();
    assert!(crowd[0].is_displaced() && !crowd[1].is_displaced() && !single.is_displaced());
    assert!(others.iter().all(|slot| !slot.is_displaced()));
    assert_eq!(table.refused(Refusal::Full), 1);
}

#[test]
fn threads_of_displaced_connections_are_bounded() {
    let (table, _wakeups) = table(|options| options.clients(2));
    let taken = (0..1000).filter(|&at| sit(&table, at, ALICE).is_ok()).count();
    assert!(taken < 100, "{taken} threads that never end");
}
