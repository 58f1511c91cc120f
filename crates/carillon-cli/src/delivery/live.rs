//! The messages of live streams, written as they come.

use std::io::{self, Write as _};

use anyhow::anyhow;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::print_json;

/// Writes messages to the standard output in the order of delivery, and adds that order up.
#[derive(Debug)]
pub struct Live {
    json: bool,
    messages: u64,
    hasher: Box<blake3::Hasher>,
    /// What is not written yet.
    waiting: Vec<u8>,
}

impl Live {
    /// The bytes of the messages, or a line of JSON for each.
    pub fn new(json: bool) -> Self {
        Live { json, messages: 0, hasher: Box::default(), waiting: Vec::new() }
    }

    /// Takes the next message in the order.
    pub fn write(&mut self, sender: &str, number: u64, bytes: &[u8]) -> anyhow::Result<()> {
        self.messages += 1;
        // Every length before what it is the length of: no two streams have the same bytes here.
        for part in [sender.as_bytes(), &number.to_be_bytes(), bytes] {
            self.hasher.update(&(part.len() as u64).to_be_bytes());
            self.hasher.update(part);
        }
        if self.json {
            let (key, value) = match std::str::from_utf8(bytes) {
                Ok(text) => ("text", text.to_owned()),
                Err(_) => ("base64", STANDARD.encode(bytes)),
            };
            return print_json(
                &json!({ "event": "message", "sender": sender, "number": number, key: value }),
            );
        }
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what has come: messages are not to wait for later ones.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.waiting).and_then(|()| out.flush());
        self.waiting.clear();
        // A reader that has gone is a failure here: it did not get what was sent.
        written.map_err(|error| anyhow!("cannot write to the standard output: {error}"))
    }

    /// How many messages there were.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// A digest of the messages in their order, each with its sender and number: the same at all
    /// receivers that got the same in the same order.
    pub fn digest(&self) -> blake3::Hash {
        self.hasher.finalize()
    }
}

const WRITE_BYTES: usize = 64 << 10;
