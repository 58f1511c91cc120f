//! Tests of the event loop of a world: the order of events, with scripted machines on an Ethernet.

use std::time::Duration;

use carillon_core::{
    Application, BitRate, Bytes, Dest, Event, Events, GroupId, Machine, MessageId, NodeId, Observer,
    OfferError, Probability, Received, Seeds, Sender, Time, TraceEvent, Transmit,
};
use carillon_sim::applications::Source;
use carillon_sim::{Lan, LanConfig, StopReason, TimerRule, World};

/// Machine that sends at given times, with a timer that an arrival cancels.
#[derive(Debug, Default)]
struct Scripted {
    /// Times and lengths of datagrams to send, in order.
    sends: Vec<(Time, usize)>,
    /// Alarm, which a datagram cancels.
    alarm: Option<Time>,
    /// Length of the datagram that the alarm sends.
    answer: Option<usize>,
    due: Vec<usize>,
    heard: u64,
    events: Events,
}

impl Machine for Scripted {
    fn handle_datagram(&mut self, _now: Time, _datagram: Received<'_>) {
        self.alarm = None;
        self.events.push(Event::Received { packet: "data", message: MessageId(self.heard) });
        self.heard += 1;
    }
    fn handle_timeout(&mut self, now: Time) {
        while let Some(&(at, len)) = self.sends.first()
            && at <= now
        {
            self.sends.remove(0);
            self.due.push(len);
        }
        if self.alarm.is_some_and(|at| at <= now) {
            self.alarm = None;
            self.events.push(Event::TimerFired { timer: "alarm" });
            self.due.extend(self.answer);
        }
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.sends.first().map(|send| send.0).into_iter().chain(self.alarm).min()
    }
    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        buf.resize(self.due.pop()?, 7);
        Some(Transmit::now(Dest::group(GroupId(0))))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }
}

#[derive(Debug, Default)]
struct EventRecorder {
    events: Vec<TraceEvent>,
    datagrams: Vec<(Time, NodeId, Bytes)>,
}

impl Observer for EventRecorder {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.events.push(TraceEvent { time, node, event: event.clone() });
    }
    fn datagram(&mut self, time: Time, from: NodeId, _to: &Dest, bytes: &Bytes) {
        self.datagrams.push((time, from, bytes.clone()));
    }
}

fn time(bits: u64) -> Time {
    Time::ZERO + BitRate::mbps(10).time_for_bits(bits)
}

fn run(config: LanConfig, machines: Vec<Scripted>, seed: u64) -> EventRecorder {
    let lan = Lan::new(config, machines.len(), &Seeds::new(seed));
    let mut world = World::new(lan, EventRecorder::default());
    for machine in machines {
        world.add_node(Box::new(machine), None);
    }
    world.start();
    assert_eq!(world.run(Time::MAX, |_| false), StopReason::Idle);
    world.into_observer()
}

fn fired(tape: &EventRecorder) -> Vec<(Time, NodeId)> {
    let alarm = Event::TimerFired { timer: "alarm" };
    tape.events.iter().filter(|event| event.event == alarm).map(|event| (event.time, event.node)).collect()
}

/// Runs a frame of 12 144 bit times from node 0 at the start, with an alarm at node 1.
fn alarmed(rule: TimerRule, alarm: u64) -> Vec<(Time, NodeId)> {
    let sender = Scripted { sends: vec![(Time::ZERO, 1500)], ..Scripted::default() };
    let waiter = Scripted { alarm: Some(time(alarm)), ..Scripted::default() };
    let config = LanConfig { timers: rule, ..LanConfig::default() };
    fired(&run(config, vec![sender, waiter], 1))
}

#[test]
fn an_exact_timer_fires_while_a_frame_is_on_the_medium() {
    assert_eq!(alarmed(TimerRule::Exact, 5_000), [(time(5_000), NodeId(1))]);
}

#[test]
fn bus_rule_arrival_cancels_a_timer_due_during_the_frame() // Segovia 3.7
{
    assert_eq!(alarmed(TimerRule::AfterBusActivity, 5_000), []);
}

#[test]
fn bus_rule_pending_frame_precedes_a_due_timer() // Segovia 3.7
{
    for (rule, expected) in
        [(TimerRule::Exact, vec![(Time::ZERO, NodeId(1))]), (TimerRule::AfterBusActivity, vec![])]
    {
        // The frame is present at the start, before any timer is checked.
        let sender = Scripted { due: vec![1500], ..Scripted::default() };
        let waiter = Scripted { alarm: Some(Time::ZERO), ..Scripted::default() };
        let config = LanConfig { timers: rule, ..LanConfig::default() };
        assert_eq!(fired(&run(config, vec![sender, waiter], 1)), expected, "{rule:?}");
    }
}

#[test]
fn an_arrival_comes_before_a_timer_of_the_same_time() {
    for rule in [TimerRule::Exact, TimerRule::AfterBusActivity] {
        assert_eq!(alarmed(rule, 12_144), []);
        assert_eq!(alarmed(rule, 12_145), []);
    }
}

#[test]
fn bus_rule_timer_fires_after_the_frame_has_arrived() // Segovia 3.7
{
    let sender =
        Scripted { sends: vec![(Time::ZERO, 1500)], alarm: Some(time(5_000)), ..Scripted::default() };
    for (rule, at) in [(TimerRule::Exact, 5_000), (TimerRule::AfterBusActivity, 12_144)] {
        let sender = Scripted { sends: sender.sends.clone(), alarm: sender.alarm, ..Scripted::default() };
        let config = LanConfig { timers: rule, ..LanConfig::default() };
        let tape = run(config, vec![sender, Scripted::default()], 1);
        assert_eq!(fired(&tape), [(time(at), NodeId(0))]);
    }
}

#[test]
fn packet_of_a_timer_joins_the_contention_of_its_instant() {
    // Both alarms are due at the same time, so both stations send and collide.
    let machine = || Scripted { alarm: Some(time(700)), answer: Some(10), ..Scripted::default() };
    let tape = run(LanConfig::default(), vec![machine(), machine()], 3);
    let collision = tape.events.iter().find(|event| matches!(event.event, Event::Collision { .. })).unwrap();
    assert_eq!((collision.time, &collision.event), (time(700), &Event::Collision { frames: 2 }));
    assert_eq!(tape.datagrams.len(), 2);
}

#[test]
fn equal_worlds_run_alike_and_other_seeds_differently() {
    let machines = || {
        let node = |node: u64| Scripted {
            sends: (0..40).map(|i| (time(i * 1_500 + node % 2), 10 + node as usize)).collect(),
            ..Scripted::default()
        };
        (0..6).map(node).collect::<Vec<_>>()
    };
    for timers in [TimerRule::Exact, TimerRule::AfterBusActivity] {
        let loss = Probability::new(0.1).unwrap();
        let run = |seed| run(LanConfig { loss, timers, ..LanConfig::default() }, machines(), seed);
        let (one, same, other) = (run(1), run(1), run(2));
        assert_eq!(one.events, same.events);
        assert_eq!(one.datagrams, same.datagrams);
        assert_ne!(one.events, other.events);
        assert!(one.events.iter().any(|event| matches!(event.event, Event::Collision { .. })));
        // Time does not go back.
        assert!(one.events.windows(2).all(|pair| pair[0].time <= pair[1].time));
    }
}

/// Application that counts polls and wants to be polled at its times.
#[derive(Debug)]
struct Clock(Vec<Time>, std::sync::Arc<std::sync::Mutex<Vec<Time>>>);

impl Application for Clock {
    fn poll(&mut self, now: Time, _machine: &mut (dyn Machine + 'static)) -> bool {
        while self.0.first().is_some_and(|&at| at <= now) {
            self.0.remove(0);
            self.1.lock().unwrap().push(now);
        }
        false
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.0.first().copied()
    }
}

#[test]
fn application_is_polled_on_time_and_the_run_stops_at_limit() {
    let polled = std::sync::Arc::default();
    let lan = Lan::new(LanConfig::default(), 1, &Seeds::new(1));
    let mut world = World::new(lan, EventRecorder::default());
    let times = vec![time(10), time(500), time(9_000)];
    let clock = Clock(times.clone(), std::sync::Arc::clone(&polled));
    world.add_node(Box::new(Scripted::default()), Some(Box::new(clock)));
    world.start();
    assert_eq!(world.run(time(8_999), |_| false), StopReason::TimeLimit);
    assert_eq!(*polled.lock().unwrap(), times[..2]);
    assert_eq!(world.run(time(9_000), |_| false), StopReason::Idle);
    assert_eq!(*polled.lock().unwrap(), times);
    assert_eq!(world.now(), time(9_000));
    assert_eq!(world.run(Time::ZERO + Duration::from_secs(1), |_| true), StopReason::Done);
}

/// Machine with room for one message until it is sent.
#[derive(Debug, Default)]
struct OneByOne {
    waiting: Option<Bytes>,
    taken: u64,
    finished: bool,
}

impl Machine for OneByOne {
    fn handle_datagram(&mut self, _now: Time, _datagram: Received<'_>) {}
    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        buf.extend_from_slice(&self.waiting.take()?);
        Some(Transmit::now(Dest::group(GroupId(0))))
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }
}

impl Sender for OneByOne {
    fn offer(&mut self, _now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.waiting.is_some() {
            return Err(OfferError::Full);
        }
        self.waiting = Some(payload);
        self.taken += 1;
        Ok(MessageId(self.taken - 1))
    }
    fn finish(&mut self, _now: Time) {
        self.finished = true;
    }
    fn is_finished(&self) -> bool {
        self.finished && self.waiting.is_none()
    }
}

#[test]
fn sender_is_offered_more_after_a_drain_made_room() {
    let mut world = World::new(Lan::new(LanConfig::default(), 2, &Seeds::new(1)), EventRecorder::default());
    // The world asks a replacing machine anew whether it is a sender.
    world.add_node(Box::new(Scripted::default()), None);
    let hears = world.add_node(Box::new(Scripted::default()), None);
    world.start();
    let source = Source::new(3, 700, Duration::ZERO);
    world.replace(NodeId(0), Box::new(OneByOne::default()), Some(Box::new(source)));
    let all_sent = |world: &mut World<Lan, EventRecorder>| {
        world.machine(NodeId(0)).as_sender().is_some_and(|sender| sender.is_finished())
    };
    assert_eq!(world.run(Time::MAX, |_| false), StopReason::Idle);
    assert!(all_sent(&mut world));
    let tape = world.into_observer();
    let offered: Vec<_> =
        tape.events.iter().filter(|told| matches!(told.event, Event::Offered { .. })).collect();
    let expected = |number| Event::Offered { message: MessageId(number), since: Time::ZERO };
    assert!(offered.iter().map(|told| &told.event).eq(&[0, 1, 2].map(expected)), "{offered:?}");
    assert!(offered.iter().all(|told| (told.time, told.node) == (Time::ZERO, NodeId(0))));
    let heard = tape.events.iter().filter(|told| told.node == hears).count();
    assert_eq!((heard, tape.datagrams.len()), (3, 3));
}

#[test]
fn late_machine_with_past_timeout_is_called_at_once() {
    let lan = Lan::new(LanConfig::default(), 1, &Seeds::new(1));
    let mut world = World::new(lan, EventRecorder::default());
    world.add_node(Box::new(Scripted::default()), None);
    world.start();
    world.pass_to(time(1_000));
    let late = Scripted { alarm: Some(time(10)), sends: vec![(time(5_000), 1500)], ..Scripted::default() };
    world.replace(NodeId(0), Box::new(late), None);
    assert_eq!(world.run(Time::MAX, |_| false), StopReason::Idle);
    let tape = world.into_observer();
    assert_eq!(fired(&tape), [(time(1_000), NodeId(0))]);
    assert_eq!(tape.datagrams.iter().map(|datagram| datagram.0).collect::<Vec<_>>(), [time(5_000)]);
}
