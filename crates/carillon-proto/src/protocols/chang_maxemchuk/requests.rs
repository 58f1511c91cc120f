//! What a site asks for: acknowledgments and messages it knows of and lacks (section 2.9.1:
//! "retransmission request").
//!
//! Not a `RequestSchedule`: there is one request for a whole run, and one timer for it and all else that the site waits for.

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
    /// One past the greatest timestamp heard of.
    known: u64,
    /// The site that told of it: it holds all before.
    pub informant: u16,
    asked: RequestedRuns,
    /// How often nothing that it asked for has come.
    pub silence: MissedPolls,
    /// A message whose acknowledgment must exist, though its timestamp is not known.
    wanted: Option<MessageRequest>,
}

#[derive(Debug)]
struct MessageRequest {
    id: Id,
    due: bool,
    /// Whether it was asked for in vain.
    again: bool,
}

/// Timestamps asked for at a time.
pub(super) const MAX_REQUESTED_RUN: u64 = 32;

impl Requests {
    /// Nothing is lacking.
    pub fn new(settings: Settings) -> Self {
        let (asked, silence) = (RequestedRuns::default(), MissedPolls::default());
        Requests { settings, known: 0, informant: 0, asked, silence, wanted: None }
    }

    /// A site holds all below this timestamp.
    pub fn learn(&mut self, below: u64, site: u16) {
        if below >= self.known {
            (self.known, self.informant) = (below, site);
        }
    }

    /// A message's acknowledgment is missing. Asked for once until [`Requests::on_timeout`].
    pub fn miss(&mut self, id: Id) {
        if self.wanted.as_ref().is_none_or(|wanted| wanted.id != id) {
            self.wanted = Some(MessageRequest { id, due: true, again: false });
        }
    }

    /// No answer in time: all is asked for again. Returns whether the timestamps were too often.
    pub fn on_timeout(&mut self) -> bool {
        if let Some(wanted) = &mut self.wanted {
            (wanted.due, wanted.again) = (true, true);
        }
        self.asked.again() && self.silence.missed(self.settings.patience, self.settings.request_timeout)
    }

    /// The next request, and whom to ask.
    pub fn poll(&mut self, context: &mut Context, order: &Order) -> Option<(u16, Body<'static>)> {
        if order.is_full(context) {
            return None;
        }
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
            // The token site first; but its place may have been lost too, and the source knows.
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

    /// The first run of timestamps that it knows of and of which the acknowledgment or the message is missing.
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
