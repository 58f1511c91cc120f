//! Receivers that JOINs stand for, case by case.

use super::*;

const A: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));
const B: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)));

fn web(node: u32, host: Option<IpAddr>, process: u64, place: u64) -> Applicant<'static> {
    let origin = Some(Origin { process, place, ..Origin::default() });
    Applicant { own: "web", node: NodeId(node), host, origin }
}

/// Ledger in which each of these was added as a new receiver.
fn ledger(all: &[Applicant<'_>]) -> Ledger {
    let mut ledger = Ledger::default();
    for who in all {
        ledger.add(who, 100, |_| false).expect("there is room");
    }
    ledger
}

fn names(ledger: &Ledger) -> Vec<&str> {
    ledger.entries.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn equal_names_get_their_address_or_a_number() {
    let all = [web(1, A, 1, 1), web(2, B, 2, 1), web(3, A, 3, 3), web(4, B, 4, 4), web(5, None, 5, 5)];
    assert_eq!(names(&ledger(&all)), ["web", "web@10.0.0.2", "web#3", "web#4", "web#5"]);
    let mut ledger = ledger(&all[..1]);
    let index = ledger.add(&all[1], 100, |name| name == "web@10.0.0.2").expect("there is room");
    assert_eq!(ledger.entry(index).name, "web#2");
    assert_eq!(ledger.add(&all[2], 2, |_| false), None);
}

#[test]
fn long_names_are_cut_to_make_them_unique() {
    let own = "é".repeat(32);
    let who = |node, host| Applicant { own: &own, node: NodeId(node), host, origin: None };
    let ledger = ledger(&[who(1, A), who(2, B)]);
    let name = &ledger.entry(1).name;
    assert!(name.len() <= Name::MAX_LEN && name.ends_with("é@10.0.0.2"), "{name}");
}

#[test]
fn a_receiver_is_known_by_node_process_or_place() {
    let ledger = ledger(&[web(1, A, 1, 1)]);
    for (who, found) in [
        (web(1, A, 9, 9), LedgerMatch::Entry(0)),
        (web(2, A, 1, 9), LedgerMatch::Entry(0)),
        (web(2, A, 9, 1), LedgerMatch::Entry(0)),
        (web(2, B, 1, 9), LedgerMatch::Moved(0)),
        (web(2, A, 9, 9), LedgerMatch::New),
        (Applicant { own: "db", ..web(1, A, 1, 1) }, LedgerMatch::New),
    ] {
        assert_eq!(ledger.find(&who, |_| true), found, "{who:?}");
    }
}

/// An equal name at another address is a clone of a present or verified receiver, or the return of one that is gone.
#[test]
fn an_equal_name_elsewhere_is_a_return_only_of_one_that_is_gone() {
    let resumes = Applicant {
        origin: Some(Origin { process: 9, resumes: true, ..Origin::default() }),
        ..web(2, B, 9, 1)
    };
    for (who, verified, has_some, there, found) in [
        (web(2, B, 9, 1), false, false, true, LedgerMatch::New),
        (web(2, B, 9, 1), true, true, false, LedgerMatch::New),
        (web(2, B, 9, 1), false, true, false, LedgerMatch::New),
        (web(2, B, 9, 1), false, false, false, LedgerMatch::Entry(0)),
        (resumes, false, true, false, LedgerMatch::Entry(0)),
        (resumes, true, true, false, LedgerMatch::New),
    ] {
        let mut ledger = ledger(&[web(1, A, 1, 1)]);
        let entry = ledger.entry_mut(0);
        (entry.verified, entry.has_some) = (verified, has_some);
        assert_eq!(ledger.find(&who, |_| there), found, "{who:?} {verified} {has_some} {there}");
    }
}

#[test]
fn one_that_has_moved_is_known_where_it_is_now() {
    let mut ledger = ledger(&[web(1, A, 1, 1)]);
    ledger.moved(0, &web(2, B, 1, 1));
    assert_eq!((ledger.at(NodeId(1)), ledger.at(NodeId(2))), (None, Some(0)));
    assert_eq!(ledger.find(&web(2, B, 7, 7), |_| false), LedgerMatch::Entry(0));
    assert_eq!(ledger.named("web"), Some(0));
}
