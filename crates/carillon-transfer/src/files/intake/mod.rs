//! Receiver of one sender's records: it checks them and writes files or messages.
//!
//! [`Intake::take`] passes each record to the code of the [`Stage`] that the transfer is in: [`contents`] for the file
//! that is received, [`entries`] between files, [`stream`] for live messages. What only updates and archives have comes
//! first ([`update`], [`archive`]).

mod archive;
mod completed;
mod contents;
mod deleting;
mod entries;
mod finishing;
mod missing;
mod prior_file;
mod progress;
mod resuming;
mod resumption;
mod sink;
mod stream;
#[cfg(test)]
mod tests;
mod unwritten;
mod update;

use carillon_core::Order;
use carillon_wire::file::{Record, TransferId, records};

use super::archive::Received;
use super::arriving::{Open, Spare};
use super::listing::Listing;
use super::message_numbers::MessageNumbers;
use super::names::shown_path;
use super::problem::{Problem, damaged, ours, refused};
use super::target::{Position, Target};
use super::update::{Comparison, MAX_SUBTREES};

use crate::error::LocalError;
use completed::CompletedFiles;
use missing::Missing;
use prior_file::PriorFile;
use resumption::Resumption;
pub use sink::Sink;
use stream::StreamIntake;
use unwritten::Unwritten;

/// Applies the records of one sender and checks every offset and digest.
#[derive(Debug)]
pub struct Intake {
    /// The sender's name.
    name: String,
    /// Prefix of its file names: the directory of this sender and a slash, or empty.
    folder: String,
    stage: Stage,
    /// Number of entries and bytes of all files, once announced.
    announced: Option<(u32, Option<u64>)>,
    counts: Counts,
    completed: CompletedFiles,
    missing: Missing,
    position: Position,
    /// Comparison with the sender's list, in an update, and the answer to its question.
    comparison: Option<Box<Comparison>>,
    answer: Option<(u32, Vec<u8>)>,
    /// Attributes and special entries, in an archive.
    archive: Option<Box<Received>>,
    /// Buffers for the next file.
    spare: Option<Box<Spare>>,
    resumption: Resumption,
    /// Digest of the entries that the sender announced.
    listing: Listing,
    /// Messages of a live stream.
    stream: StreamIntake,
    result: Option<Result<(), String>>,
    /// True if data was damaged and the verified part is kept.
    is_damaged: bool,
}

/// Amounts that have arrived.
#[derive(Debug, Default)]
struct Counts {
    /// Bytes of ended files.
    bytes: u64,
    /// Number of files, directories and links so far.
    entries: u32,
    /// Number of completed files.
    files: u32,
    /// Bytes copied from earlier versions of files.
    copied: u64,
    /// Bytes that were present before.
    resumed: u64,
}

#[derive(Debug)]
enum Stage {
    /// Waits for OFFER, or for the first of a live stream.
    Begin,
    /// Waits for FILE or END.
    Between,
    /// Waits for DATA or END_OF_FILE.
    Contents(Box<Open>),
    /// Waits for DATA, END_OF_FILE or KEPT of an existing file.
    PriorFile(Box<PriorFile>),
    /// Waits for the end of a file that is not written: it is here already, or cannot be stored.
    Unwritten(Unwritten),
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
            counts: Counts::default(),
            completed: CompletedFiles::new(completed),
            missing: Missing::default(),
            position: None,
            comparison: None,
            answer: None,
            archive: None,
            spare: None,
            resumption: Resumption::default(),
            listing: Listing::default(),
            stream: StreamIntake::new(Order::Source),
            result: None,
            is_damaged: false,
        }
    }

    /// Sets the order of delivery.
    pub fn in_order(self, order: Order) -> Self {
        Intake { stream: StreamIntake::new(order), ..self }
    }

    /// Continues the live stream of this job, with the numbers of the earlier sessions if there are any.
    pub(super) fn resume_stream(&mut self, job: TransferId, numbers: Option<MessageNumbers>) {
        self.stream.resume(job, numbers);
    }

    /// Returns true if it has ended and another session continues its live stream.
    pub fn is_continued(&self) -> bool {
        self.result == Some(Ok(())) && self.stream.continues()
    }

    /// Returns the numbers of a live stream for a later session.
    pub(super) fn into_numbers(self) -> MessageNumbers {
        self.stream.into_numbers()
    }

    /// Applies a message. Errors of the transfer become its result; a returned error is local.
    pub fn take(&mut self, message: &[u8], sink: &mut Sink) -> Result<(), LocalError> {
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
    pub fn fail(&mut self, problem: Problem, sink: &mut Sink) -> Result<(), LocalError> {
        let partly = self.partly_changed();
        self.is_damaged = matches!(problem, Problem::Damaged(_)) && self.keep(sink);
        self.end(Err(with_partly_changed(problem.to_string(), partly.as_deref())));
        if !self.is_damaged {
            self.forget(sink);
        }
        match problem {
            Problem::Local(error) => Err(match partly {
                Some(partly) => error.context(partly),
                None => error,
            }),
            Problem::Transfer(_) | Problem::Damaged(_) => Ok(()),
        }
    }

    /// Removes the journal: the transfer is complete, or its data is useless.
    fn forget(&self, sink: &mut Sink) {
        if let (Sink::Files(target), Some(_)) = (sink, self.resumption.transfer) {
            target.forget();
        }
    }

    /// Keeps the verified data for another attempt; returns false if there can be none.
    fn keep(&mut self, sink: &mut Sink) -> bool {
        if self.resumption.transfer.is_none() {
            return false;
        }
        let mut open = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Contents(mut open) => open.take_back().is_ok().then_some(open),
            _ => None,
        };
        if self.counts.entries == 0
            && self.resumption.kept.is_none()
            && open.as_ref().is_none_or(|open| open.verified == 0)
        {
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
            let shortage = self.stream.shortage().map(|shortage| format!("{shortage}: {reason}"));
            let partly = self.partly_changed();
            self.end(Err(with_partly_changed(shortage.unwrap_or(reason), partly.as_deref())));
        }
    }

    /// Statement about the current file if it is neither its old nor its new version.
    fn partly_changed(&self) -> Option<String> {
        match &self.stage {
            Stage::Contents(open) => open.partly_changed(),
            _ => None,
        }
    }

    fn end(&mut self, result: Result<(), String>) {
        self.stage = Stage::Over;
        // Directories get their permission bits.
        self.position = None;
        self.spare = None;
        self.stream.forget();
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
        // The loop has inspected the next messages already.
        if let Record::Span { .. } = record {
            return Ok(false);
        }
        match (std::mem::replace(&mut self.stage, Stage::Over), &record) {
            (Stage::Contents(open), record) => self.on_contents(open, record, sink)?,
            (Stage::Begin | Stage::Live, record) if StreamIntake::takes(record) => {
                return self.on_stream(record, sink);
            }
            (Stage::Begin, &Record::Offer { entries, bytes }) => {
                let Sink::Files(target) = sink else { return Err(self.files_come()) };
                if let Target::Device(device) = target
                    && entries != 1
                {
                    let path = shown_path(device.path());
                    return Err(refused(&format!(
                        "{entries} entries come, and {path} takes the contents of one file: send a single file or device"
                    )));
                }
                self.announced = Some((entries, bytes));
                self.stage = Stage::Between;
            }
            (Stage::Between, &Record::End { bytes, listing }) => {
                self.on_end(bytes, listing, sink)?;
                return Ok(true);
            }
            (Stage::Between, record) => self.on_entry(record, sink)?,
            (Stage::PriorFile(had), record) => self.on_prior_file(had, record, sink)?,
            (Stage::Unwritten(file), record) => self.on_unwritten(file, record, sink)?,
            (stage, record) => self.out_of_turn(stage, record)?,
        }
        Ok(false)
    }

    /// Handles a record of a live stream; returns true at its end.
    fn on_stream(&mut self, record: &Record<'_>, sink: &mut Sink) -> Result<bool, Problem> {
        let Sink::Live(live) = sink else {
            return Err(refused(&format!("{} sends a live stream: receive it with --stream", self.name)));
        };
        let (bytes, is_over) = self.stream.on_record(&self.name, record, live)?;
        self.counts.bytes += bytes;
        self.stage = Stage::Live;
        Ok(is_over)
    }

    /// Fails at a record that this stage does not expect.
    fn out_of_turn(&mut self, stage: Stage, record: &Record<'_>) -> Result<(), Problem> {
        self.stage = stage;
        Err(damaged(format!("the transfer is incomplete: messages are missing before \"{record}\"")))
    }

    /// Error: the sender sends files although a stream is expected.
    fn files_come(&self) -> Problem {
        refused(&format!("{} sends files: receive them without --stream", self.name))
    }
}

/// Adds the statement about a partly changed file to the reason of a failure.
fn with_partly_changed(reason: String, partly: Option<&str>) -> String {
    partly.map_or(reason.clone(), |partly| format!("{reason}; {partly}"))
}
