//! Property tests: data structures of the core under random operations, against simple reference models.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use carillon_core::{BitRate, InlineQueue, NodeId, Seeds, SeqSet, Span, Time, Timers, expand};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum TimerOp {
    Arm(u8, u64),
    Cancel(u8),
    Expire(u64),
    Clear,
}

fn timer_op() -> impl Strategy<Value = TimerOp> {
    // Usually enough timers are armed that they are indexed, if the key is long enough.
    prop_oneof![
        30 => (0..40u8, 0..1000u64).prop_map(|(key, at)| TimerOp::Arm(key, at)),
        8 => (0..40u8).prop_map(TimerOp::Cancel),
        4 => (0..300u64).prop_map(TimerOp::Expire),
        1 => Just(TimerOp::Clear),
    ]
}

#[derive(Clone, Debug)]
enum SetOp {
    Insert(u64),
    InsertRun(std::ops::Range<u64>),
    RemoveBelow(u64),
}

fn behaves_like_a_queue<const N: usize>(ops: &[Option<u32>]) -> Result<(), TestCaseError> {
    let mut queue: InlineQueue<Box<u32>, N> = InlineQueue::default();
    let mut oracle = VecDeque::new();
    for op in ops {
        match *op {
            Some(entry) if entry % 16 == 0 => {
                let mut all = VecDeque::new();
                queue.take_all(|entry| all.push_back(**entry));
                prop_assert_eq!(all, std::mem::take(&mut oracle));
            }
            Some(entry) => {
                queue.push_back(Box::new(entry));
                oracle.push_back(entry);
            }
            None => prop_assert_eq!(queue.pop_front().map(|entry| *entry), oracle.pop_front()),
        }
        prop_assert_eq!((queue.len(), queue.is_empty()), (oracle.len(), oracle.is_empty()));
    }
    Ok(())
}

fn timers_agree<K: Ord + Copy + Debug + From<u8>>(ops: &[TimerOp]) -> Result<(), TestCaseError> {
    let mut timers = Timers::new();
    let mut oracle: BTreeMap<K, u64> = BTreeMap::new();
    for op in ops {
        match *op {
            TimerOp::Arm(key, at) => {
                timers.arm(K::from(key), Time::from_nanos(at));
                oracle.insert(K::from(key), at);
            }
            TimerOp::Cancel(key) => {
                prop_assert_eq!(timers.cancel(K::from(key)), oracle.remove(&K::from(key)).is_some());
            }
            TimerOp::Clear => {
                timers.clear();
                oracle.clear();
            }
            TimerOp::Expire(now) => {
                while let Some(key) = timers.expire(Time::from_nanos(now)) {
                    let first = oracle.iter().map(|(&key, &at)| (at, key)).min();
                    prop_assert!(first.is_some_and(|(at, first)| at <= now && first == key));
                    oracle.remove(&key);
                }
                prop_assert!(oracle.values().all(|&at| at > now));
            }
        }
        prop_assert_eq!(timers.next(), oracle.values().min().map(|&at| Time::from_nanos(at)));
        for key in (0..40).map(K::from) {
            prop_assert_eq!(timers.armed(key), oracle.get(&key).map(|&at| Time::from_nanos(at)));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn timers_behave_like_a_map_searched_for_its_least_entry(ops in prop::collection::vec(timer_op(), 0..200)) {
        timers_agree::<u8>(&ops)?;
        // Keys with enough values that the timers may be indexed.
        timers_agree::<u64>(&ops)?;
    }

    #[test]
    fn expand_finds_the_number_that_was_truncated(
        number in 0..u64::MAX / 4,
        modulus in prop_oneof![Just(2u64), Just(10), Just(65_536), Just(1 << 32), 1..1_000_000u64],
        distance in any::<u64>(),
        behind in any::<bool>(),
    ) {
        // Any expected value for which `number` is the nearest of its class.
        let expected = if behind {
            number + distance % (modulus / 2 + 1)
        } else {
            number.saturating_sub(distance % modulus.div_ceil(2))
        };
        prop_assert_eq!(expand(number % modulus, modulus, expected), number);
    }

    #[test]
    fn expand_always_returns_a_number_of_the_class(truncated in any::<u64>(), modulus in 1..=1u64 << 63, expected in any::<u64>()) {
        let truncated = truncated % modulus;
        let number = expand(truncated, modulus, expected);
        // Saturation at the end of the number space is the one exception; no run gets there.
        if expected < u64::MAX / 2 && modulus < u64::MAX / 4 {
            prop_assert_eq!(number % modulus, truncated);
        }
    }

    #[test]
    fn seq_set_behaves_like_a_set(ops in prop::collection::vec(
        prop_oneof![9 => (0..200u64).prop_map(SetOp::Insert),
            2 => (0..200u64, 0..20u64).prop_map(|(from, len)| SetOp::InsertRun(from..from + len)), 1 => (0..200u64).prop_map(SetOp::RemoveBelow)], 0..200),
        from in 0..210u64, span in 0..210u64,
    ) {
        let mut set = SeqSet::new();
        let mut oracle = BTreeSet::new();
        for op in ops {
            match op {
                SetOp::Insert(n) => prop_assert_eq!(set.insert(n), oracle.insert(n)),
                SetOp::InsertRun(run) => {
                    let all = run.clone().all(|number| oracle.contains(&number));
                    prop_assert_eq!(set.contains_run(&run), all);
                    set.insert_run(run.clone());
                    oracle.extend(run);
                }
                SetOp::RemoveBelow(n) => {
                    set.remove_below(n);
                    oracle = oracle.split_off(&n);
                }
            }
        }
        prop_assert_eq!(set.len(), oracle.len() as u64);
        prop_assert_eq!(set.is_empty(), oracle.is_empty());
        let members: Vec<u64> = set.runs().flatten().collect();
        prop_assert_eq!(&members, &oracle.iter().copied().collect::<Vec<_>>());
        for n in 0..210 {
            prop_assert_eq!(set.contains(n), oracle.contains(&n));
        }
        prop_assert_eq!(set.first_missing(from), (from..).find(|n| !oracle.contains(n)).unwrap());
        let missing: Vec<u64> = set.missing(from..from + span).flatten().collect();
        let expected: Vec<u64> = (from..from + span).filter(|n| !oracle.contains(n)).collect();
        prop_assert_eq!(missing, expected);
        // Runs are maximal: none touches the next.
        let runs: Vec<_> = set.runs().collect();
        prop_assert_eq!(runs.len(), set.count_runs());
        prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
    }

    #[test]
    fn inline_queue_behaves_like_a_queue(ops in prop::collection::vec(prop::option::weighted(0.55, any::<u32>()), 0..200)) {
        behaves_like_a_queue::<1>(&ops)?;
        behaves_like_a_queue::<2>(&ops)?;
        behaves_like_a_queue::<3>(&ops)?;
    }

    #[test]
    fn a_time_is_that_of_exact_arithmetic(bits in any::<u64>(), shift in 0..64u32, bps in 1..1u64 << 50) {
        let bits = bits >> shift;
        let exact = (u128::from(bits) * 1_000_000_000 + u128::from(bps) / 2) / u128::from(bps);
        let exact = Duration::from_nanos(u64::try_from(exact).unwrap_or(u64::MAX));
        prop_assert_eq!(BitRate::new(bps).expect("more than none").time_for_bits(bits), exact);
    }

    #[test]
    fn below_stays_below(seed in any::<u64>(), bound in 1..=u64::MAX) {
        let mut rng = Seeds::new(seed).stream("test");
        for _ in 0..20 {
            prop_assert!(rng.below(bound) < bound);
        }
    }

    #[test]
    fn quantities_survive_being_written(bps in 1..1u64 << 50, nanos in 0..1u64 << 53) {
        let rate = BitRate::new(bps).unwrap();
        prop_assert_eq!(rate.to_string().parse::<BitRate>().unwrap(), rate);
        let span = Span::Time(Duration::from_nanos(nanos));
        prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
    }

    #[test]
    fn no_text_makes_a_quantity_panic(text in "\\PC{0,12}") {
        let _ = text.parse::<BitRate>();
        let _ = text.parse::<Span>();
        let _ = text.parse::<carillon_core::DataSize>();
        let _ = text.parse::<carillon_core::Probability>();
    }
}

#[test]
fn below_is_uniform() {
    // 30 cells of 1000 expected: chi-square with 29 degrees of freedom is below 58.3 with
    // probability 0.999. The seed is fixed, so this either holds or never does.
    let mut rng = Seeds::new(7).stream("uniform");
    let mut cells = [0u32; 30];
    for _ in 0..30_000 {
        cells[rng.below(30) as usize] += 1;
    }
    let chi: f64 = cells.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
    assert!(chi < 58.3, "chi-square {chi}");
}

#[test]
fn streams_differ_by_any_part_of_their_name_and_never_change() {
    let root = Seeds::new(1);
    let firsts = [
        root.stream("a").bits(),
        root.stream("b").bits(),
        root.node(NodeId(0)).stream("a").bits(),
        root.node(NodeId(1)).stream("a").bits(),
        root.part("a").stream("a").bits(),
        root.replication(1).stream("a").bits(),
        Seeds::new(2).stream("a").bits(),
    ];
    assert_eq!(firsts.iter().collect::<BTreeSet<_>>().len(), firsts.len());
    // Pinned: a change here changes every published result.
    assert_eq!(firsts[0], PINNED_FIRST_BITS);
}

#[test]
fn exponential_has_its_mean() {
    let mut rng = Seeds::new(3).stream("exponential");
    let mean = (0..100_000).map(|_| rng.exponential(5.0)).sum::<f64>() / 1e5;
    assert!((mean - 5.0).abs() < 0.06, "mean {mean}");
}

#[test]
fn quantities_are_read_as_people_write_them() {
    assert_eq!("10 Mbit/s".parse(), Ok(BitRate::mbps(10)));
    assert_eq!("1.5Mbit/s".parse(), Ok(BitRate::new(1_500_000).unwrap()));
    assert!("1.5 Mbps".parse::<BitRate>().is_err(), "what is not documented is not accepted");
    assert_eq!("1e6 bit/s".parse(), Ok(BitRate::mbps(1)));
    assert_eq!("6000 bit".parse(), Ok(Span::Bits(6000)));
    assert_eq!("20 ms".parse(), Ok(Span::Time(Duration::from_millis(20))));
    assert_eq!("2 %".parse::<carillon_core::Probability>().unwrap().value(), 0.02);
    assert!("10".parse::<BitRate>().is_err(), "a rate needs its unit");
    assert!("0 Mbit/s".parse::<BitRate>().is_err());
    assert!("-1 ms".parse::<Span>().is_err());
    assert!("1.5".parse::<carillon_core::Probability>().is_err());
}

const PINNED_FIRST_BITS: u64 = 7_202_715_144_451_190_865;
