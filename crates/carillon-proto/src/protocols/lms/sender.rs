//! Source, which is also the LMS router above all others.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    Addresses, BuildContext, Config, ConfigError, Dest, DropReason, MessageId, NodeId, OfferError, Received,
    Role, Time, TokenBucket, Transmit,
};
use carillon_wire::lms::{Data, HEADER_LEN, Offer, Packet, Progress, Request};

use super::answers::{Answer, Answers, MAX_PENDING_ANSWERS, MAX_REMEMBERED_RANGES, To, ask, asked_for};
use super::config::Settings;
use super::padding::pad;
use crate::blocks::{Doubling, Heartbeats, HoldOff, Members, Numbered, Part, Player, RepairBudget, wire};

type Context = crate::blocks::MachineContext<Timer>;

/// Sender of messages, SETUP and SPM that answers the requests which reach it.
#[derive(Debug)]
pub struct LmsSender {
    addresses: Addresses,
    settings: Settings,
    /// Length of a SETUP: that of the largest data packet, so that its delay is representative.
    setup_len: usize,
    /// Messages held for repairs, and messages not sent yet.
    held: Numbered<Held>,
    /// Next message to send.
    next: u64,
    finished: bool,
    answers: Answers,
    members: Members,
    /// Repair budget of each member, and one of all other nodes together, such as routers.
    budget: RepairBudget<Option<usize>>,
    /// True while a SETUP is due, as at the start.
    setup_due: bool,
    src_refresh_due: bool,
    spm_due: bool,
    /// Nodes that asked directly for discarded messages.
    spm_to: BTreeSet<NodeId>,
    /// Time of the last notice to the group that messages are discarded.
    gone_told: Option<Time>,
    /// Heartbeats, sent as SPM.
    heartbeats: Option<Heartbeats>,
    /// Token bucket that paces messages.
    pace: TokenBucket,
}

/// Message that the source holds.
#[derive(Debug)]
struct Held {
    payload: Bytes,
    repaired: HoldOff<To>,
}

/// Timers of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Next SETUP.
    Setup,
    /// Offer of the source as replier, half an interval after SETUP, when receivers have made theirs.
    SrcRefresh,
    /// Next heartbeat while idle.
    Heartbeat,
    /// Earliest time of the next message.
    Pace,
}

impl LmsSender {
    /// Creates the source of the session; fails if a setting is invalid.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        Ok(LmsSender {
            addresses: build.addresses.clone(),
            setup_len: HEADER_LEN.saturating_add(build.max_payload as usize).min(MAX_SETUP_BYTES),
            held: Numbered::default(),
            next: 0,
            finished: false,
            answers: Answers::new(MAX_REMEMBERED_RANGES, MAX_PENDING_ANSWERS),
            members: Members::new(build.members.clone()),
            budget: RepairBudget::new(settings.repair_budget),
            setup_due: true,
            src_refresh_due: false,
            spm_due: false,
            spm_to: BTreeSet::new(),
            gone_told: None,
            heartbeats: settings
                .heartbeat
                .map(|first| Heartbeats::new(Doubling { first, most: Duration::MAX })),
            pace: TokenBucket::default(),
            settings,
        }
        .play(build))
    }

    fn on_req(&mut self, context: &mut Context, from: NodeId, request: &Request) {
        let (lo, hi) = asked_for(request, self.next);
        let left = self.budget.left(self.members.index_of(from), self.next);
        if left == 0 {
            // The requester has exhausted its budget.
            return context.events.dropped(DropReason::Redundant);
        }
        let hi = hi.min(lo.saturating_add(left - 1));
        context.events.received("req", lo);
        let oldest = self.held.start();
        if lo < oldest {
            self.announce_discarded(context, from, request.direct);
        }
        let Some(last) = self.next.checked_sub(1) else {
            // The source has sent no message yet.
            return context.events.dropped(DropReason::OutOfWindow);
        };
        let numbers = lo.max(oldest)..=hi.min(last);
        ask(&mut self.answers, &mut context.events, request, from, numbers, self.settings.escalate);
    }

    /// Schedules an SPM with the oldest held message, after a request for discarded ones.
    fn announce_discarded(&mut self, context: &mut Context, from: NodeId, direct: bool) {
        if direct {
            if self.spm_to.len() < MAX_LOSS_NOTICES {
                self.spm_to.insert(from);
            }
        } else if self.gone_told.is_none_or(|told| context.now >= told + LOSS_NOTICE_INTERVAL) {
            self.gone_told = Some(context.now);
            self.spm_due = true;
        }
    }

    fn poll_control(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let group = Dest::group(context.group);
        let progress = Progress { next: wire(self.next), oldest: wire(self.held.start()) };
        let (packet, dest, name) = if std::mem::take(&mut self.setup_due) {
            context.timers.arm(Timer::Setup, context.now + self.settings.setup_ivl);
            if self.settings.src_refresh {
                let half = (self.settings.setup_ivl / 2).max(Duration::from_nanos(1));
                context.timers.arm(Timer::SrcRefresh, context.now + half);
            }
            (Packet::Setup { previous: None, progress, timestamp: context.now.as_nanos() }, group, "setup")
        } else if std::mem::take(&mut self.src_refresh_due) {
            (Packet::SrcRefresh(Offer { cost: 0, hops: 0 }), group, "src_refresh")
        } else if std::mem::take(&mut self.spm_due) {
            (Packet::Spm { previous: None, progress }, group, "spm")
        } else {
            let node = self.spm_to.pop_first()?;
            (Packet::Spm { previous: None, progress }, Dest::Node(node), "spm")
        };
        packet.emit(context.association, buf);
        if let Packet::Setup { .. } = packet {
            pad(buf, self.setup_len);
        }
        context.events.control(name, self.next);
        Some(Transmit::now(dest))
    }

    fn poll_repair(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((number, Answer { to, from, .. })) = self.answers.pop() {
            let (oldest, holdoff) = (wire(self.held.start()), self.settings.repair_holdoff);
            // The message may have been discarded since the request.
            let Some(Held { payload, repaired }) = self.held.get_mut(number) else { continue };
            let requester = self.members.index_of(from);
            let may_go = [to, To::Group].iter().all(|&to| repaired.is_over(context.now, to, holdoff));
            if !may_go || self.budget.left(requester, self.next) == 0 {
                continue;
            }
            self.budget.spend(requester, 1);
            repaired.note(context.now, to, holdoff);
            let data = Data { sequence: wire(number), oldest, payload };
            let (packet, dest) = match to {
                To::TurningPoint(point) => {
                    let Some(router) = self.addresses.node_at(point.address) else { continue };
                    (Packet::Dmcast { interface: point.interface, data }, Dest::Node(router))
                }
                To::Node(node) => (Packet::Repair(data), Dest::Node(node)),
                To::Group => (Packet::Repair(data), Dest::group(context.group)),
            };
            packet.emit(context.association, buf);
            let to = Transmit::now(dest);
            return Some(context.events.data_sent(to, MessageId(number), buf.len(), true));
        }
        None
    }

    fn poll_message(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let payload = &self.held.get(self.next)?.payload;
        let data = Data { sequence: wire(self.next), oldest: wire(self.held.start()), payload };
        Packet::Data(data).emit(context.association, buf);
        let to_group = context.to_group();
        let transmit = context.events.data_sent(to_group, MessageId(self.next), buf.len(), false);
        self.next += 1;
        if let Some(heartbeats) = &mut self.heartbeats {
            context.timers.arm(Timer::Heartbeat, context.now + heartbeats.restart());
        }
        Some(transmit)
    }
}

impl Part for LmsSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.held.len() as u64)
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Setup => self.setup_due = true,
            Timer::SrcRefresh => self.src_refresh_due = true,
            Timer::Heartbeat => {
                self.spm_due = true;
                // From here on SETUP is frequent enough.
                if let Some(wait) = self.heartbeats.as_mut().map(Heartbeats::beat)
                    && wait < self.settings.setup_ivl
                {
                    context.timers.arm(Timer::Heartbeat, context.now + wait);
                }
            }
            // `poll_transmit` reads the time itself.
            Timer::Pace => {}
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Req(request) => self.on_req(context, datagram.source, &request),
            // The source is always the replier at its own router.
            Packet::Refresh(_) => context.events.received("refresh", 0_u64),
            Packet::Leave => context.events.received("leave", 0_u64),
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.poll_control(context, buf) {
            return Some(transmit);
        }
        if let Some(at) = self.pace.ready_at(context.now) {
            if !self.answers.is_empty() || self.next < self.held.end() {
                context.timers.arm(Timer::Pace, at);
            }
            return None;
        }
        let transmit = self.poll_repair(context, buf).or_else(|| self.poll_message(context, buf))?;
        self.pace.pause(context.now, self.settings.send_interval);
        Some(transmit)
    }

    /// Queues a message. Without acknowledgments, only the number of unsent messages is limited.
    fn offer(&mut self, _context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        let message = self.held.end();
        if message - self.next >= MAX_UNSENT.min(self.settings.buffer) {
            return Err(OfferError::Full);
        }
        self.held.push(Held { payload, repaired: HoldOff::default() });
        self.held.pop_beyond(self.settings.buffer);
        Ok(MessageId(message))
    }

    fn finish(&mut self, _context: &mut Context) {
        self.finished = true;
    }

    fn is_finished(&self) -> bool {
        self.finished && self.next == self.held.end()
    }
}

/// Maximum number of messages that wait for their first transmission.
const MAX_UNSENT: u64 = 64;

/// Maximum number of nodes that wait for a notice about discarded messages.
const MAX_LOSS_NOTICES: usize = 64;

/// Minimum interval between notices to the group that messages are discarded.
const LOSS_NOTICE_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum length of a SETUP: the size of a UDP datagram.
const MAX_SETUP_BYTES: usize = 65_000;
