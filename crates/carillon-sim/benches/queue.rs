//! Benchmark of the event queue against the standard binary heap, in the hold model.
//!
//! A hold operation pops the earliest event and pushes it back at its time plus a random increment, so that the
//! number of pending events stays the same. Run it with `cargo bench -p carillon-sim --bench queue`; `-- --quick`
//! takes a few seconds.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // A benchmark has to look at a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use carillon_core::Time;
use carillon_sim::queue::EventQueue;

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let (sizes, rounds, span): (&[usize], usize, Duration) = if quick {
        (&[100, 10_000, 1_000_000], 3, Duration::from_millis(15))
    } else {
        (&[100, 1_000, 10_000, 100_000, 1_000_000], 7, Duration::from_millis(120))
    };
    println!("hold operations, millions per second (medians of {rounds} interleaved rounds)");
    println!("{:<14}{:>10}{:>12}{:>12}{:>8}", "increments", "pending", "EventQueue", "BinaryHeap", "ratio");
    for (name, increment) in DISTRIBUTIONS {
        for &size in sizes {
            let mut queue = Hold::<EventQueue<u32>>::new(size, *increment);
            let mut heap = Hold::<Heap>::new(size, *increment);
            // Long enough to leave the initial state behind, or nearly so.
            let warm_up = if quick { size / 2 } else { 2 * size };
            queue.run(warm_up);
            heap.run(warm_up);
            let (mut queue_rates, mut heap_rates) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                queue_rates.push(queue.rate(span));
                heap_rates.push(heap.rate(span));
            }
            let (queue, heap) = (median(queue_rates), median(heap_rates));
            println!("{name:<14}{size:>10}{queue:>12.1}{heap:>12.1}{:>8.2}", queue / heap);
        }
    }
    let (size, rounds) = if quick { (100_000, 3) } else { (1_000_000, 5) };
    println!("\nfilling with {size} random times and draining, ms");
    let fill = |seed| {
        let (queue, heap) =
            (fill_and_drain::<EventQueue<u32>>(size, seed), fill_and_drain::<Heap>(size, seed));
        println!("EventQueue {queue:.1}, BinaryHeap {heap:.1}, ratio {:.2}", heap / queue);
    };
    (0..rounds).for_each(fill);
}

/// Common interface of the two queues.
trait Queue: Default {
    fn push(&mut self, time: u64, item: u32);
    fn pop(&mut self) -> Option<(u64, u32)>;
}

impl Queue for EventQueue<u32> {
    fn push(&mut self, time: u64, item: u32) {
        self.push(Time::from_nanos(time), item);
    }
    fn pop(&mut self) -> Option<(u64, u32)> {
        self.pop().map(|(time, item)| (time.as_nanos(), item))
    }
}

/// Baseline: the straightforward implementation.
#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    serial: u64,
}

impl Queue for Heap {
    fn push(&mut self, time: u64, item: u32) {
        self.heap.push(Reverse((time, self.serial, item)));
        self.serial += 1;
    }
    fn pop(&mut self) -> Option<(u64, u32)> {
        self.heap.pop().map(|Reverse((time, _, item))| (time, item))
    }
}

/// Hold model: a queue with its pending events, and the next increments.
struct Hold<Q> {
    queue: Q,
    /// Increments drawn in advance, so that the cost of drawing is not measured. Their number is odd, so that they do
    /// not fall into step with the number of pending events.
    increments: Vec<u64>,
    next: usize,
}

impl<Q: Queue> Hold<Q> {
    fn new(size: usize, increment: fn(&mut Rng) -> u64) -> Self {
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
        let increments: Vec<u64> = (0..(1 << 16) + 1).map(|_| increment(&mut rng)).collect();
        let mut queue = Q::default();
        for item in 0..size {
            queue.push(increment(&mut rng), item as u32);
        }
        Hold { queue, increments, next: 0 }
    }

    fn run(&mut self, operations: usize) {
        for _ in 0..operations {
            let (time, item) = self.queue.pop().expect("the number pending does not change");
            self.queue.push(time + self.increments[self.next], black_box(item));
            self.next += 1;
            if self.next == self.increments.len() {
                self.next = 0;
            }
        }
    }

    /// Measures the rate in millions of operations per second.
    fn rate(&mut self, span: Duration) -> f64 {
        let begin = Instant::now();
        let mut operations = 0;
        loop {
            self.run(20_000);
            operations += 20_000;
            let elapsed = begin.elapsed();
            if elapsed >= span {
                return operations as f64 / elapsed.as_secs_f64() / 1e6;
            }
        }
    }
}

fn fill_and_drain<Q: Queue>(size: usize, seed: u64) -> f64 {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15 ^ (seed << 32));
    let begin = Instant::now();
    let mut queue = Q::default();
    for item in 0..size {
        queue.push(rng.next() >> 20, item as u32);
    }
    while let Some(event) = queue.pop() {
        black_box(event);
    }
    begin.elapsed().as_secs_f64() * 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// SplitMix64, so that the benchmark does not depend on the speed of a good generator.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws uniformly from (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        (-self.unit().ln() * mean) as u64
    }
}

/// Name of a distribution, and the draw of an increment in nanoseconds.
type Distribution = (&'static str, fn(&mut Rng) -> u64);

const DISTRIBUTIONS: &[Distribution] = &[
    ("exponential", |rng| rng.exponential(1e7)),
    ("uniform", |rng| rng.next() % 20_000_000),
    // Packets in flight, and timers a thousand times longer.
    ("bimodal", |rng| {
        let mean = if rng.next() % 10 == 0 { 1e9 } else { 1e6 };
        rng.exponential(mean)
    }),
    // Multiples of a millisecond: many events at each instant.
    ("ticks", |rng| (1 + rng.next() % 10) * 1_000_000),
    ("constant", |_| 1_000_000),
    // Half of the events push another at their own instant.
    ("half instant", |rng| if rng.next() % 2 == 0 { 0 } else { rng.exponential(1e7) }),
    ("all instant", |_| 0),
    // From nanoseconds to hours, each decade as likely as another.
    ("decades", |rng| 10f64.powf(rng.unit() * 13.0) as u64),
    // A few frequent events before many that hardly ever occur.
    ("far timers", |rng| if rng.next() % 1000 == 0 { 10_000_000_000_000 } else { rng.exponential(1e5) }),
];
