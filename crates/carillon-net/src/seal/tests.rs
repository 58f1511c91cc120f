use std::net::SocketAddr;
use std::time::Duration;

use carillon_core::{DropReason, Time};
use proptest::prelude::*;

use super::*;

const GROUP: &str = "239.1.2.3:4567";

fn key() -> Key {
    Key::of(b"0123456789abcdef0123456789abcdef").expect("long enough")
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The endpoint at this host, after its `start`th start.
fn endpoint_with(key: Key, host: u8, start: u8) -> (Seal, SocketAddr) {
    let at = SocketAddr::from(([10, 0, 0, host], 5000));
    (Seal::with_salt(key, [host ^ start.rotate_left(4); 12], at, address(GROUP)), at)
}

fn endpoint(host: u8) -> (Seal, SocketAddr) {
    endpoint_with(key(), host, 0)
}

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn sealed(seal: &mut Seal, kind: Kind, to: SocketAddr, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    seal.seal(kind, to, content, &mut bytes);
    bytes
}

fn to_group(seal: &mut Seal, content: &[u8]) -> Vec<u8> {
    sealed(seal, Kind::Group, address(GROUP), content)
}

type Opened = Result<Option<Vec<u8>>, DropReason>;

fn open(seal: &mut Seal, now: Time, from: SocketAddr, multicast: bool, bytes: &[u8]) -> Opened {
    let mut bytes = bytes.to_vec();
    let content = seal.open(now, from, multicast, &mut bytes)?;
    Ok(content.map(|range| bytes[range].to_vec()))
}

/// Exchanges greetings until there are none; returns their number.
fn settle(now: Time, one: &mut (Seal, SocketAddr), other: &mut (Seal, SocketAddr)) -> usize {
    let mut count = 0;
    loop {
        let before = count;
        for turn in [true, false] {
            let (from, to) = if turn { (&mut *one, &mut *other) } else { (&mut *other, &mut *one) };
            while let Some((address, bytes)) = from.0.next_greeting() {
                assert_eq!(address, to.1);
                count += 1;
                assert!(count < 10, "greetings without end");
                assert_eq!(open(&mut to.0, now, from.1, false, &bytes), Ok(None));
            }
        }
        if before == count {
            return count;
        }
    }
}

/// Two endpoints that have proven their presence to each other.
fn pair() -> [(Seal, SocketAddr); 2] {
    let (mut one, mut other) = (endpoint(1), endpoint(2));
    let first = to_group(&mut one.0, b"first");
    assert_eq!(open(&mut other.0, at(0), one.1, true, &first), Err(DropReason::Unproven));
    assert_eq!(settle(at(0), &mut other, &mut one), 3);
    [one, other]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes in `docs/reference/seal-and-signature.md` were made by other implementations of BLAKE3 and AES-GCM.
#[test]
fn a_datagram_is_sealed_as_the_page_says() {
    let mut seal = Seal::with_salt(key(), *b"carillonsalt", address("10.0.0.1:5000"), address(GROUP));
    assert_eq!(hex(&seal.group_key.to_bytes()), VECTOR_GROUP_KEY);
    assert_eq!(hex(&seal.group_key.of_sender(&seal.salt)), VECTOR_SENDER_KEY);
    assert_eq!(hex(&to_group(&mut seal, b"read by many")), VECTOR_GROUP);
    assert_eq!(hex(&sealed(&mut seal, Kind::One, address("[2001:db8::1]:99"), b"")), VECTOR_ONE);
    let page = include_str!("../../../../docs/reference/seal-and-signature.md");
    for vector in [VECTOR_GROUP_KEY, VECTOR_SENDER_KEY, VECTOR_GROUP, VECTOR_ONE] {
        assert!(page.contains(vector), "the page does not have {vector}");
    }
}

const VECTOR_GROUP_KEY: &str = "bfb5a479af936d31289cd5e40b8aaa4a159001cc48f26af95be13f7f3c0293f0";
const VECTOR_SENDER_KEY: &str = "ecde9b693fef5448fdfa0a3f3b4ab3bd9b8cba70f5b83d128c7d7a41aab1816c";
const VECTOR_GROUP: &str =
    "5e10636172696c6c6f6e73616c7400000000000000019b3d310f23f0c12ddc7baf640d86c2236b66d12ebb53e4634282ca50";
const VECTOR_ONE: &str = "5e11636172696c6c6f6e73616c7400000000000000027dd00744d8bb56046d08df402a873150";

#[test]
fn sealed_datagram_opens_once_at_every_key_holder() {
    let [mut one, mut other] = pair();
    let mut third = endpoint(3);
    let introduced = to_group(&mut one.0, b"?");
    assert_eq!(open(&mut third.0, at(0), one.1, true, &introduced), Err(DropReason::Unproven));
    settle(at(0), &mut third, &mut one);
    let bytes = to_group(&mut one.0, b"read by many");
    assert_eq!(bytes.len(), b"read by many".len() + SEAL_BYTES);
    assert!(is_sealed(&bytes) && !bytes.windows(4).any(|four| four == b"many"));
    for seal in [&mut other.0, &mut third.0] {
        assert_eq!(open(seal, at(1), one.1, true, &bytes), Ok(Some(b"read by many".to_vec())));
        assert_eq!(open(seal, at(1), one.1, true, &bytes), Err(DropReason::Replayed));
    }
}

#[test]
fn reordered_datagrams_open_within_the_window() {
    let [mut one, mut other] = pair();
    let all: Vec<_> = (0..3000u32).map(|n| to_group(&mut one.0, &n.to_be_bytes())).collect();
    for n in [5, 3, 2999] {
        let expected = Some((n as u32).to_be_bytes().to_vec());
        assert_eq!(open(&mut other.0, at(1), one.1, true, &all[n]), Ok(expected), "{n}");
    }
    assert_eq!(open(&mut other.0, at(1), one.1, true, &all[4]), Err(DropReason::Outdated));
    assert_eq!(open(&mut other.0, at(1), one.1, true, &all[2999 - 2047]).map(drop_content), Ok(()));
    // Unicast has its own window, as it may have waited in another queue.
    let alone = sealed(&mut one.0, Kind::One, other.1, b"alone");
    for _ in 0..3000 {
        let bytes = to_group(&mut one.0, b"");
        open(&mut other.0, at(1), one.1, true, &bytes).expect("it opens");
    }
    assert_eq!(open(&mut other.0, at(1), one.1, false, &alone), Ok(Some(b"alone".to_vec())));
}

fn drop_content(_: Option<Vec<u8>>) {}

#[test]
fn datagram_opens_only_with_its_own_addresses() {
    let [mut one, mut other] = pair();
    let (group, alone) = (to_group(&mut one.0, b"all"), sealed(&mut one.0, Kind::One, other.1, b"you"));
    let elsewhere = address("10.0.0.1:5001");
    for (from, multicast, bytes) in [
        (one.1, false, &group),
        (one.1, true, &alone),
        (elsewhere, true, &group),
        (elsewhere, false, &alone),
        (other.1, false, &alone),
    ] {
        assert_eq!(open(&mut other.0, at(1), from, multicast, bytes), Err(DropReason::Unauthentic));
    }
    // Addressed to a third endpoint, which has proof of the first as well.
    let mut third = endpoint(3);
    let introduced = to_group(&mut one.0, b"?");
    open(&mut third.0, at(0), one.1, true, &introduced).expect_err("unproven");
    settle(at(0), &mut third, &mut one);
    let alone = sealed(&mut one.0, Kind::One, other.1, b"you");
    assert_eq!(open(&mut third.0, at(1), one.1, false, &alone), Err(DropReason::Unauthentic));
    assert_eq!(open(&mut other.0, at(1), one.1, false, &alone), Ok(Some(b"you".to_vec())));
    // Sealed for another group.
    let mut elsewhere = Seal::with_salt(key(), [9; 12], address("10.0.0.9:1"), address("239.1.2.3:4568"));
    let group = to_group(&mut one.0, b"all");
    assert_eq!(open(&mut elsewhere, at(1), one.1, true, &group), Err(DropReason::Unauthentic));
    // Own datagrams are refused as well.
    assert_eq!(open(&mut one.0, at(1), one.1, true, &group), Err(DropReason::Replayed));
}

#[test]
fn another_key_opens_nothing_and_is_not_greeted() {
    let (mut one, _) = endpoint(1);
    let (mut other, _) = endpoint_with(Key::of(&[b'k'; 32]).expect("long enough"), 2, 0);
    for kind in [Kind::Group, Kind::Greeting] {
        let bytes = sealed(&mut one, kind, address("10.0.0.2:5000"), &[0; GREETING]);
        let multicast = kind == Kind::Group;
        let opened = open(&mut other, at(0), address("10.0.0.1:5000"), multicast, &bytes);
        assert_eq!(opened, Err(DropReason::Unauthentic));
    }
    assert_eq!(other.next_greeting(), None);
    assert_eq!((other.asked.len(), other.proven.len()), (0, 0));
    assert_eq!(open(&mut other, at(0), address("10.0.0.1:5000"), true, b"open"), Err(DropReason::Unsealed));
}

/// A recording of a whole session, greetings included, is played to an endpoint that has started since.
#[test]
fn recorded_session_is_refused_after_a_restart() {
    let (mut one, mut other) = (endpoint(1), endpoint(2));
    let mut recorded = Vec::new();
    let first = to_group(&mut one.0, b"first");
    open(&mut other.0, at(0), one.1, true, &first).expect_err("unproven");
    recorded.push((true, first));
    loop {
        let (mut quiet, turns) = (true, [true, false]);
        for turn in turns {
            let (from, to) = if turn { (&mut other, &mut one) } else { (&mut one, &mut other) };
            while let Some((_, bytes)) = from.0.next_greeting() {
                open(&mut to.0, at(0), from.1, false, &bytes).expect("a greeting");
                quiet = false;
                if !turn {
                    recorded.push((false, bytes));
                }
            }
        }
        if quiet {
            break;
        }
    }
    for n in 0..100 {
        let kind = if n % 3 == 0 { Kind::One } else { Kind::Group };
        recorded.push((kind == Kind::Group, sealed(&mut one.0, kind, other.1, b"data")));
    }
    // The same host and port after a restart.
    let (mut fresh, _) = endpoint_with(key(), 2, 1);
    for round in 0..50 {
        for (multicast, bytes) in &recorded {
            let opened = open(&mut fresh, at(round * 20), one.1, *multicast, bytes);
            assert!(matches!(opened, Err(DropReason::Unproven) | Ok(None)), "{opened:?}");
        }
    }
    assert_eq!(fresh.proven.len(), 0);
    // The endpoint challenges now and then only.
    let asked = std::iter::from_fn(|| fresh.next_greeting()).count();
    assert!((1..60).contains(&asked), "{asked} greetings");
}

/// The peer has gone; a recording has its answers to an earlier endpoint at the same address with the same counters.
#[test]
fn an_answer_to_an_earlier_start_proves_nothing() {
    let mut one = endpoint(1);
    let (mut before, here) = endpoint_with(key(), 2, 1);
    let first = to_group(&mut one.0, b"first");
    open(&mut before, at(0), one.1, true, &first).expect_err("unproven");
    let (_, question) = before.next_greeting().expect("it asks");
    open(&mut one.0, at(0), here, false, &question).expect("a greeting");
    let (_, answer) = one.0.next_greeting().expect("it answers");
    assert_eq!(open(&mut before, at(0), one.1, false, &answer), Ok(None));
    assert_eq!(before.proven.len(), 1);

    let (mut now, _) = endpoint_with(key(), 2, 2);
    open(&mut now, at(0), one.1, true, &first).expect_err("unproven");
    assert_eq!(now.counter, 1, "it has asked with the same counter");
    open(&mut now, at(0), one.1, false, &answer).expect("it is sealed with the key");
    assert_eq!(now.proven.len(), 0);
}

/// Datagrams sent before the answer are refused, as they may have been recorded.
#[test]
fn datagrams_sent_before_the_proof_stay_outdated() {
    let mut one = endpoint(1);
    let recorded: Vec<_> = (0..10).map(|_| to_group(&mut one.0, b"old")).collect();
    let mut other = endpoint(2);
    open(&mut other.0, at(0), one.1, true, &recorded[0]).expect_err("unproven");
    settle(at(0), &mut other, &mut one);
    for bytes in &recorded {
        assert_eq!(open(&mut other.0, at(1), one.1, true, bytes), Err(DropReason::Outdated));
    }
}

#[test]
fn forgotten_peer_reproves_and_recordings_fail() {
    let [mut one, mut other] = pair();
    let recorded = [to_group(&mut one.0, b"1"), sealed(&mut one.0, Kind::One, other.1, b"2")];
    open(&mut other.0, at(1), one.1, true, &recorded[0]).expect("it opens");
    open(&mut other.0, at(1), one.1, false, &recorded[1]).expect("it opens");
    let id = (one.0.salt, place(one.1));
    assert!(other.0.proven.remove(&id).is_some());
    assert_eq!(open(&mut other.0, at(2), one.1, true, &recorded[0]), Err(DropReason::Unproven));
    assert_eq!(open(&mut other.0, at(2), one.1, false, &recorded[1]), Err(DropReason::Unproven));
    // The other endpoint still has its proof: it only answers.
    assert_eq!(settle(at(2), &mut other, &mut one), 2);
    assert_eq!(open(&mut other.0, at(3), one.1, true, &recorded[0]), Err(DropReason::Outdated));
    let next = to_group(&mut one.0, b"3");
    assert_eq!(open(&mut other.0, at(3), one.1, true, &next), Ok(Some(b"3".to_vec())));
}

/// An answer from before the eviction does not answer the later challenge.
#[test]
fn answer_from_before_eviction_proves_nothing() {
    let (mut one, mut other) = (endpoint(1), endpoint(2));
    let first = to_group(&mut one.0, b"first");
    open(&mut other.0, at(0), one.1, true, &first).expect_err("unproven");
    let (_, question) = other.0.next_greeting().expect("it asks");
    open(&mut one.0, at(0), other.1, false, &question).expect("a greeting");
    let (_, answer) = one.0.next_greeting().expect("it answers");
    open(&mut other.0, at(0), one.1, false, &answer).expect("a greeting");
    let id = (one.0.salt, place(one.1));
    assert!(other.0.proven.remove(&id).is_some(), "it was proven, and is forgotten");
    for bytes in [&answer, &first, &answer] {
        let multicast = bytes == &first;
        assert!(!matches!(open(&mut other.0, at(20), one.1, multicast, bytes), Ok(Some(_))));
        assert_eq!(other.0.proven.len(), 0);
    }
}

/// A receiver of successive transfers has a driver, and a clock, for each.
#[test]
fn peer_is_challenged_again_after_a_clock_restart() {
    let (mut one, mut other) = (endpoint(1), endpoint(2));
    for (millis, asks) in [(3_600_000, 1), (3_600_005, 0), (0, 1), (5, 0), (20, 1)] {
        let bytes = to_group(&mut one.0, b"?");
        open(&mut other.0, at(millis), one.1, true, &bytes).expect_err("unproven");
        assert_eq!(std::iter::from_fn(|| other.0.next_greeting()).count(), asks, "{millis}");
    }
}

#[test]
fn lost_greetings_are_repeated() {
    let (mut one, mut other) = (endpoint(1), endpoint(2));
    let mut now = 0;
    // The first five are lost, in either direction.
    let mut lost = 5;
    loop {
        now += 20;
        assert!(now < 10_000, "they do not find each other");
        let bytes = to_group(&mut one.0, b"again");
        if open(&mut other.0, at(now), one.1, true, &bytes).is_ok() {
            break;
        }
        for _ in 0..4 {
            for turn in [true, false] {
                let (from, to) = if turn { (&mut other, &mut one) } else { (&mut one, &mut other) };
                while let Some((_, bytes)) = from.0.next_greeting() {
                    if lost > 0 {
                        lost -= 1;
                    } else {
                        open(&mut to.0, at(now), from.1, false, &bytes).expect("a greeting");
                    }
                }
            }
        }
    }
    let back = sealed(&mut other.0, Kind::One, one.1, b"and back");
    if open(&mut one.0, at(now), other.1, false, &back) == Err(DropReason::Unproven) {
        settle(at(now), &mut one, &mut other);
        let back = sealed(&mut other.0, Kind::One, one.1, b"and back");
        assert_eq!(open(&mut one.0, at(now), other.1, false, &back), Ok(Some(b"and back".to_vec())));
    }
}

/// An insider that has the key, and writes the address of `one` on its packets.
fn forger_of(one: &(Seal, SocketAddr)) -> Seal {
    Seal::with_salt(key(), one.0.salt, one.1, address(GROUP))
}

/// Number of these datagrams that `one` accepts, with checks answered in between.
fn taken(one: &mut (Seal, SocketAddr), other: &mut (Seal, SocketAddr), count: u32) -> u32 {
    (0..count)
        .map(|number| {
            let bytes = to_group(&mut one.0, b"honest");
            let opened = open(&mut other.0, at(100 + u64::from(number)), one.1, true, &bytes);
            settle(at(100 + u64::from(number)), other, one);
            assert!(open(&mut other.0, at(2000), one.1, true, &bytes).is_err(), "once");
            u32::from(matches!(opened, Ok(Some(_))))
        })
        .sum()
}

#[test]
fn forged_counter_jump_locks_no_peer_out() {
    for exponent in [21, 30, 35, 40, 62] {
        let [mut one, mut other] = pair();
        let mut forger = forger_of(&one);
        (forger.counter, forger.limit) = (1 << exponent, u64::MAX);
        for kind in [Kind::Group, Kind::One, Kind::Greeting] {
            let forged = sealed(&mut forger, kind, other.1, &[0; GREETING]);
            let opened = open(&mut other.0, at(1), one.1, kind == Kind::Group, &forged);
            let reason = if exponent < 36 { DropReason::Unproven } else { DropReason::Unauthentic };
            assert_eq!(opened, Err(reason), "2^{exponent}");
        }
        assert_eq!(taken(&mut one, &mut other, 20), 20);
    }
}

#[test]
fn forged_counter_climb_locks_a_peer_out_only_briefly() {
    let [mut one, mut other] = pair();
    let mut forger = forger_of(&one);
    let mut recorded = Vec::new();
    for step in 1..=5 {
        // The largest permitted jump, several times.
        for _ in 0..step {
            forger.counter += window::MAX_JUMP - 10;
            recorded.push(to_group(&mut forger, b"forged"));
            let bytes = recorded.last().expect("it was just made");
            open(&mut other.0, at(1), one.1, true, bytes).expect("it is no jump");
        }
        let count = taken(&mut one, &mut other, 100);
        assert!(count >= 90, "{count} of 100 after {step} jumps");
        forger.counter = one.0.counter;
    }
}

#[test]
fn salt_reused_at_another_address_has_no_effect() {
    let [mut one, mut other] = pair();
    let elsewhere = SocketAddr::from(([10, 0, 0, 9], 5000));
    let mut forger = (Seal::with_salt(key(), one.0.salt, elsewhere, address(GROUP)), elsewhere);
    forger.0.counter = 5000;
    let forged = to_group(&mut forger.0, b"forged");
    assert_eq!(open(&mut other.0, at(1), elsewhere, true, &forged), Err(DropReason::Unproven));
    settle(at(1), &mut other, &mut forger);
    let forged = to_group(&mut forger.0, b"forged");
    open(&mut other.0, at(2), elsewhere, true, &forged).expect("it is there, as somebody else");
    assert_eq!(taken(&mut one, &mut other, 20), 20);
}

#[test]
fn endpoint_far_ahead_is_accepted_after_a_check() {
    let [mut one, mut other] = pair();
    one.0.counter += 2 * window::MAX_JUMP;
    let count = taken(&mut one, &mut other, 100);
    assert!(count >= 99, "{count} of 100");
}

/// Only a receiver at the endpoint's address knows the token of a valid answer.
#[test]
fn an_answer_without_the_token_moves_no_window() {
    let [mut one, mut other] = pair();
    let mut forger = forger_of(&one);
    forger.counter = 1 << 30;
    let forged = to_group(&mut forger, b"forged");
    open(&mut other.0, at(1), one.1, true, &forged).expect_err("a jump");
    let (_, check) = other.0.next_greeting().expect("it asks");
    for echo in [0, 1, u64::MAX] {
        let answers = (other.0.salt, other.0.counter);
        let answer = Greeting { wants: false, answers, token: 0, echo };
        let bytes = sealed(&mut forger, Kind::Greeting, other.1, &answer.emit());
        open(&mut other.0, at(2), one.1, false, &bytes).expect_err("it is far ahead");
    }
    open(&mut one.0, at(3), other.1, false, &check).expect("a greeting");
    settle(at(3), &mut other, &mut one);
    assert_eq!(taken(&mut one, &mut other, 20), 20);
}

/// A replayed recording of the session causes only occasional challenges.
#[test]
fn datagrams_played_again_cause_few_checks() {
    let [mut one, mut other] = pair();
    let recorded: Vec<_> = (0..5000).map(|_| to_group(&mut one.0, b"x")).collect();
    for bytes in &recorded {
        open(&mut other.0, at(1), one.1, true, bytes).expect("it opens");
    }
    let mut greetings = 0;
    for millis in 2..5000u64 {
        let bytes = &recorded[millis as usize % 2000];
        open(&mut other.0, at(millis), one.1, true, bytes).expect_err("it was opened before");
        greetings += settle(at(millis), &mut other, &mut one);
    }
    assert!(greetings < 30, "{greetings} greetings in 5 s");
    assert_eq!(taken(&mut one, &mut other, 20), 20);
}

#[test]
fn exhausted_counter_starts_a_new_salt() {
    let [mut one, mut other] = pair();
    one.0.limit = one.0.counter + 3;
    let (salt, mut seen) = (one.0.salt, std::collections::BTreeSet::new());
    let mut opened = 0;
    for n in 0..10 {
        let bytes = to_group(&mut one.0, b"more");
        assert!(seen.insert(bytes[2..HEADER].to_vec()), "a salt and a counter come once");
        opened += usize::from(open(&mut other.0, at(100 * n), one.1, true, &bytes).is_ok());
        if one.0.salt != salt {
            one.0.limit = u64::MAX;
        }
        settle(at(100 * n), &mut other, &mut one);
    }
    assert_ne!(one.0.salt, salt);
    assert_eq!(opened, 9, "the first of the new salt is lost");
    let alone = sealed(&mut other.0, Kind::One, one.1, b"back");
    assert_eq!(open(&mut one.0, at(2000), other.1, false, &alone), Ok(Some(b"back".to_vec())), "still known");
}

/// A key holder can choose any number of salts, and gets neither more memory nor the entries of active peers.
#[test]
fn flood_of_salts_is_bounded_and_evicts_no_active_peer() {
    let [mut one, mut other] = pair();
    let place = address("10.0.0.66:1");
    for n in 0..3000u32 {
        let mut salt = [0x66; 12];
        salt[..4].copy_from_slice(&n.to_be_bytes());
        let mut stranger = Seal::with_salt(key(), salt, place, address(GROUP));
        let bytes = to_group(&mut stranger, b"flood");
        assert_eq!(open(&mut other.0, at(1), place, true, &bytes), Err(DropReason::Unproven));
    }
    assert_eq!((other.0.asked.len(), other.0.proven.len()), (MAX_CHALLENGED, 1));
    assert_eq!(other.0.greetings.len(), MAX_QUEUED_GREETINGS);
    let bytes = to_group(&mut one.0, b"still there");
    assert_eq!(open(&mut other.0, at(1), one.1, true, &bytes), Ok(Some(b"still there".to_vec())));
}

proptest! {
    #[test]
    fn any_content_comes_back(content in proptest::collection::vec(any::<u8>(), 0..2000), multicast: bool) {
        let [mut one, mut other] = pair();
        let kind = if multicast { Kind::Group } else { Kind::One };
        let bytes = sealed(&mut one.0, kind, other.1, &content);
        prop_assert_eq!(open(&mut other.0, at(1), one.1, multicast, &bytes), Ok(Some(content)));
    }

    /// A shortened, extended or changed datagram is dropped, and the original opens afterwards.
    #[test]
    fn altered_datagram_is_dropped_without_effect(
        content in proptest::collection::vec(any::<u8>(), 0..100),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 1..4),
        len in any::<prop::sample::Index>(),
        greeting: bool,
    ) {
        let [mut one, mut other] = pair();
        let (kind, content) = if greeting { (Kind::Greeting, vec![0; GREETING]) } else { (Kind::Group, content) };
        let bytes = sealed(&mut one.0, kind, other.1, &content);
        let mut changed = bytes.clone();
        for (at, mask) in &changes {
            changed[at.index(bytes.len())] ^= mask;
        }
        let before = format!("{:?}", other.0);
        for bad in [changed.clone(), bytes[..len.index(bytes.len())].to_vec(), [&bytes[..], b"0"].concat()] {
            for multicast in [true, false] {
                if bad != bytes {
                    let opened = open(&mut other.0, at(1), one.1, multicast, &bad);
                    let refused = matches!(opened, Err(DropReason::Unsealed | DropReason::Unauthentic | DropReason::Outdated));
                    prop_assert!(refused, "{:?}", opened);
                }
            }
        }
        prop_assert_eq!(format!("{:?}", other.0), before, "state has changed");
        prop_assert!(open(&mut other.0, at(1), one.1, !greeting, &bytes).is_ok());
    }

    #[test]
    fn random_bytes_open_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200), multicast: bool, sealed: bool) {
        let [_, mut other] = pair();
        let mut bytes = bytes;
        if sealed && bytes.len() > 1 {
            (bytes[0], bytes[1]) = (MAGIC, Kind::One.byte());
        }
        prop_assert!(open(&mut other.0, at(1), address("10.0.0.1:5000"), multicast, &bytes).is_err());
    }
}

/// Both ends have private addresses that translators replace, and one of them learns the names.
#[test]
fn seals_pass_address_translation_once_one_end_knows_the_names() {
    let (mut client, mut server) = (endpoint(1).0, endpoint(2).0);
    let [own, theirs] = ["10.0.0.1:5000", "10.0.0.2:5000"].map(address);
    let [seen, public] = ["192.0.2.1:40000", "198.51.100.2:5000"].map(address);
    let multicast = to_group(&mut server, b"first");
    assert_eq!(open(&mut client, at(0), public, true, &multicast), Err(DropReason::Unauthentic));
    client.rename(at(0), public, Names { own: seen, theirs });
    let multicast = to_group(&mut server, b"first");
    assert_eq!(open(&mut client, at(0), public, true, &multicast), Err(DropReason::Unproven));
    // Greetings pass the translators until both ends are proven.
    let mut greetings = 0;
    loop {
        let before = greetings;
        while let Some((to, bytes)) = client.next_greeting() {
            assert_eq!(to, public);
            assert_eq!(open(&mut server, at(0), seen, false, &bytes), Ok(None));
            greetings += 1;
        }
        while let Some((to, bytes)) = server.next_greeting() {
            assert_eq!(to, seen);
            assert_eq!(open(&mut client, at(0), public, false, &bytes), Ok(None));
            greetings += 1;
        }
        if greetings == before {
            break;
        }
    }
    assert_eq!(greetings, 3);
    let multicast = to_group(&mut server, b"to all");
    assert_eq!(open(&mut client, at(1), public, true, &multicast), Ok(Some(b"to all".to_vec())));
    let answer = sealed(&mut client, Kind::One, public, b"an answer");
    // What is meant for one end of one path is refused elsewhere.
    for elsewhere in [own, public, address("192.0.2.1:40001")] {
        assert_eq!(open(&mut server, at(1), elsewhere, false, &answer), Err(DropReason::Unauthentic));
    }
    assert_eq!(open(&mut server, at(1), seen, false, &answer), Ok(Some(b"an answer".to_vec())));
    let to_one = sealed(&mut server, Kind::One, seen, b"for one");
    assert_eq!(open(&mut client, at(1), theirs, false, &to_one), Err(DropReason::Unauthentic));
    assert_eq!(open(&mut client, at(1), public, false, &to_one), Ok(Some(b"for one".to_vec())));
    // Others are named by their own addresses as before.
    let mut third = endpoint(3);
    let to_third = sealed(&mut client, Kind::One, third.1, b"greetings");
    assert_eq!(open(&mut third.0, at(1), own, false, &to_third), Err(DropReason::Unproven));
}
