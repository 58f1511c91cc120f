//! Tests of machines that emit without end, and of observers that stop a run in the middle of an event.

use carillon_core::{
    Dest, Event, GroupId, Machine, MessageId, NodeId, Observer, Received, Seeds, Time, Transmit,
};
use carillon_sim::{Lan, LanConfig, Runaway, StopReason, World};

/// Machine that begins at this time to emit datagrams or events without end.
#[derive(Debug)]
struct Endless {
    from: Time,
    begun: bool,
    records: bool,
}

impl Machine for Endless {
    fn handle_datagram(&mut self, _now: Time, _datagram: Received<'_>) {}
    fn handle_timeout(&mut self, now: Time) {
        self.begun = now >= self.from;
    }
    fn poll_timeout(&self) -> Option<Time> {
        (!self.begun).then_some(self.from)
    }
    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        buf.extend([0; 10]);
        (self.begun && !self.records).then(|| Transmit::now(Dest::group(GroupId(0))))
    }
    fn poll_event(&mut self) -> Option<Event> {
        (self.begun && self.records).then_some(Event::Received { packet: "data", message: MessageId(0) })
    }
}

/// Observer that stops the run when it has been asked this many times.
struct Stops(u64);

impl Observer for Stops {
    fn event(&mut self, _time: Time, _node: NodeId, _event: &Event) {}
    fn stops(&mut self) -> bool {
        self.0 -= 1;
        self.0 == 0
    }
}

const FROM: Time = Time::from_nanos(5_000_000);

fn world(records: bool, looks: u64) -> World<Lan, Stops> {
    let mut world = World::new(Lan::new(LanConfig::default(), 2, &Seeds::new(1)), Stops(looks));
    world.add_node(Box::new(Endless { from: Time::MAX, begun: false, records }), None);
    world.add_node(Box::new(Endless { from: FROM, begun: false, records }), None);
    world
}

#[test]
fn endless_datagrams_end_the_run_with_node_and_time() {
    let mut world = world(false, u64::MAX).with_emission_limit(5000);
    world.start();
    let expected = Runaway { node: NodeId(1), time: FROM, datagrams: 5001, records: 0 };
    assert_eq!(world.run(Time::MAX, |_| false), StopReason::Runaway(expected));
    // The run does not continue.
    assert_eq!(world.run(Time::MAX, |_| false), StopReason::Runaway(expected));
    assert_eq!(world.max_emitted(), 5001);
}

#[test]
fn endless_events_end_the_run_with_node_and_time() {
    let mut world = world(true, u64::MAX).with_emission_limit(2000);
    world.start();
    let StopReason::Runaway(found) = world.run(Time::MAX, |_| false) else { panic!("it ends otherwise") };
    assert_eq!((found.node, found.time, found.datagrams), (NodeId(1), FROM, 0));
}

#[test]
fn an_observer_stops_the_run_within_one_event() {
    for records in [false, true] {
        let mut world = world(records, 3);
        world.start();
        assert_eq!(world.run(Time::MAX, |_| false), StopReason::Stopped);
    }
}
