//! Output of live streams on stdout.

use std::io::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carillon_transfer::files::Messages;
use serde_json::json;

use super::print_json;

/// Writes messages as they arrive: their bytes, or a line of JSON for each.
#[derive(Debug)]
pub struct Lines {
    json: bool,
    /// Bytes that are not written yet.
    waiting: Vec<u8>,
}

impl Lines {
    /// The bytes of the messages, or a line of JSON for each.
    pub fn new(json: bool) -> Self {
        Lines { json, waiting: Vec::new() }
    }
}

impl Messages for Lines {
    fn message(&mut self, sender: &str, number: u64, bytes: &[u8]) -> io::Result<()> {
        if self.json {
            let (key, value) = match std::str::from_utf8(bytes) {
                Ok(text) => ("text", text.to_owned()),
                Err(_) => ("base64", STANDARD.encode(bytes)),
            };
            let line = json!({ "event": "message", "sender": sender, "number": number, key: value });
            return print_json(&line).map_err(|error| error.downcast().unwrap_or_else(io::Error::other));
        }
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.waiting).and_then(|()| out.flush());
        self.waiting.clear();
        // A closed pipe is a failure here: its reader did not get all messages.
        written.map_err(|error| io::Error::other(format!("cannot write to the standard output: {error}")))
    }
}

const WRITE_BYTES: usize = 64 << 10;
