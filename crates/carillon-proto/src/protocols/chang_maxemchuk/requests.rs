//! Requests of a site for acknowledgments and messages that it is missing (section 2.9.1, "retransmission request").
//!
//! One request covers a whole run of timestamps, and one timer serves all requests of a site. `RequestSchedule` of
//! `blocks` has a timer per number and does not fit.

use std::ops::Range;

use carillon_core::{Event, MessageId};
use carillon_wire::chang_maxemchuk::{Body, Id};

use super::config::Settings;
use super::context::{Context, Timer};
use super::log::Early;
use super::order::Order;
use crate::blocks::{MissedPolls, RequestedRuns};

/// Requests of one site.
#[derive(Debug)]
pub(super) struct Requests {
    settings: Settings,
    /// First timestamp beyond all that are known to exist.
    known: u64,
    /// Site that reported `known`, and therefore holds everything before it.
    pub informant: u16,
    asked: RequestedRuns,
    /// Consecutive unanswered requests.
    pub silence: MissedPolls,
    /// Message that must have an acknowledgment of unknown timestamp.
    wanted: Option<MessageRequest>,
}

/// Request for a message by its number, because its timestamp is unknown.
#[derive(Debug)]
struct MessageRequest {
    id: Id,
    due: bool,
    /// True after an unanswered request: the next one goes to the source.
    again: bool,
}

/// Maximum number of timestamps in one request; it bounds the burst of repairs that follows.
pub(super) const MAX_REQUESTED_RUN: u64 = 32;

impl Requests {
    /// Creates the requests of a site without gaps.
    pub fn new(settings: Settings) -> Self {
        let (asked, silence) = (RequestedRuns::default(), MissedPolls::default());
        Requests { settings, known: 0, informant: 0, asked, silence, wanted: None }
    }

    /// Records that a site holds all entries below a timestamp.
    pub fn learn(&mut self, below: u64, site: u16) {
        if below >= self.known {
            (self.known, self.informant) = (below, site);
        }
    }

    /// Records that the acknowledgment of a message is missing. The site requests it once until
    /// [`Requests::on_timeout`].
    pub fn miss(&mut self, id: Id) {
        if self.wanted.as_ref().is_none_or(|wanted| wanted.id != id) {
            self.wanted = Some(MessageRequest { id, due: true, again: false });
        }
    }

    /// Marks everything missing for another request. Returns true if timestamps stayed unanswered too often.
    pub fn on_timeout(&mut self) -> bool {
        if let Some(wanted) = &mut self.wanted {
            (wanted.due, wanted.again) = (true, true);
        }
        self.asked.again() && self.silence.missed(self.settings.patience, self.settings.request_timeout)
    }

    /// Returns the next request and its addressee.
    pub fn poll(&mut self, context: &mut Context, order: &Order) -> Option<(u16, Body<'static>)> {
        if order.is_full(context) {
            return None;
        }
        // The message got its timestamp meanwhile.
        self.wanted.take_if(|wanted| order.expected(wanted.id.source) > wanted.id.number);
        let gap = self.gap(order);
        if gap.is_none() && self.wanted.is_none() {
            context.timers.cancel(Timer::Request);
            (self.asked, self.silence) = Default::default();
            return None;
        }
        let run = gap.and_then(|gap| {
            let near = gap.start..gap.end.min(gap.start + MAX_REQUESTED_RUN);
            self.asked.next(near, MAX_REQUESTED_RUN, |_| false)
        });
        let (site, body, number) = if let Some(Range { start: from, end: below }) = run {
            (self.informant, Body::Retrans { from, below }, from)
        } else {
            let wanted = self.wanted.as_mut().filter(|wanted| wanted.due)?;
            wanted.due = false;
            let (id, message) = (wanted.id, MessageId(wanted.id.number));
            // The token site is asked first. It may have lost the message too, so the source is asked next.
            let site = if wanted.again { id.source } else { order.token_site() };
            context.events.push(Event::LossFound { source: None, message });
            (site, Body::RetransMessage(id), id.number)
        };
        if context.timers.armed(Timer::Request).is_none() {
            context.timers.arm(Timer::Request, context.now + self.settings.request_timeout);
        }
        if usize::from(site) == context.rank {
            return None;
        }
        context.control("retrans", number);
        Some((site, body))
    }

    /// First run of known timestamps of which the acknowledgment or the message is missing.
    pub fn gap(&self, order: &Order) -> Option<Range<u64>> {
        let (from, early) = (order.log.length(), order.log.early());
        let known =
            self.known.max(early.last_key_value().map_or(0, |(&last, _)| last + 1)).min(order.limit());
        if from >= known {
            return None;
        }
        // An acknowledgment at the front without its message is missing too.
        let is_whole = |early: &Early| {
            early.payload.is_some() || early.ack.message.is_none_or(|id| order.waits(id).is_some())
        };
        let below = early.range(from + 1..).find(|(_, early)| is_whole(early));
        Some(from..below.map_or(known, |(&timestamp, _)| timestamp.min(known)))
    }
}
