//! Tests of the event queue against a `BTreeMap` keyed by (time, serial), under random operations.

use std::collections::BTreeMap;

use carillon_core::Time;
use carillon_sim::queue::EventQueue;
use proptest::prelude::*;

/// Operation or burst of operations; times are relative to the contents of the queue.
#[derive(Clone, Debug)]
enum Operation {
    /// Push this long after the last pop.
    After(u64),
    /// Push at the last pop plus this fraction (of 2^16) of the way to the next event, or beyond it.
    Before(u16),
    /// Push at the exact time of the next event, or of the last pushed one.
    Tie { with_next: bool },
    /// Push at this time, unless it is past.
    At(u64),
    /// Push `count` events: the first one `first` after the last pop, and the others at intervals of `step`, modulo
    /// `modulo`.
    Burst { count: usize, first: u64, step: u64, modulo: u64 },
    /// Pop this number of events.
    Pop(usize),
    /// Pop, and push back later by this number of nanoseconds; repeat.
    Hold(usize, u64),
}

fn span() -> impl Strategy<Value = u64> {
    // A random number of bits, so that every order of magnitude occurs.
    prop_oneof![
        4 => (0u32..64, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1)),
        1 => Just(0),
        1 => any::<u64>(),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let extreme =
        prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 63), Just((1 << 60) - 1)];
    let count = prop_oneof![0usize..10, 60usize..70, 90usize..100, 120usize..400];
    prop_oneof![
        3 => span().prop_map(Operation::After),
        2 => any::<u16>().prop_map(Operation::Before),
        2 => any::<bool>().prop_map(|with_next| Operation::Tie { with_next }),
        1 => extreme.prop_map(Operation::At),
        2 => (count.clone(), span(), span(), span()).prop_map(|(count, first, step, modulo)| {
            Operation::Burst { count, first, step, modulo: modulo.max(1) }
        }),
        3 => prop_oneof![Just(1usize), 0usize..10, count.clone()].prop_map(Operation::Pop),
        1 => (count, span()).prop_map(|(count, span)| Operation::Hold(count, span)),
    ]
}

/// Queue and its reference model, kept in step.
#[derive(Default)]
struct Pair {
    queue: EventQueue<u64>,
    oracle: BTreeMap<(u64, u64), ()>,
    serial: u64,
    now: u64,
    last_pushed: u64,
}

impl Pair {
    fn push(&mut self, time: u64) {
        let time = time.max(self.now);
        self.queue.push(Time::from_nanos(time), self.serial);
        self.oracle.insert((time, self.serial), ());
        self.serial += 1;
        self.last_pushed = time;
        self.check();
    }

    fn pop(&mut self) {
        let expected = self.oracle.pop_first().map(|(key, ())| key);
        let found = self.queue.pop().map(|(time, item)| (time.as_nanos(), item));
        assert_eq!(found, expected);
        if let Some((time, _)) = found {
            self.now = time;
        }
        self.check();
    }

    fn check(&self) {
        let next = self.oracle.first_key_value().map(|((time, _), ())| Time::from_nanos(*time));
        assert_eq!(self.queue.next_time(), next);
        assert_eq!(self.queue.len(), self.oracle.len());
        assert_eq!(self.queue.is_empty(), self.oracle.is_empty());
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::After(span) => self.push(self.now.saturating_add(span)),
            Operation::Before(fraction) => {
                let next = self.queue.next_time().map_or(u64::MAX, Time::as_nanos);
                self.push(self.now + ((next - self.now) >> 16) * u64::from(fraction));
            }
            Operation::Tie { with_next } => {
                let next = self.queue.next_time().map(Time::as_nanos);
                self.push(next.filter(|_| with_next).unwrap_or(self.last_pushed));
            }
            Operation::At(time) => self.push(time),
            Operation::Burst { count, first, step, modulo } => {
                for index in 0..count as u64 {
                    self.push(
                        self.now.saturating_add(first).saturating_add(step.wrapping_mul(index) % modulo),
                    );
                }
            }
            Operation::Pop(count) => (0..count).for_each(|_| self.pop()),
            Operation::Hold(count, span) => {
                for _ in 0..count {
                    self.pop();
                    self.push(self.now.saturating_add(span));
                }
            }
        }
    }

    fn drain(&mut self) {
        while !self.oracle.is_empty() {
            self.pop();
        }
        self.pop();
    }
}

/// Small generator for tests that need many numbers but no variety.
fn scramble(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 20
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4 * ProptestConfig::default().cases))]

    #[test]
    fn pops_in_order_of_time_and_insertion(operations in prop::collection::vec(operation(), 0..60)) {
        let mut pair = Pair::default();
        for operation in &operations {
            pair.apply(operation);
        }
        pair.drain();
    }
}

#[test]
fn many_events_pop_in_order_while_others_come() {
    // Enough events for several levels of buckets with several blocks each.
    for mask in [0, 0xff, 0xffff, 0xffff_ffff, u64::MAX] {
        let mut pair = Pair::default();
        let mut state = mask;
        for _ in 0..20_000 {
            pair.push(scramble(&mut state) & mask);
        }
        for _ in 0..40_000 {
            pair.pop();
            pair.push(pair.now + (scramble(&mut state) & mask));
        }
        pair.drain();
    }
}

#[test]
fn events_of_equal_time_are_fifo_around_pops() {
    for time in [0, 1, 63, 64, 1_000_000_007, u64::MAX - 1, u64::MAX] {
        let mut pair = Pair::default();
        (0..500).for_each(|_| pair.push(time));
        (0..100).for_each(|_| pair.pop());
        (0..500).for_each(|_| pair.push(time));
        (0..500).for_each(|_| pair.push(time.saturating_add(1)));
        pair.drain();
    }
}

#[test]
fn events_before_the_next_one_are_welcome_in_any_number() {
    let mut pair = Pair::default();
    pair.push(10);
    (0..300).for_each(|timer| pair.push(3_600_000_000_000 + timer));
    pair.pop();
    // The next event is an hour away: all of these come before it, each before the one pushed last.
    (0..2000).rev().for_each(|step| pair.push(10 + step));
    (0..50).for_each(|_| pair.pop());
    (0..200).for_each(|_| pair.push(pair.now));
    pair.drain();
}

#[test]
fn an_event_at_the_end_of_time_is_an_event() {
    let mut pair = Pair::default();
    pair.push(u64::MAX);
    pair.push(0);
    pair.push(u64::MAX);
    pair.pop();
    (0..300).for_each(|step| pair.push(u64::MAX - step));
    (0..200).for_each(|_| pair.pop());
    (0..300).for_each(|_| pair.push(u64::MAX));
    pair.drain();
    pair.push(u64::MAX);
    pair.drain();
}

#[test]
fn an_empty_queue_pops_nothing_and_goes_on() {
    let mut queue = EventQueue::<&str>::new();
    assert_eq!(queue.pop(), None);
    assert_eq!(queue.next_time(), None);
    queue.push(Time::from_nanos(5), "late");
    queue.push(Time::from_nanos(3), "early");
    assert_eq!(queue.pop(), Some((Time::from_nanos(3), "early")));
    assert_eq!(queue.pop(), Some((Time::from_nanos(5), "late")));
    assert_eq!(queue.pop(), None);
    queue.push(Time::from_nanos(5), "again");
    assert_eq!(queue.pop(), Some((Time::from_nanos(5), "again")));
    assert!(queue.is_empty());
}

#[test]
#[should_panic(expected = "an event at 0.000000004 cannot be queued")]
fn an_event_in_the_past_is_refused() {
    let mut queue = EventQueue::new();
    queue.push(Time::from_nanos(5), ());
    queue.pop();
    queue.push(Time::from_nanos(4), ());
}

#[test]
fn items_need_not_be_copied_and_are_dropped_once() {
    let item = std::rc::Rc::new(());
    let mut queue = EventQueue::new();
    (0..1000u64).for_each(|step| queue.push(Time::from_nanos(step * 77 % 1000), item.clone()));
    (0..500).for_each(|_| drop(queue.pop()));
    assert_eq!(std::rc::Rc::strong_count(&item), 501);
    drop(queue);
    assert_eq!(std::rc::Rc::strong_count(&item), 1);
}

#[test]
fn a_queue_can_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&EventQueue::<u32>::new());
}
