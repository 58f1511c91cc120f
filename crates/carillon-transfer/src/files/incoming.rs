//! The receiving application: messages of one or many senders in, verified files or live streams
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use carillon_core::{Application, Delivery, Duration, MessageId, NodeId, Receiver as _, Time};
use carillon_net::Waker;
use carillon_session::{LOCAL_NODE, PeerMember, ReceiverSession};
use carillon_wire::file::Record;

use super::archive::Loss;
use super::arriving::{Completed, Unstored};
use super::disk::Disk;
use super::finish::Finish;
use super::intake::{Intake, Sink};
use super::problem::Problem;
use super::signing::{Binding, Checks, Trust};
use super::spool::Spool;
use super::taker::{Notes, State, Taker};
use super::target::Target;
use super::update::Removed;
use crate::LocalError;
use crate::error::{Context as _, stated};

/// Handles the messages of all senders of a session and reports one result to the session. A thread verifies and
/// writes; while its queue is full no message is taken, and the result follows when it has finished.
#[derive(Debug)]
pub struct Incoming {
    place: Place,
    waker: Waker,
    /// Known senders that have begun.
    senders: BTreeMap<NodeId, State>,
    completed: Vec<(String, Completed)>,
    unstored: Vec<Unstored>,
    /// Lost senders, with the time until which their earlier messages may still be delivered.
    lost: BTreeMap<NodeId, Time>,
    given_up: BTreeSet<NodeId>,
    /// Time of the last message.
    last: Time,
    started: Option<Time>,
    ended: Option<Time>,
    error: Option<LocalError>,
    result: Option<Result<(), Problem>>,
    over: bool,
    /// True if completed files are listed until they are taken.
    keeps: bool,
    /// Trusted keys, and the group of the transfer.
    trust: Trust,
    group: SocketAddr,
    kind: Kind,
    /// Function to call when everything has arrived.
    finish: Option<Finish>,
    /// Data overheard from sessions of other members, if the destination is a directory, and the time of the latest
    /// data.
    spool: Option<Box<Spool>>,
    overheard: Option<Time>,
}

/// Current place of the destination.
#[derive(Debug)]
enum Place {
    /// Held by this structure, before the first and after the last message.
    Here(Sink),
    There(Disk),
    /// Lost by a panic of the thread.
    Lost,
}

/// Properties that are known while the thread has the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    Output,
    Device,
    Live,
}

impl Incoming {
    /// Creates the application for one transfer into this destination. `waker` wakes the loop for its thread.
    pub fn new(mut sink: Sink, waker: Waker) -> Self {
        let kind = match &sink {
            Sink::Files(Target::Directory(_)) => Kind::Folder,
            Sink::Files(Target::Output(_)) => Kind::Output,
            Sink::Files(Target::Device(_)) => Kind::Device,
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
            finish: None,
        }
    }

    /// Lists completed files until they are taken; the sender determines their number.
    pub fn keep_completed(self) -> Self {
        Incoming { keeps: true, ..self }
    }

    /// Calls a function when everything has arrived; its error is that of the transfer.
    pub fn finishing(self, finish: Option<Finish>) -> Self {
        Incoming { finish, ..self }
    }

    /// Accepts only data that is signed for this group with one of these keys, if there are any.
    pub fn trust(mut self, trust: Trust, group: SocketAddr) -> Self {
        if !trust.keys.is_empty() {
            // Overheard data is unsigned.
            self.spool.take().into_iter().for_each(|mut spool| spool.clear());
        }
        Incoming { trust, group, ..self }
    }

    /// Bytes received and written, except the last small file.
    pub fn bytes(&self) -> u64 {
        self.senders.values().map(|sender| sender.bytes).sum()
    }

    /// Bytes that an earlier attempt left.
    pub fn resumed(&self) -> u64 {
        self.senders.values().map(|sender| sender.resumed).sum()
    }

    /// Bytes of changed files that were copied from their earlier versions.
    pub fn copied(&self) -> u64 {
        self.senders.values().map(|sender| sender.copied).sum()
    }

    /// Entries that were deleted on request of the sender.
    pub fn deleted(&self) -> Option<&Removed> {
        self.senders.values().find_map(|sender| sender.deleted.as_ref())
    }

    /// Attributes of archives that could not be stored.
    pub fn losses(&self) -> impl Iterator<Item = &Loss> {
        self.senders.values().flat_map(|sender| &sender.losses)
    }

    /// Total bytes of all files, once every sender has announced them.
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

    /// State of each sender.
    pub fn senders(&self) -> impl Iterator<Item = &State> {
        self.senders.values()
    }

    /// Returns true if the destination is a directory for files.
    pub fn is_folder(&self) -> bool {
        self.kind == Kind::Folder
    }

    /// Returns true if another session can write the same data again.
    pub fn can_repeat(&self) -> bool {
        matches!(self.kind, Kind::Folder | Kind::Device)
    }

    /// Returns true if the destination takes live streams instead of files.
    pub fn is_live(&self) -> bool {
        self.kind == Kind::Live
    }

    /// Takes the files completed since the last call, with the names of their senders.
    pub fn take_completed(&mut self) -> Vec<(String, Completed)> {
        std::mem::take(&mut self.completed)
    }

    /// Entries that cannot be stored here, at most 10 000 per sender.
    pub fn unstored(&self) -> &[Unstored] {
        &self.unstored
    }

    /// Returns true if files were completed since they were last taken.
    pub fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Time from the first record to the last, in seconds.
    pub fn seconds(&self) -> f64 {
        match (self.started, self.ended) {
            (Some(started), Some(ended)) => ended.since(started).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// Returns the result once the transfer has ended, and discards unwritten data.
    pub fn take_result(&mut self) -> Option<Result<(), Problem>> {
        self.settle();
        self.result.take()
    }

    /// Returns true after success and false after failure; `None` before the end.
    pub fn has_succeeded(&self) -> Option<bool> {
        self.result.as_ref().map(Result::is_ok)
    }

    /// Returns true if everything of this session arrived, and another one continues the live stream.
    pub fn is_continued(&self) -> bool {
        let mut senders = self.senders.values();
        senders.next().is_some_and(|sender| sender.is_continued) && senders.next().is_none()
    }

    /// Reason of a failure by damaged data only: the rest is kept, and another session may complete it.
    pub fn damage(&self) -> Option<&str> {
        match &self.result {
            Some(Err(Problem::Damaged(reason))) => Some(reason),
            _ => None,
        }
    }

    fn is_damaged(&self) -> bool {
        let failed = |sender: &&State| sender.result.as_ref().is_some_and(Result::is_err);
        self.can_repeat() && self.senders.values().filter(failed).all(|sender| sender.is_damaged)
    }

    /// The destination; `None` while the thread has it.
    pub fn sink(&self) -> Option<&Sink> {
        match &self.place {
            Place::Here(sink) => Some(sink),
            Place::There(_) | Place::Lost => None,
        }
    }

    /// Paths of files that are neither their old nor their new version, after the end.
    pub fn partly_changed(&self) -> Vec<Vec<u8>> {
        self.sink().map(Sink::partly_changed).unwrap_or_default()
    }

    /// Bytes from which another attempt can resume, after the end.
    pub fn kept(&mut self) -> Option<u64> {
        let bytes = self.bytes();
        match &mut self.place {
            Place::Here(sink @ Sink::Files(_)) if bytes > 0 => {
                sink.reached(!self.trust.keys.is_empty()).map(|_| bytes)
            }
            _ => None,
        }
    }

    /// Returns messages about the destination, a line each, after the end.
    pub fn take_notes(&mut self) -> Vec<String> {
        match &mut self.place {
            Place::Here(sink) => sink.take_notes(),
            Place::There(_) | Place::Lost => Vec::new(),
        }
    }

    /// Returns the destination for the next transfer; `None` if the thread panicked.
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

    /// Stops the thread.
    fn settle(&mut self) {
        if let Place::There(_) = self.place
            && let Place::There(disk) = std::mem::replace(&mut self.place, Place::Lost)
        {
            let (sink, notes) = disk.end();
            self.place = sink.map_or(Place::Lost, Place::Here);
            self.note(notes);
        }
    }

    /// Applies the notes of the thread.
    fn note(&mut self, notes: Notes) {
        self.senders.extend(notes.senders);
        self.completed.extend(notes.completed);
        self.unstored.extend(notes.unstored);
        self.error = self.error.take().or(notes.error);
    }

    /// Begins with the messages of this node, unless it has begun.
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

    /// Stores data overheard from a session of other members; returns true if there was some.
    fn overhear(&mut self, now: Time, session: &mut ReceiverSession) -> bool {
        let mut any = false;
        // A sender that resumes would have done so long before.
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

    /// Supplies from the spool the messages that the sender withholds.
    fn supply(&mut self, now: Time, session: &mut ReceiverSession, delivery: &Delivery) {
        let Some(spool) = self.spool.as_mut().filter(|spool| !spool.is_empty()) else { return };
        if let Ok(record @ Record::Span { .. }) = Record::parse(&delivery.payload) {
            for (place, message) in spool.find(&record) {
                session.supply(now, MessageId(delivery.message.0 + 1 + u64::from(place)), message);
            }
        }
    }

    /// Takes some messages and ends senders that can deliver nothing further; returns true if anything was done.
    fn take(&mut self, now: Time, session: &mut ReceiverSession) -> Result<bool, LocalError> {
        if matches!(self.place, Place::Here(_)) && session.member_number().is_none() {
            return Ok(false);
        }
        let mut disk = match std::mem::replace(&mut self.place, Place::Lost) {
            Place::There(disk) => disk,
            Place::Here(sink) => {
                let binding = Binding { group: self.group, job: session.job().unwrap_or_default().0 };
                let checks = Checks::new(self.trust.clone(), binding)?;
                let finish = self.finish.clone().map(|finish| (finish, binding.job));
                let taker = Taker::new(sink, checks).of_job(binding.job).finishing(finish);
                Disk::start(taker, self.waker.clone()).context("cannot start a thread for received data")?
            }
            Place::Lost => return Err(stated!("the writer of the received data has ended")),
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
    ) -> Result<bool, LocalError> {
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
            if several && matches!(self.kind, Kind::Output | Kind::Device) {
                let option = if self.kind == Kind::Output { "stdout" } else { "device" };
                return Err(stated!(
                    "several members send files, which one output cannot hold: leave out --{option}"
                ));
            }
            self.begin(disk, delivery.source, session);
            self.supply(now, session, &delivery);
            disk.take(delivery.source, delivery.payload);
        }
        self.miss(disk, now, session);
        self.fall_short(disk, now, session);
        if let Some(mut notes) = disk.news() {
            for (question, answer) in std::mem::take(&mut notes.answers) {
                session.answer_holdings(now, question, answer);
            }
            self.note(notes);
            session.progress(self.bytes());
        }
        Ok(any)
    }

    /// Ends senders that can deliver nothing further.
    fn miss(&mut self, disk: &mut Disk, now: Time, session: &ReceiverSession) {
        for peer in session.peers().iter().filter(|peer| peer.part.offers() && peer.node != LOCAL_NODE) {
            let Some(reason) = &peer.lost else { continue };
            let until = *self.lost.entry(peer.node).or_insert(now + RETURN_GRACE);
            if now >= until && self.given_up.insert(peer.node) {
                self.begin(disk, peer.node, session);
                disk.give_up(
                    peer.node,
                    format!("the sender {} was lost ({reason}) before everything arrived", peer.name),
                );
            }
        }
    }

    /// Ends senders with missing messages in unordered delivery, after a pause without messages: a lost message never
    /// arrives there. The session's timer calls this.
    fn fall_short(&mut self, disk: &mut Disk, now: Time, session: &ReceiverSession) {
        let short = self.senders.iter().filter(|(_, sender)| sender.is_short && session.has_lost());
        if now < self.last + RETURN_GRACE {
            return;
        }
        for node in short.map(|(&node, _)| node).filter(|&node| self.given_up.insert(node)) {
            disk.give_up(node, "the sender holds them no more".to_owned());
        }
    }

    /// Result of the transfer, once every sender has ended.
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
            // A sender that the protocol has abandoned may be reported repeatedly.
            false if !session.has_lost() && self.is_damaged() => Err(Problem::Damaged(reasons.join("; "))),
            false => Err(Problem::Transfer(reasons.join("; "))),
        })
    }
}

impl Application<ReceiverSession> for Incoming {
    fn poll(&mut self, now: Time, session: &mut ReceiverSession) -> bool {
        if self.over {
            // A peer that failed keeps acknowledging for the other members, without delivering.
            return session.poll_delivery().is_some();
        }
        let overheard = self.overhear(now, session);
        let taken = self.take(now, session).map(|taken| taken || overheard);
        let result = match (taken, self.error.take()) {
            (Err(error), _) => Err(Problem::Local(error)),
            (Ok(_), Some(error)) => Err(Problem::Local(error)),
            (Ok(any), None) => match self.ending(session) {
                Some(result) => result,
                None => return any,
            },
        };
        self.over = true;
        // Data of this transfer was used, or was wrong.
        self.spool.iter_mut().for_each(|spool| spool.clear());
        self.ended = Some(now);
        match &result {
            Err(Problem::Damaged(reason)) => session.report_damaged(now, self.bytes(), reason.clone()),
            Err(problem) => session.report(now, self.bytes(), Err(problem.to_string())),
            Ok(()) if self.is_continued() => session.report_part(now, self.bytes()),
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

/// Directory for the files of this sender: its name in a valid form, with its index if two names would be equal.
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

/// Time for which overheard data is kept for a catch-up session.
const OVERHEARD_LIFETIME: Duration = Duration::from_secs(300);
/// Maximum messages per turn, so that the loop also reads the network.
const POLL_MESSAGES: usize = 64;
/// Time after the last message for which messages of a lost sender may still be delivered.
const RETURN_GRACE: Duration = Duration::from_secs(2);
