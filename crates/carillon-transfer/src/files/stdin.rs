//! Reading of the standard input or another reader in a thread.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::feed::Feed;
use super::message_buffer::Scratch;

/// A reader in place of the standard input, if any.
#[derive(Default)]
pub struct Input(Option<Box<dyn Read + Send>>);

impl Input {
    /// Reads from this reader.
    pub fn new(reader: impl Read + Send + 'static) -> Self {
        Input(Some(Box::new(reader)))
    }

    fn reader(self) -> Box<dyn Read + Send> {
        self.0.unwrap_or_else(|| Box::new(io::stdin()))
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Input(reader)" } else { "Input(stdin)" })
    }
}

/// Reads the input in a thread, because it may pause while the sender must keep its session alive.
pub fn read_stream(input: Input, piece: usize) -> Receiver<io::Result<Vec<u8>>> {
    let (to, from) = sync_channel(STREAM_CHUNKS);
    let failed = to.clone();
    if let Err(error) = spawn(move || forward(&mut input.reader(), piece, &to)) {
        // The channel is empty and has room.
        let _ = failed.try_send(Err(error));
    }
    from
}

fn forward(input: &mut dyn Read, piece: usize, to: &SyncSender<io::Result<Vec<u8>>>) {
    let mut buffer = Scratch::new(piece.max(READ_BYTES));
    loop {
        let sent = match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => to.send(Ok(buffer[..len].to_vec())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                // Sending fails only after the receiver was dropped.
                let _ = to.send(Err(error));
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Reads the lines of the input in a thread; lines longer than `piece` are cut.
pub fn read_lines(input: Input, piece: usize, feed: Arc<Feed>) {
    let read = {
        let feed = feed.clone();
        move || match forward_lines(&mut BufReader::new(input.reader()), piece, &feed) {
            Ok(()) => feed.end(),
            Err(error) => feed.fail(error),
        }
    };
    if let Err(error) = spawn(read) {
        feed.fail(error);
    }
}

/// Starts the thread that reads.
fn spawn(read: impl FnOnce() + Send + 'static) -> io::Result<()> {
    match std::thread::Builder::new().name("carillon-input".to_owned()).spawn(read) {
        Ok(_detached) => Ok(()),
        Err(error) => {
            Err(io::Error::new(error.kind(), format!("cannot start a thread that reads the input: {error}")))
        }
    }
}

fn forward_lines(input: &mut dyn BufRead, piece: usize, feed: &Feed) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        // Adding fails only after the feed was closed.
        if Read::take(&mut *input, piece as u64).read_until(b'\n', &mut line)? == 0
            || feed.put(&line).is_err()
        {
            return Ok(());
        }
    }
}

/// Bytes per read.
const READ_BYTES: usize = 256 << 10;
/// Maximum number of chunks read ahead.
const STREAM_CHUNKS: usize = 16;
