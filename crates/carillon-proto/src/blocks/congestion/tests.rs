//! Suite over all registered controllers: each one obeys a bottleneck, recovers from silence, and survives any input.

use std::collections::VecDeque;
use std::time::Duration;

use carillon_core::{BitRate, Time};
use proptest::prelude::*;

use super::*;

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

/// Every controller for this many receivers. The configured rate is 800 packets a second.
fn controllers(receivers: usize) -> impl Iterator<Item = (&'static str, Box<dyn CongestionControl>)> {
    CONTROLLERS.iter().map(move |controller| {
        let settings = ControlSettings { receivers, flight: 65_536, rate: BitRate::new(RATE * 8000) };
        (controller.name, (controller.build)(&settings).expect("a rate is given"))
    })
}

/// Configured rate in packets per second.
const RATE: u64 = 800;

/// Bottleneck that carries a packet a millisecond, with a queue of 50 packets, a delay of 20 ms in all, and two
/// receivers behind it. Each packet is followed by polls of both.
struct Bottleneck {
    control: Box<dyn CongestionControl>,
    records: [PathRecord; 2],
    now: u64,
    /// Time at which the bottleneck is free, and at which pacing lets the next packet leave.
    free: u64,
    paced: u64,
    sent: u64,
    arrived: u64,
    answers: VecDeque<(u64, Answer)>,
}

impl Bottleneck {
    fn new(control: Box<dyn CongestionControl>) -> Self {
        let records = [PathRecord::default(), PathRecord::default()];
        let answers = VecDeque::new();
        Bottleneck { control, records, now: 0, free: 0, paced: 0, sent: 0, arrived: 0, answers }
    }

    /// Runs for this many milliseconds; `is_silent` loses all answers. Returns the packets sent and arrived.
    fn run(&mut self, millis: u64, is_silent: bool) -> (u64, u64) {
        let (sent, arrived, end) = (self.sent, self.arrived, self.now + millis * 1000);
        let mut asked_in_silence = self.now;
        while self.now < end {
            self.now += 100;
            self.send();
            while self.answers.front().is_some_and(|(due, _)| *due <= self.now) {
                let (_, answer) = self.answers.pop_front().expect("the first");
                if is_silent {
                    continue;
                }
                for (receiver, record) in self.records.iter_mut().enumerate() {
                    let Some(acknowledgment) = record.on_answer(at(self.now), answer) else { continue };
                    self.control.on_acknowledged(at(self.now), receiver, &acknowledgment);
                    if acknowledgment.newly_lost > 0 {
                        self.control.on_lost(at(self.now), receiver, &acknowledgment);
                    }
                }
            }
            // A poll each 100 ms is missed; the poll itself is a packet that the window permits.
            if is_silent && self.now >= asked_in_silence + 100_000 {
                asked_in_silence = self.now;
                (0..2).for_each(|receiver| self.control.on_silent(at(self.now), receiver));
            }
        }
        (self.sent - sent, self.arrived - arrived)
    }

    /// Sends a poll without a packet.
    fn poll(&mut self) {
        let (asked, then) = (at(self.now), self.records[0].mark());
        let answer = Answer { asked, then, serial: self.sent, since: 0, arrived: self.arrived as u32 };
        self.answers.push_back((self.free.max(self.now) + 20_000, answer));
    }

    fn send(&mut self) {
        let answered = self.records.iter().map(PathRecord::answered).min().unwrap_or(0);
        while self.sent - answered < self.control.window() && self.paced <= self.now {
            self.paced = self.now + self.control.rate().map_or(0, |rate| (1e6 / rate) as u64);
            self.sent += 1;
            self.control.on_sent(at(self.now));
            if self.free.max(self.now) - self.now <= 50_000 {
                self.free = self.free.max(self.now) + 1000;
                self.arrived += 1;
            }
            (0..2).for_each(|receiver| self.control.on_polled(at(self.now), receiver));
            self.poll();
        }
        // The answers say how many packets were sent since their polls.
        let sent = self.sent;
        self.answers.iter_mut().for_each(|(_, answer)| answer.since = sent - answer.serial);
    }
}

#[test]
fn names_are_unique_and_first_is_default() {
    let names: std::collections::BTreeSet<_> = CONTROLLER_NAMES.iter().collect();
    assert_eq!((names.len(), CONTROLLER_NAMES[0]), (CONTROLLERS.len(), "delay"));
    for controller in CONTROLLERS {
        assert_eq!(Controller::named(controller.name).summary, controller.summary);
        assert!(!controller.summary.is_empty() && !controller.reference.is_empty());
    }
}

#[test]
fn every_controller_obeys_bottleneck() {
    for (name, control) in controllers(2) {
        let mut bottleneck = Bottleneck::new(control);
        bottleneck.run(20_000, false);
        let (sent, arrived) = bottleneck.run(20_000, false);
        assert!(arrived > 10_000, "{name} uses {arrived} of 20000");
        assert!(sent < 22_000, "{name} sends {sent} through 20000");
    }
}

#[test]
fn every_controller_recovers_from_silence() {
    for (name, control) in controllers(2) {
        let mut bottleneck = Bottleneck::new(control);
        let (_, before) = bottleneck.run(20_000, false);
        let (sent, _) = bottleneck.run(5_000, true);
        assert!(sent < 2_500, "{name} sends {sent} packets into the silence");
        bottleneck.poll();
        let (_, after) = bottleneck.run(20_000, false);
        assert!(after * 2 > before, "{name}: {before} before the silence and {after} after it");
    }
}

#[test]
fn every_controller_repeats_its_decisions() {
    for ((name, one), (_, other)) in controllers(2).zip(controllers(2)) {
        let mut runs = [Bottleneck::new(one), Bottleneck::new(other)];
        for (millis, is_silent) in [(5_000, false), (2_000, true), (5_000, false)] {
            let [one, other] = runs.each_mut().map(|run| run.run(millis, is_silent));
            assert_eq!(one, other, "{name}");
        }
        let [one, other] = runs.map(|run| format!("{:?}", run.control));
        assert_eq!(one, other, "{name}");
    }
}

/// Input of a controller.
#[derive(Clone, Debug)]
enum Input {
    Sent,
    Polled(usize),
    /// Receiver, packets sent up to the poll and since, packets arrived, and round-trip time in microseconds.
    Answer(usize, u64, u64, u32, u64),
    /// Raw measurement that no record would give.
    Raw(usize, Acknowledgment),
    /// Receiver, round-trip time in microseconds, and loss rate.
    Report(usize, u64, f64),
    Silent(usize),
    Idle,
    Remove(usize),
}

fn raw() -> impl Strategy<Value = Acknowledgment> {
    let count = || prop_oneof![0..2000_u64, any::<u32>().prop_map(u64::from)];
    let span = || (0..10_000_000_u64).prop_map(Duration::from_micros);
    let counts = (count(), count(), count(), count(), count());
    (counts, count(), count(), span(), span()).prop_map(|(counts, over, came, round_trip, span)| {
        let (sent, arrived, since, newly_arrived, newly_lost) = counts;
        let lost_up_to = sent.min(newly_lost);
        let over_round_trip = (over, came);
        let asked = Time::ZERO;
        Acknowledgment {
            asked,
            round_trip,
            sent,
            arrived,
            since,
            newly_arrived,
            newly_lost,
            lost_up_to,
            over_round_trip,
            span,
        }
    })
}

fn input() -> impl Strategy<Value = Input> {
    let receiver = 0..RECEIVERS;
    prop_oneof![
        Just(Input::Sent),
        receiver.clone().prop_map(Input::Polled),
        (receiver.clone(), 0..500_u64, 0..500_u64, 0..500_u32, 0..2_000_000_u64)
            .prop_map(|(receiver, sent, since, came, trip)| Input::Answer(receiver, sent, since, came, trip)),
        (receiver.clone(), raw()).prop_map(|(receiver, raw)| Input::Raw(receiver, raw)),
        (receiver.clone(), 0..2_000_000_u64, 0.0..=1.0)
            .prop_map(|(receiver, trip, loss)| Input::Report(receiver, trip, loss)),
        receiver.clone().prop_map(Input::Silent),
        Just(Input::Idle),
        receiver.prop_map(Input::Remove),
    ]
}

const RECEIVERS: usize = 3;

proptest! {
    /// No sequence of inputs makes a controller panic, stop the sender, or give a rate that is no number.
    #[test]
    fn any_input_gives_usable_rate_and_window(
        inputs in prop::collection::vec((input(), 0..200_000_u64), 1..150)
    ) {
        for (name, mut control) in controllers(RECEIVERS) {
            let mut records = vec![PathRecord::default(); RECEIVERS];
            let (mut now, mut sent, mut arrived) = (Time::ZERO, 0, [0_u32; RECEIVERS]);
            for (input, wait) in &inputs {
                now += Duration::from_micros(*wait);
                match input {
                    Input::Sent => control.on_sent(now),
                    &Input::Polled(receiver) => control.on_polled(now, receiver),
                    &Input::Answer(receiver, more, since, came, trip) => {
                        sent += more;
                        arrived[receiver] = arrived[receiver].wrapping_add(came);
                        let asked = Time::from_nanos(now.as_nanos().saturating_sub(trip * 1000));
                        let then = records[receiver].mark();
                        let answer = Answer { asked, then, serial: sent, since, arrived: arrived[receiver] };
                        if let Some(acknowledgment) = records[receiver].on_answer(now, answer) {
                            control.on_acknowledged(now, receiver, &acknowledgment);
                        }
                    }
                    Input::Raw(receiver, raw) => {
                        let raw = Acknowledgment { asked: now, ..*raw };
                        control.on_acknowledged(now, *receiver, &raw);
                        control.on_lost(now, *receiver, &raw);
                    }
                    &Input::Report(receiver, trip, loss) => {
                        let report = PathReport { round_trip: Duration::from_micros(trip), loss };
                        control.on_report(now, receiver, &report);
                    }
                    &Input::Silent(receiver) => control.on_silent(now, receiver),
                    Input::Idle => control.on_idle(now),
                    &Input::Remove(receiver) => control.remove(receiver),
                }
                if let Some(rate) = control.rate() {
                    prop_assert!(rate > 0.0 && rate.is_finite(), "{name}: {rate} packets a second");
                }
                prop_assert!(control.window() > 0, "{name} stops the sender");
                for receiver in 0..RECEIVERS {
                    prop_assert!(control.window_to(receiver) > 0, "{name} stops the sender at {receiver}");
                    prop_assert!(!control.limit(receiver).name().is_empty());
                    if let Some(estimate) = control.estimate(receiver) {
                        prop_assert!((0.0..=1.0).contains(&estimate.loss), "{name}: {}", estimate.loss);
                    }
                }
                prop_assert!(control.deciding().is_none_or(|receiver| receiver < RECEIVERS));
            }
        }
    }
}
