//! Wrapper that checks the contract between a machine and its host.

use std::collections::VecDeque;
use std::sync::Arc;

use carillon_core::{
    Event, HelperTable, Machine, Notice, ObservedState, ProtocolEntry, Received, Receiver, Relay, Sender,
    Time, Transmit,
};

use crate::exercise;
use crate::replay::sampling_step;
use crate::states::StateWatch;

/// Machine that passes every call on and checks the rules of the [driving contract](carillon_core::Machine) that are
/// visible from outside.
///
/// The host starts it once and first (rule 1), time does not go back (rule 2), and `handle_timeout` before anything
/// is due changes nothing (rule 3). Each notice must also be accompanied by its event. With an entry, states must
/// follow each other as the entry declares.
#[derive(Debug)]
pub struct CheckedMachine {
    machine: Box<dyn Machine>,
    now: Time,
    started: bool,
    /// Notices that still need an event.
    announced: VecDeque<Notice>,
    calls: u64,
    /// Number of the call before which rule 3 is checked next.
    next_check: u64,
    /// Factor by which the checks are rarer in the short tier.
    every: u64,
    states: Option<StateWatch>,
}

impl CheckedMachine {
    /// Wraps a machine.
    pub fn new(machine: Box<dyn Machine>) -> Self {
        CheckedMachine {
            machine,
            now: Time::ZERO,
            started: false,
            announced: VecDeque::new(),
            calls: 0,
            next_check: CALLS_PER_CHECK,
            every: sampling_step(8) as u64,
            states: None,
        }
    }

    /// Requires the states that this entry declares.
    pub fn of(self, entry: &'static ProtocolEntry) -> Self {
        CheckedMachine { states: Some(StateWatch::new(entry.name, entry.study.states)), ..self }
    }

    fn observe_states(&mut self) {
        if let Some(states) = &mut self.states {
            states.observe_states(self.now, &*self.machine);
        }
    }

    /// Checks before a call that the host makes on a drained machine.
    fn before_call(&mut self, now: Time) {
        assert!(self.started, "the host has not started the machine");
        self.moves_to(now);
        self.observe_states();
        self.calls += 1;
        // Comparing states as text is slow, so it happens rarely, and more rarely the longer the text is.
        if self.calls >= self.next_check && self.machine.poll_timeout().is_none_or(|at| at > now) {
            // The machine is drained and nothing is due, so this call must change nothing.
            let before_call = format!("{:?}", self.machine);
            self.machine.handle_timeout(now);
            let after = format!("{:?}", self.machine);
            self.next_check =
                self.calls + self.every * CALLS_PER_CHECK.max(before_call.len() as u64 / TEXT_BYTES_PER_CALL);
            assert!(before_call == after, "`handle_timeout` at {now} did something before anything was due");
        }
    }

    fn moves_to(&mut self, now: Time) {
        assert!(now >= self.now, "the host's time went back from {} to {now}", self.now);
        self.now = now;
    }
}

impl Machine for CheckedMachine {
    fn start(&mut self, now: Time) {
        self.moves_to(now);
        assert!(!std::mem::replace(&mut self.started, true), "the host starts a machine once");
        self.machine.start(now);
        self.observe_states();
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        self.before_call(now);
        exercise::count(|exercise| exercise.datagrams += 1);
        self.machine.handle_datagram(now, datagram);
        self.observe_states();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.before_call(now);
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            exercise::count(|exercise| exercise.timers += 1);
        }
        self.machine.handle_timeout(now);
        self.observe_states();
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.machine.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        assert!(buf.is_empty(), "the host gives an empty buffer");
        assert!(self.started, "the host has not started the machine");
        self.moves_to(now);
        self.observe_states();
        let transmit = self.machine.poll_transmit(now, buf);
        self.observe_states();
        assert!(transmit.is_some() || buf.is_empty(), "bytes were written for a datagram that is not sent");
        transmit
    }

    /// Checks that events and notices of the same occurrence come in pairs and in the same order.
    fn poll_event(&mut self) -> Option<Event> {
        let event = self.machine.poll_event();
        if let (Some(states), Some(event)) = (&self.states, &event) {
            states.recorded(event);
        }
        match &event {
            Some(event) if event.notice().is_some() => {
                assert_eq!(
                    self.announced.pop_front(),
                    event.notice(),
                    "of {event:?} no notice was given, or of another"
                );
            }
            Some(_) => {}
            None => assert_eq!(self.announced.pop_front(), None, "what notice is given of is recorded too"),
        }
        event
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        let notice = self.machine.poll_notice();
        // Its event is a note of the protocol itself.
        self.announced.extend(notice.filter(|notice| *notice != Notice::TooFewMembers));
        notice
    }

    fn update_helpers(&mut self, now: Time, table: &Arc<HelperTable>) {
        self.before_call(now);
        self.machine.update_helpers(now, table);
        self.observe_states();
    }

    fn report_states(&self, now: Time, tell: &mut dyn FnMut(ObservedState)) {
        self.machine.report_states(now, tell);
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        // The host may call this directly after another call, without a drain.
        self.observe_states();
        self.machine.as_sender()
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        self.machine.as_receiver()
    }

    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        self.machine.as_relay()
    }
}

const CALLS_PER_CHECK: u64 = 16;
/// Bytes of text that take about as long to compare as a call takes.
const TEXT_BYTES_PER_CALL: u64 = 256;
