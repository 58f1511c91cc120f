//! What a site asks for: acknowledgments and messages it knows of and lacks (section 2.9.1:
//! "retransmission request").
//!
//! Not a `RequestSchedule`: there is one request for a whole run, and one timer for it and all else that the site waits for.

use carillon_wire::chang_maxemchuk::Id;

/// Requests of one site.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// One past the greatest timestamp heard of.
    known: u64,
    /// The site that told of it: it holds all before.
    informant: u16,
    /// What is missing below this timestamp has been asked for.
    asked_below: u64,
    /// How often that was repeated without an answer.
    tries: u32,
    /// A message whose acknowledgment must exist, though its timestamp is not known.
    message: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    id: Id,
    due: bool,
    tries: u32,
}

/// Timestamps asked for at a time.
pub(super) const RUN: u64 = 32;

impl Requests {
    /// One past the greatest timestamp heard of.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Whom to ask for timestamps.
    pub fn informant(&self) -> u16 {
        self.informant
    }

    /// A site holds all below this timestamp.
    pub fn learn(&mut self, below: u64, site: u16) {
        if below >= self.known {
            (self.known, self.informant) = (below, site);
        }
    }

    /// What to ask for now of a gap that begins at the end of the log.
    pub fn ask(&mut self, gap: std::ops::Range<u64>) -> Option<std::ops::Range<u64>> {
        let below = gap.end.min(gap.start + RUN);
        let from = gap.start.max(self.asked_below);
        if from >= below {
            return None;
        }
        self.asked_below = below;
        Some(from..below)
    }

    /// A message's acknowledgment is missing. Asked for once until [`Requests::on_timeout`].
    pub fn miss(&mut self, id: Id) {
        if self.message.as_ref().is_none_or(|asked| asked.id != id) {
            self.message = Some(Asked { id, due: true, tries: 0 });
        }
    }

    /// The message to ask for now, and how often it was asked for in vain.
    pub fn ask_message(&mut self) -> Option<(Id, u32)> {
        let asked = self.message.as_mut().filter(|asked| asked.due)?;
        asked.due = false;
        Some((asked.id, asked.tries))
    }

    /// The message asked for, if any.
    pub fn missed(&self) -> Option<Id> {
        self.message.as_ref().map(|asked| asked.id)
    }

    /// That message has come.
    pub fn on_found(&mut self) {
        self.message = None;
    }

    /// No answer in time: all is asked for again. Returns how often the timestamps have been.
    pub fn on_timeout(&mut self) -> u32 {
        if let Some(asked) = &mut self.message {
            asked.due = true;
            asked.tries += 1;
        }
        if self.asked_below > 0 {
            self.tries += 1;
        }
        self.asked_below = 0;
        self.tries
    }

    /// An answer came.
    pub fn on_answer(&mut self) {
        self.tries = 0;
    }

    /// All is asked for again, and the patience begins anew.
    pub fn restart(&mut self) {
        (self.asked_below, self.tries) = (0, 0);
    }
}
