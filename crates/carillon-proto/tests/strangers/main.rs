//! Attacks with every packet type, in every phase of a session, on every protocol.
//!
//! A session of each protocol of the registry, and of one with helpers, passes through its phases while an attacker
//! sends packets: session packets, recorded and synthetic protocol packets, and replays. Half of them have a changed
//! header field; they go to the group or to one node, from every address that the attacker can forge. Each run is
//! checked against docs/explanation/security.md: no panic, the session ends, no receiver is wrongly verified,
//! receivers out of the attacker's reach are complete, and traffic and memory are bounded.
//!
//! `CARILLON_RUNS` sets the number of seeds. `CARILLON_PROTOCOL`, `CARILLON_ATTACK` (part of a name) and
//! `CARILLON_SEED` select one run, as printed by a failure. `--nocapture` prints the worst values of each protocol.

#![expect(clippy::disallowed_methods, reason = "a test may have threads")]

mod attacker;
#[path = "../shared/hoarders.rs"]
mod hoarders;
mod plain;
mod world;

use std::env::var;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;

use carillon_core::{Bytes, Helpers, ProtocolEntry};
use carillon_proto::blocks::{ErasureCode, ReedSolomon, Shape};
use carillon_testkit::heap::{self, Counting};
use carillon_testkit::{chosen, is_long_tier, protocol_tests, sampling_step, seeds};

use attacker::{
    ASSOCIATION, Attacker, AttackerRole, OTHER_ASSOCIATION, PacketKind, Recordings, all, has_peers, kinds,
};
use world::{MEMORY, MESSAGES, NAMES, NODES, Outcome, PAYLOAD, PHASES, Phase, Setting, World, protocols};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Attack: attacker role, phase, kinds of packets, and their number and burst.
#[derive(Clone, Debug)]
struct Attack {
    role: AttackerRole,
    phase: Option<Phase>,
    kinds: Vec<PacketKind>,
    packets: usize,
    burst: usize,
}

impl Attack {
    fn name(&self) -> String {
        let phase = self.phase.map_or("always".to_owned(), |phase| format!("{phase:?}"));
        let kind = match self.kinds[..] {
            [one] => format!("{one:?}"),
            _ => "all".to_owned(),
        };
        format!("{:?},{phase},{kind},{}", self.role, self.packets).to_lowercase()
    }
}

fn run(entry: &'static ProtocolEntry, seed: u64, attacker: &mut Attacker, loss: f64) -> Option<Outcome> {
    let setting = Setting { entry, association: ASSOCIATION, seed, loss };
    catch_unwind(AssertUnwindSafe(|| World::new(&setting).run(attacker))).ok()
}

/// Records another session with 5 % loss.
fn recordings(entry: &'static ProtocolEntry, seed: u64) -> Recordings {
    let setting = Setting { entry, association: OTHER_ASSOCIATION, seed: seed ^ 0x5eed, loss: 0.05 };
    let mut recorder = Attacker::recorder(entry);
    World::new(&setting).run(&mut recorder);
    recorder.into_recordings()
}

fn judge(
    attack: &Attack,
    entry: &ProtocolEntry,
    baseline: &Outcome,
    outcome: &Outcome,
) -> Result<(), String> {
    if !outcome.over {
        return Err("it does not end".to_owned());
    }
    let own = if attack.role == AttackerRole::Member { 1 } else { 0 };
    for receiver in 0..outcome.got.len() - own {
        if outcome.is_verified(receiver) && outcome.got[receiver] < MESSAGES {
            return Err(format!("receiver {receiver} has not got what it is said to have"));
        }
        let harmless = match attack.role {
            AttackerRole::Blind | AttackerRole::Outsider => true,
            // With helpers or ordered members, all members meet first, and a silent member can hold up the others.
            AttackerRole::Member => {
                let may_harm = has_peers(entry) || protocol_tests(entry).orders_members;
                !may_harm && outcome.failure.is_none() && !outcome.missed_assembly(receiver)
            }
            // A helper can withhold repairs from its children.
            AttackerRole::Forger | AttackerRole::Sender | AttackerRole::Helper => false,
        };
        if harmless && !outcome.is_verified(receiver) {
            return Err(format!("receiver {receiver} has not got everything"));
        }
    }
    // Damage that the sender does to itself is not checked.
    for node in usize::from(attack.role == AttackerRole::Sender)..NODES {
        let (sent, attacked) = (outcome.before.0[node], outcome.before.1);
        let max = baseline.before.0[node] + 3 * attacked + TIMING_MARGIN;
        if sent > max {
            return Err(format!("before the welcome node {node} sent {sent} bytes, more than {max}"));
        }
        let max = baseline.sent[node] + 3 * outcome.attack + allowance(attack, node, baseline, outcome);
        if outcome.sent[node] > max {
            let (sent, sent_before) = (outcome.sent[node], baseline.sent[node]);
            return Err(format!(
                "node {node} sent {sent} bytes, without the attack {sent_before}: more than {max}"
            ));
        }
        let max = baseline.peak[node] + MEMORY + MAX_EARLY_BYTES + MAX_TABLE_BYTES;
        if outcome.peak[node] > max {
            return Err(format!("node {node} held {} bytes, more than {max}", outcome.peak[node]));
        }
    }
    Ok(())
}

/// Bytes that a node may send beyond three for each byte of the attacker.
fn allowance(attack: &Attack, node: usize, baseline: &Outcome, outcome: &Outcome) -> usize {
    // Keepalives for the additional time.
    let longer = outcome.time.saturating_sub(baseline.time).as_millis() as usize;
    let alive = 4 * longer + 4096;
    match attack.role {
        // Three for each byte from the sender or a helper as well; a helper as much again for each child.
        _ if node > 0 => {
            let helpers = (NAMES.len() + 1..NODES).filter(|&helper| helper != node);
            let served = outcome.sent[0] + helpers.map(|helper| outcome.sent[helper]).sum::<usize>();
            let children = if node > NAMES.len() { NAMES.len() } else { 0 };
            alive + (64 << 10) + 3 * served * (1 + children)
        }
        AttackerRole::Blind | AttackerRole::Outsider => alive,
        // Repairs: nine times the messages and 1024 more, and repetitions while it is blocked.
        AttackerRole::Forger | AttackerRole::Member | AttackerRole::Sender | AttackerRole::Helper => {
            alive + 9 * baseline.sent[0] + 1024 * PAYLOAD + 400 * longer
        }
    }
}

/// Returns true if `CARILLON_ATTACK` selects an attack of this name.
fn is_selected(name: &str) -> bool {
    var("CARILLON_ATTACK").map_or(true, |wanted| name.contains(&wanted))
}

/// Attacks of a tier: all kinds together in each phase, and each kind separately.
fn attacks(entry: &ProtocolEntry, recordings: &Recordings, long: bool) -> Vec<Attack> {
    let kinds = kinds(recordings);
    let mut attacks = Vec::new();
    for role in all(entry) {
        for phase in PHASES {
            attacks.push(Attack { role, phase: Some(phase), kinds: kinds.clone(), packets: 600, burst: 2 });
            if long {
                let each =
                    |&kind| Attack { role, phase: Some(phase), kinds: vec![kind], packets: 300, burst: 1 };
                attacks.extend(kinds.iter().map(each));
            }
        }
        let each = |&kind| Attack { role, phase: None, kinds: vec![kind], packets: 2000, burst: 1 };
        attacks.extend(kinds.iter().map(each));
    }
    attacks
}

/// Runs the wanted attacks on a protocol. Returns the failures and the number of attacks.
fn failures(
    entry: &'static ProtocolEntry,
    seed: u64,
    long: bool,
    wanted: &dyn Fn(&str) -> bool,
) -> (Vec<String>, usize) {
    let recordings = recordings(entry, seed);
    let baseline = run(entry, seed, &mut Attacker::recorder(entry), 0.0).expect("it runs without an attack");
    let all = (0..3).all(|receiver| baseline.is_verified(receiver));
    assert!(baseline.over && all, "{}: {baseline:?}", entry.name);
    let helpers = baseline.members.iter().filter(|member| member.part.helps()).count();
    assert_eq!(helpers, if entry.helpers == Helpers::None { 0 } else { 2 }, "{}", entry.name);
    let (mut failures, mut count) = (Vec::new(), 0);
    for attack in attacks(entry, &recordings, long).iter().filter(|attack| wanted(&attack.name())) {
        println!("{} {}", entry.name, attack.name());
        let attacker = Attacker::new(attack.role, entry, &recordings, seed);
        let mut attacker = attacker.attack(attack.phase, &attack.kinds, attack.packets, attack.burst);
        let verdict = match run(entry, seed, &mut attacker, 0.0) {
            Some(outcome) => {
                judge(attack, entry, &baseline, &outcome).map_err(|e| format!("{e}\n  {outcome:?}"))
            }
            None => Err("it panicked".to_owned()),
        };
        count += 1;
        if let Err(failure) = verdict {
            let (protocol, name) = (entry.name, attack.name());
            failures.push(format!(
                "{protocol}, {name}: {failure}\nrun it again: CARILLON_PROTOCOL={protocol} CARILLON_ATTACK={name} \
                 CARILLON_SEED={seed} cargo test -p carillon-proto --test strangers"
            ));
        }
    }
    (failures, count)
}

/// Failures of all items, each tried in its own thread, since heap use is counted per thread.
fn in_parallel<T: Send>(
    tried: impl IntoIterator<Item = T>,
    failures: impl Fn(T) -> Vec<String> + Sync,
) -> Vec<String> {
    let failures = &failures;
    scope(|scope| {
        let threads: Vec<_> = tried.into_iter().map(|one| scope.spawn(move || failures(one))).collect();
        threads.into_iter().flat_map(|one| one.join().expect("it complains, and does not panic")).collect()
    })
}

/// Returns true if an attack belongs to the sample tried with one seed: 1 in 100, or 1 in 3 in the long tier. Each
/// protocol has another sample.
fn is_drawn(entry: &ProtocolEntry, attack: &str) -> bool {
    entry.name.bytes().chain(attack.bytes()).map(u32::from).sum::<u32>().is_multiple_of(if is_long_tier() {
        3
    } else {
        100
    })
}

#[test]
fn attacks_do_no_more_than_documented() {
    make_tables();
    let seeds = seeds(1);
    let long = *seeds.end() > 1 || var("CARILLON_ATTACK").is_ok();
    let protocols = chosen(protocols(), protocols().iter().copied());
    let tried = AtomicUsize::new(0);
    let all = in_parallel(protocols, |entry| {
        let (mut found, mut count) = (Vec::new(), 0);
        for seed in seeds.clone() {
            let (failures, attacks) =
                failures(entry, seed, long, &|name| is_selected(name) && (long || is_drawn(entry, name)));
            found.extend(failures);
            count += attacks;
        }
        tried.fetch_add(count, Ordering::Relaxed);
        println!("{:16} {count} attacks, {} complaints", entry.name, found.len());
        found
    });
    assert!(all.is_empty(), "{} complaints:\n{}", all.len(), all.join("\n\n"));
    let tried = tried.into_inner();
    // The sample of a single protocol may be empty.
    let is_chosen = var("CARILLON_PROTOCOL").is_ok() || var("CARILLON_ATTACK").is_ok();
    let min = if is_chosen && !long {
        0
    } else if long {
        1
    } else {
        10
    };
    assert!(tried >= min, "{tried} attacks were tried, of at least {min}: {}", attack_names());
}

/// Every datagram of a flood in the sender's name reaches the protocol's machine, and none of them is kept.
#[test]
fn floods_of_forged_data_are_bounded_in_memory() {
    make_tables();
    let protocols = chosen(protocols(), protocols().iter().copied());
    let all = in_parallel(protocols, |entry| flood(entry).err().into_iter().collect());
    assert!(all.is_empty(), "{} complaints:\n{}", all.len(), all.join("\n\n"));
}

/// The check fails for receivers that keep everything.
#[test]
fn receivers_that_hoard_are_caught() {
    make_tables();
    let failures = in_parallel(hoarders::HOARDERS, |entry| flood(entry).err().into_iter().collect());
    assert_eq!(failures.len(), hoarders::HOARDERS.len(), "{failures:?}");
    assert!(failures.iter().all(|failure| failure.contains(" held ")), "{failures:?}");
}

fn flood(entry: &'static ProtocolEntry) -> Result<(), String> {
    assert!(heap::is_counting(), "this test program does not count its heap");
    let mut recordings = recordings(entry, 1);
    let data = data_kinds(&recordings);
    recordings.values_mut().for_each(|datagrams| datagrams.retain(|datagram| datagram.bytes.len() > PAYLOAD));
    let baseline = run(entry, 1, &mut Attacker::recorder(entry), 0.0).expect("it runs without an attack");
    let attacker = Attacker::new(AttackerRole::Forger, entry, &recordings, 1);
    let mut attacker = attacker.attack(Some(Phase::Running), &data, FLOOD_DATAGRAMS, FLOOD_DATAGRAMS / 1000);
    let outcome = run(entry, 1, &mut attacker, 0.0).ok_or_else(|| format!("{}: it panicked", entry.name))?;
    let max = MEMORY + FLOOD_MARGIN;
    if outcome.attack < 2 * max {
        return Err(format!("{}: a flood of {} bytes says nothing", entry.name, outcome.attack));
    }
    for node in 1..=NAMES.len() {
        let held = outcome.peak[node];
        println!("{:16} node {node} held {held}, {} without the flood", entry.name, baseline.peak[node]);
        if held > baseline.peak[node] + max {
            return Err(format!(
                "{}: node {node} held {held} bytes in a flood of {}",
                entry.name, outcome.attack
            ));
        }
    }
    Ok(())
}

/// Kinds of protocol packets that carry messages.
fn data_kinds(recordings: &Recordings) -> Vec<PacketKind> {
    let long = |datagrams: &Vec<world::SentDatagram>| {
        datagrams.iter().any(|datagram| datagram.bytes.len() > PAYLOAD)
    };
    let is_data =
        |kind: &PacketKind| matches!(kind, PacketKind::Heard(_)) && recordings.get(kind).is_some_and(long);
    kinds(recordings).into_iter().filter(is_data).collect()
}

/// Attack names that `CARILLON_ATTACK` can select.
fn attack_names() -> String {
    let entry = protocols()[0];
    let names = attacks(entry, &recordings(entry, 1), true).iter().map(Attack::name).collect::<Vec<_>>();
    format!("attacks of {} are {}", entry.name, names.join("; "))
}

/// Attacks that succeeded with some seeds of the long tier in the past.
#[test]
fn known_attacks_fail() {
    let all = in_parallel(KNOWN_ATTACKS.iter().step_by(sampling_step(4)), |&(protocol, attack, seed)| {
        let entry = protocols().iter().find(|entry| entry.name == protocol).expect("it is registered");
        let (failures, count) = failures(entry, seed, true, &|name| name == attack);
        assert_eq!(count, 1, "{protocol} {attack}");
        failures
    });
    assert!(all.is_empty(), "{} complaints:\n{}", all.len(), all.join("\n\n"));
}

/// Protocol, attack and seed. The attacks are INVITEs to other settings in the sender's name, and floods of them and
/// of PRESENTs. Others use messages that do not exist (SRM) or lie beyond memory (Carillon), a view that no member
/// can follow, and number jumps before the WELCOME.
const KNOWN_ATTACKS: [(&str, &str, u64); 13] = [
    ("msaw", "blind,always,session(1),2000", 15),
    ("srm", "blind,always,session(1),2000", 7),
    ("chang-maxemchuk", "blind,always,session(10),2000", 12),
    ("chang-maxemchuk", "forger,seeking,session(1),300", 9),
    ("sequencer", "forger,seeking,session(1),300", 4),
    ("sequencer", "forger,seeking,session(1),300", 8),
    ("sequencer", "forger,seeking,session(1),300", 20),
    ("sequencer", "forger,always,session(1),2000", 19),
    ("srm", "forger,always,heard(2),2000", 14),
    ("chang-maxemchuk", "member,running,made,300", 18),
    ("carillon", "sender,always,made,2000", 1),
    ("lms", "sender,always,made,2000", 7),
    ("lms", "sender,always,made,2000", 10),
];

/// 128 messages of two bytes in the sender's name, enough to fill a window. Receivers that accept them fail, the
/// session ends, and no false data is verified.
#[test]
fn forged_tiny_data_is_not_verified() {
    let mut hurt = 0;
    for entry in protocols().iter().step_by(sampling_step(3)) {
        let recordings = recordings(entry, 1);
        let data = data_kinds(&recordings);
        assert!(!data.is_empty(), "{}", entry.name);
        let attacker = Attacker::new(AttackerRole::Forger, entry, &recordings, 1);
        let mut attacker = attacker.attack(Some(Phase::Running), &data, 128, 128).tiny();
        let outcome = run(entry, 1, &mut attacker, 0.0).expect("it does not panic");
        assert!(
            outcome.over && outcome.time < carillon_core::Duration::from_secs(60),
            "{}: {outcome:?}",
            entry.name
        );
        for receiver in 0..outcome.got.len() {
            let has_all = outcome.got[receiver] == MESSAGES;
            assert!(has_all || !outcome.is_verified(receiver), "{}: {outcome:?}", entry.name);
            hurt += usize::from(!has_all);
        }
    }
    assert!(hurt > 0, "it is not prevented: docs/explanation/security.md says so");
}

/// Builds process-wide tables first, so that they are charged to no machine.
fn make_tables() {
    let shape = Shape { length: 2, planned: 1, size: 2 };
    let coded = ReedSolomon.code(shape, &mut [Bytes::new(), Bytes::new()].into_iter()).expect("a code");
    let mut coded = [(0, Bytes::from(coded))].into_iter();
    ReedSolomon.restore(shape, &mut [(0, Bytes::new())].into_iter(), &mut coded).expect("it comes back");
}

/// Number of datagrams in a flood.
const FLOOD_DATAGRAMS: usize = 5000;
/// Allowance for datagrams that arrive before a receiver has built its machine, and for tables, in bytes.
const FLOOD_MARGIN: usize = 512 << 10;
/// Bytes by which two runs may differ through timing.
const TIMING_MARGIN: usize = 300;
/// Maximum memory before the WELCOME, in bytes.
const MAX_EARLY_BYTES: usize = 1 << 20;
/// Maximum memory for tables of missing and requested messages, in bytes.
const MAX_TABLE_BYTES: usize = 256 << 10;
