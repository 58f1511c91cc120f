//! The application of a further sender: it sends its files or stream and reports when every member has them.

use std::net::SocketAddr;

use carillon_core::{Application, Sender as _, Time};
use carillon_net::Waker;
use carillon_session::{ReceiverPhase, ReceiverSession};

use super::{Binding, Manifest, Outgoing};
use crate::LocalError;
use crate::error::stated;

/// Sends the files of a [`Manifest`], or the standard input as a live stream, in a session that another end
/// organises.
#[derive(Debug)]
pub struct Contribution {
    stage: Stage,
    stream: bool,
    waker: Waker,
    group: SocketAddr,
    ended: Option<Time>,
    error: Option<LocalError>,
}

#[derive(Debug)]
enum Stage {
    /// Waiting for the session, which determines the maximum message size.
    Waiting(Option<Box<Manifest>>),
    Sending(Box<Outgoing>),
    Reported(Option<Box<Outgoing>>),
}

impl Contribution {
    /// Creates the application for this manifest and group. Its reading thread wakes the loop with `waker`.
    pub fn new(manifest: Manifest, stream: bool, group: SocketAddr, waker: Waker) -> Self {
        Contribution {
            stage: Stage::Waiting(Some(Box::new(manifest))),
            stream,
            waker,
            group,
            ended: None,
            error: None,
        }
    }

    /// The running transmission, once the session is known.
    pub fn outgoing(&self) -> Option<&Outgoing> {
        match &self.stage {
            Stage::Waiting(_) => None,
            Stage::Sending(outgoing) => Some(outgoing),
            Stage::Reported(outgoing) => outgoing.as_deref(),
        }
    }

    /// Returns the local error, once.
    pub fn take_error(&mut self) -> Option<LocalError> {
        self.error.take()
    }

    /// Time from the first message until every member had everything, in seconds.
    pub fn seconds(&self) -> f64 {
        match (self.outgoing().and_then(Outgoing::started), self.ended) {
            (Some(started), Some(ended)) => ended.since(started).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// Returns the manifest for another attempt, unless sending has begun.
    pub fn into_manifest(self) -> Option<Manifest> {
        match self.stage {
            Stage::Waiting(manifest) => manifest.map(|manifest| *manifest),
            Stage::Sending(outgoing) => outgoing.into_manifest(),
            Stage::Reported(_) => None,
        }
    }

    fn fail(&mut self, now: Time, session: &mut ReceiverSession, error: LocalError) -> bool {
        match session.phase() {
            ReceiverPhase::Running => session.report(now, 0, Err(error.to_string())),
            _ => session.leave(now, &error.to_string()),
        }
        self.error = Some(error);
        self.stage = Stage::Reported(None);
        true
    }
}

impl Application<ReceiverSession> for Contribution {
    fn poll(&mut self, now: Time, session: &mut ReceiverSession) -> bool {
        if let (Stage::Waiting(manifest), Some(max)) = (&mut self.stage, session.max_payload()) {
            let manifest = manifest.take().ok_or_else(|| stated!("there is nothing to send"));
            let waker = self.waker.clone();
            let outgoing = manifest.and_then(|manifest| match self.stream {
                true => Outgoing::stream((*manifest).into(), max as usize, waker),
                false => Outgoing::new((*manifest).into(), max as usize, waker),
            });
            let binding = Binding { group: self.group, job: session.job().unwrap_or_default().0 };
            match outgoing {
                Ok(outgoing) => self.stage = Stage::Sending(Box::new(outgoing.bound_to(binding))),
                Err(error) => return self.fail(now, session, error),
            }
        }
        let running = session.phase() == ReceiverPhase::Running;
        let outgoing = match &mut self.stage {
            Stage::Waiting(_) => return false,
            Stage::Sending(outgoing) => outgoing,
            // Discards further data after a failure, so that other senders are not blocked.
            Stage::Reported(Some(outgoing)) => return outgoing.serve(now, session),
            Stage::Reported(None) => return false,
        };
        if !running {
            return false;
        }
        let called = outgoing.serve(now, session);
        if let Some(error) = outgoing.take_error() {
            return self.fail(now, session, error);
        }
        if outgoing.is_refused() && session.phase() == ReceiverPhase::Running {
            return self.fail(now, session, LocalError::stated(REFUSED));
        }
        if !session.is_finished() {
            return called;
        }
        let result = match outgoing.withdrawn() {
            [] => Ok(()),
            [one] => Err(format!("not delivered: {one}")),
            [one, more @ ..] => Err(format!("not delivered: {one}, and {} more files", more.len())),
        };
        session.report(now, outgoing.bytes(), result);
        self.ended = Some(now);
        if let Stage::Sending(outgoing) = std::mem::replace(&mut self.stage, Stage::Reported(None)) {
            self.stage = Stage::Reported(Some(outgoing));
        }
        true
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

/// Error when the protocol accepts no message of a further sender.
const REFUSED: &str = "the protocol takes nothing from this sender: \
     its settings let others send only, or it has given this one up";
