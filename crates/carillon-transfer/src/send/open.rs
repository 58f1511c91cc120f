//! Opening of a sender: creates its session on open sockets.

use std::sync::Arc;

use carillon_core::{HostValue, Observer, Order, Seeds, Setting};
use carillon_net::{Driver, Endpoint};
use carillon_session::{EarlierSessions, JobId, JobKind, SenderSession};

use super::options::{SendOptions, hears_group};
use super::run::{Facts, Next, SendRun};
use crate::Error;
use crate::files::{
    ARCHIVE_DEMAND, Binding, DELETE_DEMAND, History, Manifest, Outgoing, Taken, needed_payload,
};
use crate::network::{Bound, random};
use crate::publisher::Publisher;
use crate::tally::Tally;

/// A sender that is ready to run.
pub struct OpenSend {
    endpoint: Endpoint,
    session: SenderSession,
    outgoing: Outgoing,
    facts: Facts,
    publisher: Option<Publisher>,
    next: Next,
}

impl OpenSend {
    /// The sockets.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Creates the run with an observer.
    pub fn with<O: Observer>(self, observer: O) -> SendRun<O> {
        let tally = Tally::new(observer);
        let driver = Driver::new(self.endpoint, Box::new(self.session), self.outgoing, tally);
        SendRun::new(driver, self.facts, self.next).published(self.publisher)
    }
}

/// Content of a session.
pub(super) enum Content {
    Files,
    Stream,
    /// A stream that an earlier session of the job began.
    Continued(Taken),
}

/// Job of a session, and the job's earlier sessions.
pub(super) struct JobSession {
    pub job: JobId,
    pub former: EarlierSessions,
}

impl SendOptions {
    /// Creates the session on these sockets; `stream` sends each line of the input as a message.
    pub fn open(
        &self,
        name: &str,
        bound: Bound,
        manifest: Manifest,
        stream: bool,
    ) -> Result<OpenSend, Error> {
        let session = JobSession { job: new_job()?, former: EarlierSessions::default() };
        let content = if stream { Content::Stream } else { Content::Files };
        self.open_on(name, session, bound.endpoint, bound.seeds, Arc::new(manifest), content)
    }

    pub(super) fn open_on(
        &self,
        name: &str,
        JobSession { job, former }: JobSession,
        mut endpoint: Endpoint,
        seeds: Seeds,
        manifest: Arc<Manifest>,
        content: Content,
    ) -> Result<OpenSend, Error> {
        let stream = !matches!(content, Content::Files);
        let protocol = self.entry()?;
        if endpoint.is_raw() && protocol.packets.raw_ip.is_none() {
            return Err(Error::NotOverIp(protocol.name));
        }
        if self.is_silent() && endpoint.seal_bytes() > 0 {
            return Err(Error::SealedOneWay);
        }
        // Receives the group before the start to detect other senders; optional.
        let eavesdrops = !hears_group(protocol) && endpoint.listen().is_ok();
        let mut config = self.configure(name, protocol, &endpoint, stream, needed_payload(&manifest))?;
        if !stream && protocol.order_with(&config.config) == Order::Arrival {
            return Err(Error::UnorderedFiles);
        }
        let goes_again = self.can_go_again(protocol, &manifest);
        let may_follow = goes_again && !self.is_silent();
        let is_lossless = self.can_follow(protocol) && protocol.confirms(&config.config);
        let series = stream
            && (self.rounds > 0 || matches!(content, Content::Continued(_)))
            && self.history.is_some()
            && is_lossless
            && !self.is_silent();
        if stream && !series && self.history.is_some_and(|history| history != History::EMPTY) {
            return Err(Error::NoHistory(protocol.name));
        }
        if series {
            config.job.kind = JobKind::Series;
        }
        config.job.further = self.rounds > 0 && (may_follow || series);
        config.job.lanes = self.has_lanes() && may_follow;
        config.job.total_bytes = manifest.bytes();
        config.job.asks = self.update.is_some() && may_follow && !stream;
        if self.update.is_some_and(|update| update.delete) {
            if !config.job.asks {
                return Err(Error::CannotDelete(protocol.name));
            }
            manifest.check_complete()?;
            config.job.demands.push(DELETE_DEMAND);
        }
        if manifest.is_archive() {
            config.job.demands.push(ARCHIVE_DEMAND);
        }
        config.fallback = config.fallback.filter(|_| (config.job.further || config.job.lanes) && !series);
        // Members say then what reaches them.
        endpoint.tolerate_shrinking(config.fallback.is_some());
        let sessions = match protocol.session.overheard_with {
            Some(_) if protocol.confirms(&config.config) && !stream => former.sessions().to_owned(),
            _ => Vec::new(),
        };
        (config.job.id, config.job.earlier) = (job, former);
        // A window that the protocol fills independent of the path.
        let is_window = |key: &str| {
            let mut settings = protocol.settings.host.iter();
            settings.any(|(name, value)| *name == key && matches!(value, HostValue::Window { .. }))
        };
        let window_bytes = match config.config.iter().find(|(key, _)| is_window(key)) {
            Some((_, Setting::Count(window))) => Some(window * u64::from(config.max_payload)),
            _ => None,
        };
        let datagram = self.datagram(&endpoint, usize::MAX) + endpoint.seal_bytes();
        let max_payload = config.max_payload as usize;
        let history = self.history.filter(|_| series);
        let outgoing = match content {
            Content::Stream => Outgoing::stream(manifest, max_payload, endpoint.waker()),
            Content::Continued(feed) => Outgoing::continued(manifest, max_payload, endpoint.waker(), feed),
            Content::Files => Outgoing::new(manifest, max_payload, endpoint.waker()),
        };
        let least =
            config.sizes.last().map_or(max_payload, |&least| config.payload_in(least.into()) as usize);
        let update = self.update.filter(|_| config.job.asks);
        let outgoing = outgoing?.updating(update).withholding(&sessions).from_least(least).keeping(history);
        let outgoing = outgoing.bound_to(Binding { group: endpoint.group(), job: job.0 });
        let next = Next { job, options: self.clone(), name: name.to_owned(), seeds: seeds.part("next") };
        let session = SenderSession::new(config, seeds)?;
        let facts = Facts { protocol, eavesdrops, window_bytes, datagram, goes_again, series };
        let publisher = Publisher::new(&self.monitor, "sender", name);
        Ok(OpenSend { endpoint, session, outgoing, facts, next, publisher })
    }
}

/// Draws the identifier of a new job.
fn new_job() -> Result<JobId, Error> {
    let mut job = [0; 16];
    job[..8].copy_from_slice(&random()?.to_be_bytes());
    job[8..].copy_from_slice(&random()?.to_be_bytes());
    Ok(JobId(job))
}
