//! The receiving application: messages of one or many senders in, verified files or live streams
//! out.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::{Application, Duration, NodeId, Receiver as _, Time};
use carillon_proto::session::{LOCAL_NODE, PeerMember, ReceiverSession};

use super::intake::{Completed, Intake, Problem, Sink};
use super::target::Target;

/// Takes what all senders of a session deliver, and reports the result to the session once.
#[derive(Debug)]
pub struct Incoming {
    sink: Sink,
    intakes: BTreeMap<NodeId, Intake>,
    /// Senders that are lost, and until when what they sent before may still be delivered.
    lost: BTreeMap<NodeId, Time>,
    started: Option<Time>,
    ended: Option<Time>,
    result: Option<Result<(), Problem>>,
    over: bool,
    /// Whether the files completed are kept until they are taken.
    keeps: bool,
}

impl Incoming {
    /// Will write one transfer there.
    pub fn new(sink: Sink) -> Self {
        Incoming {
            sink,
            intakes: BTreeMap::new(),
            lost: BTreeMap::new(),
            started: None,
            ended: None,
            result: None,
            over: false,
            keeps: false,
        }
    }

    /// Keeps the files completed until they are taken: their number is the sender's to choose.
    pub fn keep_completed(self) -> Self {
        Incoming { keeps: true, ..self }
    }

    /// Bytes received so far.
    pub fn bytes(&self) -> u64 {
        self.intakes.values().map(Intake::bytes).sum()
    }

    /// Bytes of all files together, if all senders have said so.
    pub fn total(&self) -> Option<u64> {
        if self.intakes.is_empty() {
            return None;
        }
        self.intakes.values().map(Intake::total).sum()
    }

    /// Files completed.
    pub fn files(&self) -> u32 {
        self.intakes.values().map(Intake::files).sum()
    }

    /// What came of each sender.
    pub fn intakes(&self) -> impl Iterator<Item = &Intake> {
        self.intakes.values()
    }

    /// Takes the files completed since the last call, with the names of their senders.
    pub fn take_completed(&mut self) -> Vec<(String, Completed)> {
        let of = |intake: &mut Intake| {
            let name = intake.name().to_owned();
            intake.take_completed().into_iter().map(move |file| (name.clone(), file))
        };
        self.intakes.values_mut().flat_map(of).collect()
    }

    /// Whether files were completed since they were last taken.
    pub fn has_completed(&self) -> bool {
        self.intakes.values().any(Intake::has_completed)
    }

    /// From the first record to the last.
    pub fn seconds(&self) -> f64 {
        match (self.started, self.ended) {
            (Some(started), Some(ended)) => ended.since(started).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// How the transfer ended, once it has.
    pub fn take_result(&mut self) -> Option<Result<(), Problem>> {
        self.result.take()
    }

    /// Where it all went.
    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// What there is to tell of where it goes, a line each.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.sink.take_notes()
    }

    /// Where it all went, for the next transfer.
    pub fn into_sink(self) -> Sink {
        self.sink
    }

    /// What comes of this node, from the first message on.
    fn intake(&mut self, node: NodeId, session: &ReceiverSession) -> &mut Intake {
        let keeps = self.keeps;
        self.intakes.entry(node).or_insert_with(|| {
            let senders: Vec<&PeerMember> = session.peers().iter().filter(|peer| peer.offers).collect();
            let peer = session.peers().iter().find(|peer| peer.node == node);
            let name = peer.map(|peer| peer.name.as_str()).or(session.sender_name()).unwrap_or("sender");
            let folder = (senders.len() > 1).then(|| folder(name, &senders));
            Intake::new(name.to_owned(), folder, keeps)
        })
    }

    /// Takes some messages; returns whether there were any.
    fn take(&mut self, now: Time, session: &mut ReceiverSession) -> anyhow::Result<bool> {
        let mut any = false;
        let files = self.files();
        for _ in 0..POLL_MESSAGES {
            if self.files() - files >= POLL_FILES {
                break;
            }
            let Some(delivery) = session.poll_delivery() else { break };
            any = true;
            self.started.get_or_insert(now);
            if let Some(until) = self.lost.get_mut(&delivery.source) {
                *until = now + GRACE;
            }
            let several = session.peers().iter().filter(|peer| peer.offers).count() > 1;
            if several && matches!(self.sink, Sink::Files(Target::Output(_))) {
                anyhow::bail!("several send files, which do not fit one output: leave --stdout out");
            }
            self.intake(delivery.source, session);
            if let Some(intake) = self.intakes.get_mut(&delivery.source) {
                intake.take(&delivery.payload, &mut self.sink)?;
            }
        }
        if let Sink::Live(live) = &mut self.sink {
            live.flush()?;
        }
        if any {
            session.progress(self.bytes());
        }
        Ok(any)
    }

    /// Gives up senders of whom nothing more is to be expected.
    fn miss(&mut self, now: Time, session: &ReceiverSession) {
        for peer in session.peers().iter().filter(|peer| peer.offers && peer.node != LOCAL_NODE) {
            let Some(reason) = &peer.lost else { continue };
            let until = *self.lost.entry(peer.node).or_insert(now + GRACE);
            if now >= until {
                let reason = format!("the sender {} is gone ({reason}) before all came", peer.name);
                self.intake(peer.node, session).give_up(reason);
            }
        }
    }

    /// How it ended, if every sender has ended.
    fn ending(&self, session: &ReceiverSession) -> Option<Result<(), Problem>> {
        let ended = |node: &NodeId| self.intakes.get(node).is_some_and(|intake| intake.result().is_some());
        let peers = session.peers();
        let all = match peers.is_empty() {
            true => self.intakes.keys().next().is_some_and(ended),
            false => peers.iter().filter(|peer| peer.offers).all(|peer| ended(&peer.node)),
        };
        let failed = |intake: &Intake| intake.result().and_then(|result| result.as_ref().err()).cloned();
        let reasons: Vec<String> = self.intakes.values().filter_map(failed).collect();
        all.then(|| match reasons.is_empty() {
            true => Ok(()),
            false => Err(Problem::Transfer(reasons.join("; "))),
        })
    }
}

impl Application<ReceiverSession> for Incoming {
    fn poll(&mut self, now: Time, session: &mut ReceiverSession) -> bool {
        if self.over {
            // A peer goes on serving the others, and delivers to nobody.
            return session.poll_delivery().is_some();
        }
        let taken = self.take(now, session);
        self.miss(now, session);
        let result = match taken {
            Err(error) => Err(Problem::Local(error)),
            Ok(any) => match self.ending(session) {
                Some(result) => result,
                None => return any,
            },
        };
        self.over = true;
        self.ended = Some(now);
        let bytes = self.intakes.values().map(Intake::bytes).sum();
        session.report(now, bytes, result.as_ref().map(|_| ()).map_err(ToString::to_string));
        self.result = Some(result);
        true
    }

    fn poll_timeout(&self) -> Option<Time> {
        let open = |node: &NodeId| self.intakes.get(node).is_none_or(|intake| intake.result().is_none());
        let open = self.lost.iter().filter(|(node, _)| open(node)).map(|(_, &until)| until);
        if self.over { None } else { open.min() }
    }
}

/// The directory for the files of this sender: its name as far as a directory can have it, with its
/// place among the senders if another would have the same.
fn folder(name: &str, senders: &[&PeerMember]) -> String {
    let plain = |name: &str| match name {
        "." | ".." => "_".repeat(name.len()),
        _ => name.replace(['/', '\\', '\0'], "_"),
    };
    let folder = plain(name);
    let same = senders.iter().filter(|peer| plain(&peer.name) == folder).count();
    let names: BTreeSet<&str> = senders.iter().map(|peer| peer.name.as_str()).collect();
    match (same > 1, names.iter().position(|&other| other == name)) {
        (true, Some(place)) => format!("{folder}.{}", place + 1),
        _ => folder,
    }
}

/// Messages taken in one turn, so that the network is heard between writes.
const POLL_MESSAGES: usize = 64;
/// Files after which a turn ends: they take longer than their bytes.
const POLL_FILES: u32 = 256;
/// What a lost sender had sent may be delivered this much later than the last one before.
const GRACE: Duration = Duration::from_secs(2);
