//! Entries that were not delivered to this receiver.

use carillon_wire::file::WithdrawReason;

use super::super::arriving::Unstored;
use super::super::names::shown_name;

/// Files that the sender withdrew.
#[derive(Debug, Default)]
pub struct Missing {
    count: u32,
    /// Listed entries that cannot be stored and were not reported yet.
    pub unstored: Vec<Unstored>,
    /// Number of entries that this receiver cannot store.
    pub unstored_count: u32,
    /// Names of the first of them, with reasons.
    named: Vec<String>,
}

impl Missing {
    pub fn add(&mut self, name: &[u8], reason: WithdrawReason) {
        self.add_text(&format!("{} {reason}", shown_name(name)));
    }

    /// Adds a file, with its name and the reason.
    pub fn add_text(&mut self, text: &str) {
        self.count += 1;
        if self.named.len() < MAX_LISTED_NAMES {
            self.named.push(text.to_owned());
        }
    }

    pub fn add_unstored(&mut self, unstored: Unstored) {
        self.count += 1;
        self.unstored_count += 1;
        if self.named.len() < MAX_LISTED_NAMES {
            self.named.push(format!("{} {}", shown_name(&unstored.name), unstored.reason));
        }
        if self.unstored_count <= MAX_UNSTORED {
            self.unstored.push(unstored);
        }
    }

    pub fn text(&self) -> Option<String> {
        let more = self.count as usize - self.named.len();
        let more = if more > 0 { format!(", and {more} more files") } else { String::new() };
        (self.count > 0).then(|| format!("not delivered: {}{more}", self.named.join(", ")))
    }
}

/// Maximum number of undelivered files named in the result.
const MAX_LISTED_NAMES: usize = 3;
/// Maximum number of listed entries that cannot be stored.
const MAX_UNSTORED: u32 = 10_000;
