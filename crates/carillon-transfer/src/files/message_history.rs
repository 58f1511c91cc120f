//! Messages of a live stream that its sender keeps for late receivers.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::Instant;

use carillon_core::{DataSize, Duration};

/// Amount of sent messages that a sender of a live stream keeps for receivers that join late or return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// The latest messages with at most this many bytes. With 0, late receivers continue from now.
    Bytes(u64),
    /// The messages of the latest time, with at most [`MAX_HISTORY_BYTES`].
    Time(Duration),
}

impl History {
    /// No message is kept: late receivers continue from now.
    pub const EMPTY: History = History::Bytes(0);
}

impl FromStr for History {
    type Err = String;

    /// Parses a size such as `64 MiB`, a time such as `30 s`, or `0` for no history.
    fn from_str(text: &str) -> Result<History, String> {
        let text = text.trim();
        if let Some(seconds) = text.strip_suffix('s').map(str::trim_end)
            && let Ok(seconds) = seconds.parse::<f64>()
        {
            let time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
            return Ok(History::Time(time));
        }
        if text == "0" {
            return Ok(History::EMPTY);
        }
        let size = text.parse::<DataSize>();
        size.map(|size| History::Bytes(size.0))
            .map_err(|_| "expected a size such as '64 MiB' or a time such as '30 s'".to_owned())
    }
}

impl fmt::Display for History {
    /// Writes a form that [`FromStr`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            History::Bytes(bytes) => write!(f, "{bytes} B"),
            History::Time(time) => write!(f, "{} s", time.as_secs_f64()),
        }
    }
}

/// Latest messages: the sent ones within a limit, and all that no session has sent.
#[derive(Debug)]
pub(super) struct MessageHistory {
    limit: History,
    messages: VecDeque<(Instant, Box<[u8]>)>,
    /// Bytes of the sent messages.
    sent_bytes: u64,
    /// Number of messages at the end that no session has sent.
    unsent: usize,
    /// True between two sessions.
    is_paused: bool,
}

impl MessageHistory {
    /// Creates an empty history.
    pub fn new(limit: History) -> Self {
        MessageHistory { limit, messages: VecDeque::new(), sent_bytes: 0, unsent: 0, is_paused: false }
    }

    /// Ends the present session: further messages wait for the next one.
    pub fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Returns true between two sessions.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Adds the next message, which the present session sends unless there is none.
    pub fn add(&mut self, message: &[u8]) {
        if self.limit == History::EMPTY && !self.is_paused {
            return;
        }
        self.messages.push_back((Instant::now(), message.into()));
        if self.is_paused {
            self.unsent += 1;
        } else {
            self.sent_bytes += size(message);
            self.discard();
        }
    }

    /// Begins a session, which sends all messages that waited, and discards those beyond the limit.
    pub fn resume(&mut self) {
        self.is_paused = false;
        let unsent = std::mem::take(&mut self.unsent);
        let sent = self.messages.len() - unsent;
        self.sent_bytes += self.messages.range(sent..).map(|(_, message)| size(message)).sum::<u64>();
        self.discard();
    }

    /// Discards sent messages beyond the limit.
    pub fn discard(&mut self) {
        while let Some((at, message)) = self.messages.front() {
            let is_beyond = match self.limit {
                History::Bytes(bytes) => self.sent_bytes > bytes,
                History::Time(time) => at.elapsed() > time || self.sent_bytes > MAX_HISTORY_BYTES,
            };
            if !is_beyond || self.messages.len() <= self.unsent {
                return;
            }
            self.sent_bytes -= size(message);
            self.messages.pop_front();
        }
    }

    /// Returns true if a message waits for the next session.
    pub fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    /// Number of the oldest message, of `messages` so far.
    pub fn first(&self, messages: u64) -> u64 {
        messages - self.messages.len() as u64
    }

    /// Messages from this number on, of `messages` so far.
    pub fn since(&self, number: u64, messages: u64) -> impl Iterator<Item = &[u8]> {
        let skipped = number.saturating_sub(self.first(messages)) as usize;
        self.messages.iter().skip(skipped).map(|(_, message)| &**message)
    }
}

/// Bytes that a message takes.
fn size(message: &[u8]) -> u64 {
    message.len() as u64 + MESSAGE_BYTES
}

/// Maximum number of bytes in a history that is limited by time.
pub const MAX_HISTORY_BYTES: u64 = 256 << 20;
/// Bytes that a message takes beside its contents.
const MESSAGE_BYTES: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(history: &MessageHistory, number: u64, messages: u64) -> Vec<&[u8]> {
        history.since(number, messages).collect()
    }

    #[test]
    fn sent_messages_beyond_the_limit_are_discarded() {
        let mut history = MessageHistory::new(History::Bytes(2 * (1 + MESSAGE_BYTES)));
        for message in [b"a", b"b", b"c"] {
            history.add(message);
        }
        assert_eq!((history.first(3), texts(&history, 0, 3)), (1, vec![&b"b"[..], b"c"]));
        // Messages that wait do not count, and are never discarded.
        history.pause();
        for message in [b"d", b"e", b"f"] {
            history.add(message);
        }
        assert!(history.has_unsent());
        assert_eq!((history.first(6), texts(&history, 4, 6)), (1, vec![&b"e"[..], b"f"]));
        history.resume();
        assert!(!history.has_unsent());
        assert_eq!((history.first(6), texts(&history, 0, 6)), (4, vec![&b"e"[..], b"f"]));
    }

    #[test]
    fn messages_of_the_latest_time_are_kept() {
        let mut history = MessageHistory::new(History::Time(Duration::from_secs(100)));
        history.add(b"a");
        history.add(b"b");
        history.discard();
        assert_eq!(history.first(2), 0);
        history.limit = History::Time(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
        history.discard();
        assert_eq!(history.first(2), 2);
    }

    #[test]
    fn limits_are_parsed_as_they_are_shown() {
        let limits = [
            ("0", History::EMPTY),
            ("64 MiB", History::Bytes(64 << 20)),
            ("720B", History::Bytes(720)),
            ("2.5 s", History::Time(Duration::from_millis(2500))),
            ("30s", History::Time(Duration::from_secs(30))),
        ];
        for (text, limit) in limits {
            assert_eq!(text.parse(), Ok(limit), "{text}");
            assert_eq!(limit.to_string().parse(), Ok(limit));
        }
        for text in ["", "5", "-1 s", "1 h", "much"] {
            assert!(text.parse::<History>().is_err(), "{text}");
        }
    }
}
