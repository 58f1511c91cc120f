//! The receiving application: messages of one or many senders in, verified files or live streams
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, anyhow};
use carillon_core::{Application, Delivery, Duration, MessageId, NodeId, Receiver as _, Time};
use carillon_net::Waker;
use carillon_proto::session::{LOCAL_NODE, PeerMember, ReceiverSession};
use carillon_wire::file::Record;

use super::arriving::{Completed, Unstored};
use super::disk::Disk;
use super::intake::{Intake, Sink};
use super::problem::Problem;
use super::signing::{Binding, Checks, Trust};
use super::spool::Spool;
use super::taker::{Notes, State};
use super::target::Target;
use crate::LocalError;

/// Takes what all senders of a session deliver, and reports the result to the session once. A thread of its own
/// checks and writes it: as long as that has too much to do, nothing is taken, and a verdict is given when all is
/// done.
#[derive(Debug)]
pub struct Incoming {
    place: Place,
    waker: Waker,
    /// Senders that have begun, as far as is known.
    senders: BTreeMap<NodeId, State>,
    completed: Vec<(String, Completed)>,
    unstored: Vec<Unstored>,
    /// Senders that are lost, and until when what they sent before may still be delivered.
    lost: BTreeMap<NodeId, Time>,
    given_up: BTreeSet<NodeId>,
    /// When the last message came.
    last: Time,
    started: Option<Time>,
    ended: Option<Time>,
    error: Option<LocalError>,
    result: Option<Result<(), Problem>>,
    over: bool,
    /// Whether the files completed are kept until they are taken.
    keeps: bool,
    /// Whose files are taken, and the group that they are sent to.
    trust: Trust,
    group: SocketAddr,
    kind: Kind,
    /// What was overheard of sessions that this receiver was not in, if it goes into a directory; and when the last of it was.
    spool: Option<Box<Spool>>,
    overheard: Option<Time>,
}

/// Where it all goes.
#[derive(Debug)]
enum Place {
    /// Nothing has come yet, or all has come.
    Here(Sink),
    There(Disk),
    /// The thread has died with it.
    Lost,
}

/// What is known of it wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    Output,
    Live,
}

impl Incoming {
    /// Will write one transfer there, in a thread of its own that wakes the loop with this.
    pub fn new(mut sink: Sink, waker: Waker) -> Self {
        let kind = match &sink {
            Sink::Files(Target::Directory(_)) => Kind::Folder,
            Sink::Files(Target::Output(_)) => Kind::Output,
            Sink::Live(_) => Kind::Live,
        };
        let spool = match &mut sink {
            Sink::Files(target) => target.take_spool(),
            Sink::Live(_) => None,
        };
        Incoming {
            spool,
            overheard: None,
            place: Place::Here(sink),
            waker,
            senders: BTreeMap::new(),
            completed: Vec::new(),
            unstored: Vec::new(),
            lost: BTreeMap::new(),
            given_up: BTreeSet::new(),
            last: Time::ZERO,
            started: None,
            ended: None,
            error: None,
            result: None,
            over: false,
            keeps: false,
            trust: Trust::default(),
            group: (Ipv4Addr::UNSPECIFIED, 0).into(),
            kind,
        }
    }

    /// Keeps the files completed until they are taken: their number is the sender's to choose.
    pub fn keep_completed(self) -> Self {
        Incoming { keeps: true, ..self }
    }

    /// Takes only what is signed for this group with one of these keys, if there are any.
    pub fn trust(mut self, trust: Trust, group: SocketAddr) -> Self {
        if !trust.keys.is_empty() {
            // Nobody has signed what was overheard.
            self.spool.take().into_iter().for_each(|mut spool| spool.clear());
        }
        Incoming { trust, group, ..self }
    }

    /// Bytes received so far, and written but for the last small file.
    pub fn bytes(&self) -> u64 {
        self.senders.values().map(|sender| sender.bytes).sum()
    }

    /// Those of them that an earlier attempt had left.
    pub fn resumed(&self) -> u64 {
        self.senders.values().map(|sender| sender.resumed).sum()
    }

    /// Bytes of all files together, if all senders have said so.
    pub fn total(&self) -> Option<u64> {
        if self.senders.is_empty() {
            return None;
        }
        self.senders.values().map(|sender| sender.total).sum()
    }

    /// Files completed.
    pub fn files(&self) -> u32 {
        self.senders.values().map(|sender| sender.files).sum()
    }

    /// What came of each sender.
    pub fn senders(&self) -> impl Iterator<Item = &State> {
        self.senders.values()
    }

    /// Whether it is for files below a directory.
    pub fn is_folder(&self) -> bool {
        self.kind == Kind::Folder
    }

    /// Whether it is for live streams, and not for files.
    pub fn is_live(&self) -> bool {
        self.kind == Kind::Live
    }

    /// Takes the files completed since the last call, with the names of their senders.
    pub fn take_completed(&mut self) -> Vec<(String, Completed)> {
        std::mem::take(&mut self.completed)
    }

    /// Entries that cannot be stored here, 10 000 of each sender at most.
    pub fn unstored(&self) -> &[Unstored] {
        &self.unstored
    }

    /// Whether files were completed since they were last taken.
    pub fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// From the first record to the last.
    pub fn seconds(&self) -> f64 {
        match (self.started, self.ended) {
            (Some(started), Some(ended)) => ended.since(started).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// How the transfer ended, once it has. What was not written until now is not written any more.
    pub fn take_result(&mut self) -> Option<Result<(), Problem>> {
        self.settle();
        self.result.take()
    }

    /// Whether it has ended well, if it has ended.
    pub fn has_succeeded(&self) -> Option<bool> {
        self.result.as_ref().map(Result::is_ok)
    }

    /// Why it has failed, if that is only that what came is damaged: the rest is kept, and another session may do better.
    pub fn damage(&self) -> Option<&str> {
        match &self.result {
            Some(Err(Problem::Damaged(reason))) => Some(reason),
            _ => None,
        }
    }

    fn is_damaged(&self) -> bool {
        let failed = |sender: &&State| sender.result.as_ref().is_some_and(Result::is_err);
        self.kind == Kind::Folder && self.senders.values().filter(failed).all(|sender| sender.is_damaged)
    }

    /// Where it all went; nothing while it is being written.
    pub fn sink(&self) -> Option<&Sink> {
        match &self.place {
            Place::Here(sink) => Some(sink),
            Place::There(_) | Place::Lost => None,
        }
    }

    /// Bytes that the next attempt can go on from, when it is over: all that came, or nothing.
    pub fn kept(&mut self) -> Option<u64> {
        let bytes = self.bytes();
        match &mut self.place {
            Place::Here(sink) if bytes > 0 => sink.reached(!self.trust.keys.is_empty()).map(|_| bytes),
            _ => None,
        }
    }

    /// What there is to tell of where it goes, a line each, when it is over.
    pub fn take_notes(&mut self) -> Vec<String> {
        match &mut self.place {
            Place::Here(sink) => sink.take_notes(),
            Place::There(_) | Place::Lost => Vec::new(),
        }
    }

    /// Where it all went, for the next transfer; nothing if the thread has died with it.
    pub fn into_sink(mut self) -> Option<Sink> {
        self.settle();
        match std::mem::replace(&mut self.place, Place::Lost) {
            Place::Here(mut sink) => {
                if let (Sink::Files(target), Some(spool)) = (&mut sink, self.spool) {
                    target.put_spool(spool);
                }
                Some(sink)
            }
            Place::There(_) | Place::Lost => None,
        }
    }

    /// Ends the thread.
    fn settle(&mut self) {
        if let Place::There(_) = self.place
            && let Place::There(disk) = std::mem::replace(&mut self.place, Place::Lost)
        {
            let (sink, notes) = disk.end();
            self.place = sink.map_or(Place::Lost, Place::Here);
            self.note(notes);
        }
    }

    /// Takes note of what the thread has done.
    fn note(&mut self, notes: Notes) {
        self.senders.extend(notes.senders);
        self.completed.extend(notes.completed);
        self.unstored.extend(notes.unstored);
        self.error = self.error.take().or(notes.error);
    }

    /// Begins with what comes of this node, unless it has begun.
    fn begin(&mut self, disk: &mut Disk, node: NodeId, session: &ReceiverSession) {
        if self.senders.contains_key(&node) {
            return;
        }
        let senders: Vec<&PeerMember> = session.peers().iter().filter(|peer| peer.part.offers()).collect();
        let peer = session.peers().iter().find(|peer| peer.node == node);
        let name = peer.map(|peer| peer.name.as_str()).or(session.sender_name()).unwrap_or("sender");
        let folder = (senders.len() > 1).then(|| folder(name, &senders));
        self.senders.insert(node, State { name: name.to_owned(), ..State::default() });
        let intake = Intake::new(name.to_owned(), folder, self.keeps).in_order(session.order());
        disk.begin(node, intake);
    }

    /// Keeps what goes by in a session that this receiver is not in; whether anything did.
    fn overhear(&mut self, now: Time, session: &mut ReceiverSession) -> bool {
        let mut any = false;
        // A sender that wants to go on has done so long before.
        if session.member_number().is_none() && now >= *self.overheard.get_or_insert(now) + OVERHEARD_LIFETIME
        {
            self.spool.iter_mut().for_each(|spool| spool.clear());
        }
        while let Some((association, message)) = session.poll_overheard() {
            any = true;
            self.overheard = Some(now);
            if let Some(spool) = &mut self.spool {
                spool.keep(association, &message);
            }
        }
        any
    }

    /// A message says which ones the sender withholds: what is here of them is as good as if it came.
    fn supply(&mut self, now: Time, session: &mut ReceiverSession, delivery: &Delivery) {
        let Some(spool) = self.spool.as_mut().filter(|spool| !spool.is_empty()) else { return };
        if let Ok(record @ Record::Span { .. }) = Record::parse(&delivery.payload) {
            for (place, message) in spool.find(&record) {
                session.supply(now, MessageId(delivery.message.0 + 1 + u64::from(place)), message);
            }
        }
    }

    /// Takes some messages, and gives up senders of whom nothing more is to be expected; returns whether anything
    /// was done.
    fn take(&mut self, now: Time, session: &mut ReceiverSession) -> anyhow::Result<bool> {
        if matches!(self.place, Place::Here(_)) && session.member_number().is_none() {
            return Ok(false);
        }
        let mut disk = match std::mem::replace(&mut self.place, Place::Lost) {
            Place::There(disk) => disk,
            Place::Here(sink) => {
                let binding = Binding { group: self.group, job: session.job().unwrap_or_default().0 };
                let checks = Checks::new(self.trust.clone(), binding)?;
                Disk::start(sink, checks, self.waker.clone())
                    .context("cannot start a thread for what comes")?
            }
            Place::Lost => return Err(anyhow!("what takes the bytes is gone")),
        };
        let taken = self.take_with(&mut disk, now, session);
        self.place = Place::There(disk);
        taken
    }

    fn take_with(
        &mut self,
        disk: &mut Disk,
        now: Time,
        session: &mut ReceiverSession,
    ) -> anyhow::Result<bool> {
        let mut any = false;
        let several = session.peers().iter().filter(|peer| peer.part.offers()).count() > 1;
        for _ in 0..POLL_MESSAGES {
            if !disk.has_room() {
                break;
            }
            let Some(delivery) = session.poll_delivery() else { break };
            any = true;
            self.started.get_or_insert(now);
            self.last = now;
            if let Some(until) = self.lost.get_mut(&delivery.source) {
                *until = now + RETURN_GRACE;
            }
            if several && self.kind == Kind::Output {
                anyhow::bail!("several send files, which do not fit one output: leave --stdout out");
            }
            self.begin(disk, delivery.source, session);
            self.supply(now, session, &delivery);
            disk.take(delivery.source, delivery.payload);
        }
        self.miss(disk, now, session);
        self.fall_short(disk, now, session);
        if let Some(notes) = disk.news() {
            self.note(notes);
            session.progress(self.bytes());
        }
        Ok(any)
    }

    /// Gives up senders of whom nothing more is to be expected.
    fn miss(&mut self, disk: &mut Disk, now: Time, session: &ReceiverSession) {
        for peer in session.peers().iter().filter(|peer| peer.part.offers() && peer.node != LOCAL_NODE) {
            let Some(reason) = &peer.lost else { continue };
            let until = *self.lost.entry(peer.node).or_insert(now + RETURN_GRACE);
            if now >= until && self.given_up.insert(peer.node) {
                self.begin(disk, peer.node, session);
                disk.give_up(
                    peer.node,
                    format!("the sender {} is gone ({reason}) before all came", peer.name),
                );
            }
        }
    }

    /// Where each message comes by itself, and some never will: gives up senders that have sent all, once nothing more comes. The session,
    /// which has its own clock, sees to it that this is looked at.
    fn fall_short(&mut self, disk: &mut Disk, now: Time, session: &ReceiverSession) {
        let short = self.senders.iter().filter(|(_, sender)| sender.is_short && session.has_lost());
        if now < self.last + RETURN_GRACE {
            return;
        }
        for node in short.map(|(&node, _)| node).filter(|&node| self.given_up.insert(node)) {
            disk.give_up(node, "the sender holds them no more".to_owned());
        }
    }

    /// How it ended, if every sender has ended.
    fn ending(&self, session: &ReceiverSession) -> Option<Result<(), Problem>> {
        let ended = |node: &NodeId| self.senders.get(node).is_some_and(|sender| sender.result.is_some());
        let peers = session.peers();
        let all = match peers.is_empty() {
            true => self.senders.keys().next().is_some_and(ended),
            false => peers.iter().filter(|peer| peer.part.offers()).all(|peer| ended(&peer.node)),
        };
        let failed =
            |sender: &State| sender.result.as_ref().and_then(|result| result.as_ref().err()).cloned();
        let reasons: Vec<String> = self.senders.values().filter_map(failed).collect();
        all.then(|| match reasons.is_empty() {
            true => Ok(()),
            // What a protocol has given up may be given up again.
            false if !session.has_lost() && self.is_damaged() => Err(Problem::Damaged(reasons.join("; "))),
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
        let overheard = self.overhear(now, session);
        let taken = self.take(now, session).map(|taken| taken || overheard);
        let result = match (taken, self.error.take()) {
            (Err(error), _) => Err(Problem::Local(LocalError(error))),
            (Ok(_), Some(error)) => Err(Problem::Local(error)),
            (Ok(any), None) => match self.ending(session) {
                Some(result) => result,
                None => return any,
            },
        };
        self.over = true;
        // Of this transfer it has been of use, or wrong.
        self.spool.iter_mut().for_each(|spool| spool.clear());
        self.ended = Some(now);
        match &result {
            Err(Problem::Damaged(reason)) => session.report_damaged(now, self.bytes(), reason.clone()),
            Err(problem) => session.report(now, self.bytes(), Err(problem.to_string())),
            Ok(()) => session.report(now, self.bytes(), Ok(())),
        }
        self.result = Some(result);
        true
    }

    fn poll_timeout(&self) -> Option<Time> {
        let open =
            self.lost.iter().filter(|(node, _)| !self.given_up.contains(node)).map(|(_, &until)| until);
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

/// What was overheard is kept so long for a further session.
const OVERHEARD_LIFETIME: Duration = Duration::from_secs(300);
/// Messages taken in one turn, so that the network is heard between them.
const POLL_MESSAGES: usize = 64;
/// What a lost sender had sent may be delivered this much later than the last one before.
const RETURN_GRACE: Duration = Duration::from_secs(2);
