//! Receiver of one sender's records: it checks them and writes files or messages.

mod finishing;
mod missing;
mod prior_file;
mod progress;
mod resuming;
mod sink;

use carillon_core::Order;
use carillon_wire::file::{Record, RelativePath, TransferId, link_stays_below, records};

use super::archive::Received;
use super::arriving::{Completed, Open, Spare, Unstored};
use super::finish::WrittenFiles;
use super::listing::Listing;
use super::live::Live;
use super::message_numbers::MessageNumbers;
use super::names::{components, is_part_name, shown_name};
use super::problem::{Problem, Unstorable, damaged, in_order, ours, refused, relative, stored};
use super::resume::{KEEP_BYTES, Kept, NOTE_ENTRIES};
use super::target::Position;
use super::times::Attributes;
use super::update::{Comparison, MAX_SUBTREES};

use missing::Missing;
pub(super) use prior_file::PriorFile;
pub use sink::Sink;

/// Applies the records of one sender and checks every offset and digest.
#[derive(Debug)]
pub struct Intake {
    /// The sender's name.
    name: String,
    /// Prefix of its file names: the directory of this sender and a slash, or empty.
    pub(super) folder: String,
    pub(super) stage: Stage,
    pub(super) announced: Option<(u32, Option<u64>)>,
    /// Bytes of ended files.
    pub(super) bytes: u64,
    /// Number of files, directories and links so far.
    pub(super) entries: u32,
    /// Completed files, and their number.
    pub(super) files: u32,
    completed: Option<Vec<Completed>>,
    /// Files that were written so far, if a function is called at the end.
    written: Option<WrittenFiles>,
    pub(super) missing: Missing,
    pub(super) position: Position,
    /// Comparison with the sender's list, in an update, and the answer to its question.
    pub(super) comparison: Option<Box<Comparison>>,
    pub(super) answer: Option<(u32, Vec<u8>)>,
    /// Attributes and special entries, in an archive.
    pub(super) archive: Option<Box<Received>>,
    /// Bytes copied from earlier versions of files.
    pub(super) copied: u64,
    /// Buffers for the next file.
    spare: Option<Box<Spare>>,
    /// Identifier of the transfer, if it has one and its data can be kept.
    pub(super) transfer: Option<TransferId>,
    /// Entry and offset at which the sender began.
    begun: (u32, u64),
    /// State that an earlier attempt left.
    pub(super) kept: Option<Kept>,
    /// Progress in the journal: complete entries and bytes in them.
    pub(super) noted: Option<(u32, u64)>,
    /// Bytes that were present before.
    pub(super) resumed: u64,
    /// Digest of the entries that the sender announced.
    listing: Listing,
    /// Sequence numbers of live-stream messages.
    numbers: MessageNumbers,
    result: Option<Result<(), String>>,
    /// True if data was damaged and the verified part is kept.
    is_damaged: bool,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Waits for OFFER, or for the first of a live stream.
    Begin,
    /// Waits for FILE or END.
    Between,
    /// Waits for DATA or END_OF_FILE.
    Contents(Box<Open>),
    /// Waits for DATA, END_OF_FILE or KEPT of an existing file.
    PriorFile(Box<PriorFile>),
    /// Waits for the end of a file that is here and is sent to others, with its name and the bytes received.
    Present(Vec<u8>, u64),
    /// Waits for the end of a file that cannot be stored, with its name and the bytes received.
    Unstored(Vec<u8>, u64),
    /// Waits for messages of a live stream, or its end.
    Live,
    /// Has everything, or has failed.
    Over,
}

impl Intake {
    /// Creates the receiver of this sender's records, with a directory of its own if `folder` is given. Completed
    /// files are listed if `completed` is set.
    pub fn new(name: String, folder: Option<String>, completed: bool) -> Self {
        Intake {
            name,
            folder: folder.map(|folder| folder + "/").unwrap_or_default(),
            stage: Stage::Begin,
            announced: None,
            bytes: 0,
            entries: 0,
            files: 0,
            completed: completed.then(Vec::new),
            written: None,
            missing: Missing::default(),
            position: None,
            comparison: None,
            answer: None,
            archive: None,
            copied: 0,
            spare: None,
            transfer: None,
            begun: (0, 0),
            kept: None,
            noted: None,
            resumed: 0,
            listing: Listing::default(),
            numbers: MessageNumbers::new(Order::Source),
            result: None,
            is_damaged: false,
        }
    }

    /// Sets the order of delivery.
    pub fn in_order(self, order: Order) -> Self {
        Intake { numbers: MessageNumbers::new(order), ..self }
    }

    /// Applies a message. Errors of the transfer become its result; a returned error is local.
    pub fn take(&mut self, message: &[u8], sink: &mut Sink) -> anyhow::Result<()> {
        if self.result.is_some() {
            return Ok(());
        }
        match self.on_message(message, sink) {
            Ok(false) => Ok(()),
            Ok(true) => {
                if let Err(error) = sink.sync() {
                    return self.fail(ours(error), sink);
                }
                self.store_list(sink);
                self.end(Ok(()));
                self.forget(sink);
                Ok(())
            }
            Err(problem) => self.fail(problem, sink),
        }
    }

    /// Ends with this problem. A returned error is local.
    pub fn fail(&mut self, problem: Problem, sink: &mut Sink) -> anyhow::Result<()> {
        self.is_damaged = matches!(problem, Problem::Damaged(_)) && self.keep(sink);
        self.end(Err(problem.to_string()));
        if !self.is_damaged {
            self.forget(sink);
        }
        match problem {
            Problem::Local(error) => Err(error.0),
            Problem::Transfer(_) | Problem::Damaged(_) => Ok(()),
        }
    }

    /// Removes the journal: the transfer is complete, or its data is useless.
    fn forget(&self, sink: &mut Sink) {
        if let (Sink::Files(target), Some(_)) = (sink, self.transfer) {
            target.forget();
        }
    }

    /// Keeps the verified data for another attempt; returns false if there can be none.
    fn keep(&mut self, sink: &mut Sink) -> bool {
        if self.transfer.is_none() {
            return false;
        }
        let mut open = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Contents(mut open) => open.take_back().is_ok().then_some(open),
            _ => None,
        };
        if self.entries == 0 && self.kept.is_none() && open.as_ref().is_none_or(|open| open.verified == 0) {
            // There is nothing to resume from.
            self.forget(sink);
        } else {
            self.note(sink, open.as_mut().and_then(|open| open.partial.as_mut()));
        }
        true
    }

    /// Ends for this reason because no more data will come, unless it has ended before.
    pub fn give_up(&mut self, reason: String) {
        if self.result.is_none() {
            let shortage = self.numbers.shortage().map(|shortage| format!("{shortage}: {reason}"));
            self.end(Err(shortage.unwrap_or(reason)));
        }
    }

    fn end(&mut self, result: Result<(), String>) {
        self.stage = Stage::Over;
        // Directories get their permission bits.
        self.position = None;
        self.spare = None;
        self.numbers.forget();
        self.result = Some(result);
    }

    fn on_message(&mut self, message: &[u8], sink: &mut Sink) -> Result<bool, Problem> {
        let (mut holes, mut subtrees) = (0, 0);
        for record in records(message) {
            let record =
                record.map_err(|error| damaged(format!("a message is not of a file transfer: {error}")))?;
            holes += u32::from(matches!(record, Record::Hole { .. } | Record::Same { .. }));
            if holes > 1 {
                return Err(damaged("a message has more than one HOLE or SAME".to_owned()));
            }
            subtrees += usize::from(matches!(record, Record::Subtree { .. }));
            if subtrees > MAX_SUBTREES && self.comparison.is_some() {
                return Err(damaged(format!("a message has more than {MAX_SUBTREES} SUBTREEs")));
            }
            if self.on_record(record, sink)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn on_record(&mut self, record: Record<'_>, sink: &mut Sink) -> Result<bool, Problem> {
        self.listing.add(&record);
        if self.on_archive(&record, sink)? || self.on_update(&record, sink)? {
            return Ok(false);
        }
        match (std::mem::replace(&mut self.stage, Stage::Over), record) {
            (Stage::Begin | Stage::Live, Record::Message { number, bytes }) => {
                let live = self.live(sink)?;
                self.numbers.take(number).map_err(|text| refused(&text))?;
                live.write(&self.name, number, bytes).map_err(ours)?;
                return Ok(self.has_message(bytes.len()));
            }
            (Stage::Begin | Stage::Live, Record::Piece { number, offset, len, bytes }) => {
                let live = self.live(sink)?;
                let whole =
                    self.numbers.take_piece(number, (offset, len), bytes).map_err(|text| refused(&text))?;
                if let Some(whole) = whole {
                    live.write_whole(&self.name, number, whole).map_err(ours)?;
                }
                return Ok(self.has_message(bytes.len()));
            }
            (Stage::Begin | Stage::Live, Record::EndOfStream { messages }) => {
                self.live(sink)?;
                self.stage = Stage::Live;
                return self.numbers.end(messages).map_err(|text| refused(&text));
            }
            (Stage::Begin, Record::Offer { entries, bytes }) => {
                let Sink::Files(_) = sink else { return Err(self.files_come()) };
                self.announced = Some((entries, bytes));
                self.stage = Stage::Between;
            }
            (Stage::Between, Record::Resume(from)) if self.entries == 0 && self.transfer.is_none() => {
                self.resume(sink, from)?;
                self.stage = Stage::Between;
            }
            (Stage::Between, Record::File { index, size, mode, modified, path }) => {
                self.expect_entry(index)?;
                let attributes = Attributes { mode, modified };
                self.stage = match self.had(sink, path, size)? {
                    Ok(Some(had)) => Stage::PriorFile(Box::new(had)),
                    Ok(None) => match self.open(sink, path, size, attributes)? {
                        Ok(open) => Stage::Contents(Box::new(open)),
                        Err(reason) => self.unstored(path, &reason, 0)?,
                    },
                    Err(reason) => self.unstored(path, &reason, 0)?,
                };
            }
            (Stage::Unstored(name, offset), Record::Data { index, offset: at, bytes }) => {
                self.expect_index(index)?;
                in_order(&name, offset, at)?;
                self.stage = Stage::Unstored(name, offset + bytes.len() as u64);
            }
            (Stage::Unstored(name, offset), Record::Hole { index, offset: at, len }) => {
                self.expect_index(index)?;
                in_order(&name, offset, at)?;
                self.stage = Stage::Unstored(name, offset.saturating_add(len));
            }
            (stage @ Stage::Unstored(..), Record::Subtree { index, .. }) => {
                self.expect_index(index)?;
                self.stage = stage;
            }
            (Stage::Unstored(name, offset), Record::EndOfFile { index, size, .. }) => {
                self.expect_index(index)?;
                in_order(&name, size, offset)?;
                self.bytes += offset;
                self.next_entry(sink);
            }
            (Stage::Unstored(_, offset), Record::Withdraw { index, .. }) => {
                self.expect_index(index)?;
                self.bytes += offset;
                self.next_entry(sink);
            }
            // The loop has inspected the next messages already.
            (stage, Record::Span { .. }) => self.stage = stage,
            (Stage::Contents(mut open), Record::Data { index, offset, bytes }) => {
                let done = self.expect_index(index).and_then(|()| open.append(offset, bytes));
                self.go_on(open, sink);
                done?;
            }
            (Stage::Contents(mut open), Record::Hole { index, offset, len }) => {
                let done = self.expect_index(index).and_then(|()| open.go_over(offset, len));
                self.go_on(open, sink);
                done?;
            }
            (Stage::Contents(mut open), Record::Subtree { index, end, value }) => {
                let done = self.expect_index(index).and_then(|()| open.compare(end, value));
                self.go_on(open, sink);
                done?;
            }
            // The parts of the file are compared at its end.
            (Stage::PriorFile(had), Record::Subtree { index, .. }) => {
                self.expect_index(index)?;
                self.stage = Stage::PriorFile(had);
            }
            (Stage::PriorFile(mut had), Record::Data { index, offset, bytes }) => {
                self.expect_index(index)?;
                in_order(&had.name, had.offset, offset)?;
                had.offset += bytes.len() as u64;
                self.stage = Stage::PriorFile(had);
            }
            (Stage::PriorFile(mut had), Record::Hole { index, offset, len }) => {
                self.expect_index(index)?;
                in_order(&had.name, had.offset, offset)?;
                had.offset += len;
                self.stage = Stage::PriorFile(had);
            }
            (Stage::PriorFile(had), Record::Kept { index }) if index < self.begun.0 => {
                self.expect_index(index)?;
                self.resumed += had.size;
                self.bytes += had.size;
                self.files += 1;
                self.next_entry(sink);
            }
            (Stage::PriorFile(had), Record::EndOfFile { index, size, digest }) => {
                self.expect_index(index)?;
                let digest = blake3::Hash::from_bytes(digest);
                let completed = had.close(sink, &mut self.position, size, digest)?;
                self.complete(completed, sink);
            }
            (Stage::PriorFile(had), Record::Withdraw { index, reason }) => {
                self.expect_index(index)?;
                self.bytes += had.offset;
                self.missing.add(&had.name, reason);
                self.next_entry(sink);
            }
            (Stage::Contents(mut open), Record::EndOfFile { index, size, digest }) => {
                let digest = blake3::Hash::from_bytes(digest);
                if let Err(problem) = self.expect_index(index).and_then(|()| open.verify(size, digest)) {
                    self.stage = Stage::Contents(open);
                    return Err(problem);
                }
                let cleared = self.clear()?;
                let Sink::Files(target) = sink else { return Err(self.files_come()) };
                let (completed, spare) = match cleared {
                    Ok(()) => open.close(target, &mut self.position, digest)?,
                    Err(reason) => open.leave(&reason),
                };
                self.spare = Some(spare);
                match completed {
                    Ok(completed) => self.complete(completed, sink),
                    Err(unstored) => {
                        self.bytes += size;
                        self.missing.add_unstored(unstored);
                        self.next_entry(sink);
                    }
                }
            }
            (Stage::Contents(open), Record::Withdraw { index, reason }) => {
                self.expect_index(index)?;
                self.bytes += open.offset;
                self.missing.add(&open.name, reason);
                self.spare = Some(open.spare.cleared());
                if let Some(partial) = open.partial {
                    partial.discard();
                }
                self.next_entry(sink);
            }
            (Stage::Between, Record::Directory { index, mode, modified, path }) => {
                self.expect_entry(index)?;
                let name = self.below(path)?;
                let Sink::Files(target) = sink else { return Err(self.files_come()) };
                let attributes = Attributes { mode, modified };
                let made = target.make_directory(&mut self.position, &relative(&name)?, attributes);
                if let Err(reason) = stored(made)? {
                    self.unstored(path, &reason, 0)?;
                }
                self.next_entry(sink);
            }
            (Stage::Between, Record::Link { index, target: text, path }) => {
                self.expect_entry(index)?;
                if !link_stays_below(&path, text) {
                    let (path, text) = (shown_name(&path), shown_name(text));
                    return Err(refused(&format!("the link {path} leads out, to {text}: it is not made")));
                }
                let name = self.below(path)?;
                let Sink::Files(target) = sink else { return Err(self.files_come()) };
                // A file of an earlier attempt may exist.
                let again = self.kept.as_ref().is_some_and(|kept| index < kept.at_most());
                let made = target.make_link(&mut self.position, &relative(&name)?, text, again);
                if let Err(reason) = stored(made)? {
                    self.unstored(path, &reason, 0)?;
                }
                self.next_entry(sink);
            }
            (Stage::Between, Record::End { bytes, listing }) => {
                let (entries, _) = self.announced.unwrap_or_default();
                if entries != self.entries || bytes != self.bytes {
                    return Err(damaged(format!(
                        "the transfer is incomplete: {} of {entries} entries and {} of {bytes} bytes arrived",
                        self.entries, self.bytes
                    )));
                }
                if listing != self.listing.digest() {
                    // It is unknown which of the existing files are wrong, and another attempt cannot know either.
                    return Err(refused(
                        "names, permissions or times differ from the sender's: remove the received files and try again",
                    ));
                }
                if let Some(descent) = &mut self.position {
                    descent.finish().map_err(ours)?;
                }
                if let Some(text) = self.missing.text() {
                    return Err(refused(&text));
                }
                self.conclude(sink)?;
                return Ok(true);
            }
            (stage, record) => {
                self.stage = stage;
                return Err(damaged(format!(
                    "the transfer is incomplete: messages are missing before \"{record}\""
                )));
            }
        }
        Ok(false)
    }

    /// Continues with a file after more of it has arrived.
    pub(super) fn go_on(&mut self, mut open: Box<Open>, sink: &mut Sink) {
        if self.noted.is_none() && self.bytes + open.offset >= KEEP_BYTES {
            self.note(sink, open.partial.as_mut());
        }
        self.stage = Stage::Contents(open);
    }

    /// Records an entry that cannot be stored.
    pub(super) fn unstored(
        &mut self,
        path: RelativePath<'_>,
        reason: &Unstorable,
        begun: u64,
    ) -> Result<Stage, Problem> {
        let name = self.below(path)?;
        self.missing.add_unstored(Unstored { name: name.clone(), reason: reason.to_string() });
        Ok(Stage::Unstored(name, begun))
    }

    /// Advances to the next entry.
    pub(super) fn next_entry(&mut self, sink: &mut Sink) {
        self.drop_kept(sink);
        self.entries += 1;
        self.stage = Stage::Between;
        let is_due = |(entries, bytes): (u32, u64)| {
            self.entries >= entries.saturating_add(NOTE_ENTRIES)
                || self.bytes >= bytes.saturating_add(KEEP_BYTES)
        };
        if self.noted.is_some_and(is_due) {
            self.note(sink, None);
        }
    }

    /// Records a complete file.
    fn complete(&mut self, completed: Completed, sink: &mut Sink) {
        self.bytes += completed.bytes;
        self.files += 1;
        if let Some(list) = &mut self.written {
            list.add(&completed);
        }
        if let Some(list) = &mut self.completed {
            list.push(completed);
        }
        self.next_entry(sink);
    }

    /// Destination of live-stream messages.
    fn live<'a>(&self, sink: &'a mut Sink) -> Result<&'a mut Live, Problem> {
        match sink {
            Sink::Live(live) => {
                live.in_order &= !self.numbers.as_they_come();
                Ok(live)
            }
            Sink::Files(_) => Err(self.streams()),
        }
    }

    /// Records a message or part of one; returns true if it was missing.
    fn has_message(&mut self, bytes: usize) -> bool {
        self.bytes += bytes as u64;
        self.stage = Stage::Live;
        self.numbers.is_complete()
    }

    /// Name below the destination.
    fn below(&self, path: RelativePath<'_>) -> Result<Vec<u8>, Problem> {
        let name = [self.folder.as_bytes(), path.as_bytes()].concat();
        if components(&name).any(is_part_name) {
            let text = format!("{} has the name of a temporary file: not received", shown_name(&name));
            return Err(refused(&text));
        }
        relative(&name)?;
        Ok(name)
    }

    /// Error: the sender streams although files are expected.
    fn streams(&self) -> Problem {
        refused(&format!("{} sends a live stream: receive it with --stream", self.name))
    }

    /// Error: the sender sends files although a stream is expected.
    fn files_come(&self) -> Problem {
        refused(&format!("{} sends files: receive them without --stream", self.name))
    }

    pub(super) fn expect_index(&self, index: u32) -> Result<(), Problem> {
        let expected = self.entries;
        if index == expected {
            return Ok(());
        }
        Err(damaged(format!("the transfer is incomplete: entry {index} arrived instead of entry {expected}")))
    }

    /// Checks the index of the first record of an entry.
    fn expect_entry(&self, index: u32) -> Result<(), Problem> {
        let (entries, _) = self.announced.unwrap_or_default();
        if self.entries >= entries {
            return Err(damaged(format!("more entries arrived than the {entries} announced ones")));
        }
        self.expect_index(index)
    }
}
