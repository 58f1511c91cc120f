//! Events are for observation only: without them each protocol delivers the same files at the same times, and expels
//! silent receivers at the same time.

use carillon_core::{
    Build, BuildContext, Config, ConfigError, Duration, Event, Machine, Notice, ProtocolEntry, Received,
    Receiver, Relay, Role, Sender, Time, Transmit,
};
use carillon_proto::REGISTRY;

use super::cell::{Cell, Fault};
use super::network::World;

/// Machine that drops its events.
#[derive(Debug)]
struct EventlessMachine(Box<dyn Machine>);

impl Machine for EventlessMachine {
    fn start(&mut self, now: Time) {
        self.0.start(now);
    }
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        self.0.handle_datagram(now, datagram);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.0.poll_timeout()
    }
    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.0.poll_transmit(now, buf)
    }
    fn poll_event(&mut self) -> Option<Event> {
        while self.0.poll_event().is_some() {}
        None
    }
    fn poll_notice(&mut self) -> Option<Notice> {
        self.0.poll_notice()
    }
    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        self.0.as_sender()
    }
    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        self.0.as_receiver()
    }
    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        self.0.as_relay()
    }
}

/// Builds machines of the protocol at index `N` of the registry.
fn silent<const N: usize>(
    role: Role,
    context: &BuildContext,
    config: &Config,
) -> Result<Box<dyn Machine>, ConfigError> {
    Ok(Box::new(EventlessMachine((REGISTRY.get(N).expect("a place of the registry").build)(
        role, context, config,
    )?)))
}

/// Build functions for every index of the registry, with spares: a function pointer cannot capture the index.
#[rustfmt::skip]
const BUILDS: [Build; 32] = [
    silent::<0>, silent::<1>, silent::<2>, silent::<3>, silent::<4>, silent::<5>, silent::<6>, silent::<7>,
    silent::<8>, silent::<9>, silent::<10>, silent::<11>, silent::<12>, silent::<13>, silent::<14>, silent::<15>,
    silent::<16>, silent::<17>, silent::<18>, silent::<19>, silent::<20>, silent::<21>, silent::<22>, silent::<23>,
    silent::<24>, silent::<25>, silent::<26>, silent::<27>, silent::<28>, silent::<29>, silent::<30>, silent::<31>,
];

#[test]
fn dropping_events_changes_nothing() {
    assert!(REGISTRY.len() <= BUILDS.len(), "the registry has more places");
    for (&protocol, build) in REGISTRY.iter().zip(BUILDS) {
        let silent: &'static ProtocolEntry = Box::leak(Box::new(ProtocolEntry { build, ..*protocol }));
        let loss = if protocol.delivery.repairs { 0.05 } else { 0.0 };
        for (loss, fault) in [(loss, Fault::None), (0.0, Fault::Kill)] {
            let outcome = |protocol| {
                let delay = Duration::from_millis(1);
                let (settings, rate) = (Vec::new(), None);
                let cell = Cell {
                    protocol,
                    loss,
                    receivers: 3,
                    delay,
                    bytes: 100_000,
                    seed: 1,
                    settings,
                    rate,
                    fault,
                    midway: false,
                    helpers: 0,
                };
                let outcome = World::new(&cell).run(Duration::from_secs(300));
                (outcome.verified, outcome.time, outcome.sent, outcome.returned, outcome.last, outcome.over)
            };
            let (with_events, without_events) = (outcome(protocol), outcome(silent));
            assert!(with_events.5 && with_events.0 >= 2, "{} {fault:?}: {with_events:?}", protocol.name);
            assert_eq!(without_events, with_events, "{} {fault:?}", protocol.name);
        }
    }
}
