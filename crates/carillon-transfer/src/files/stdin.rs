//! The standard input, or another reader, read beside everything else.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// What is read instead of the standard input, if anything.
#[derive(Default)]
pub struct Input(Option<Box<dyn Read + Send>>);

impl Input {
    /// This reader.
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

/// Reads the input in a thread of its own: it may pause for as long as it likes, and the
/// receivers must hear from the sender all the same.
pub fn read_stream(input: Input, piece: usize) -> Receiver<io::Result<Vec<u8>>> {
    let (to, from) = sync_channel(STREAM_CHUNKS);
    std::thread::spawn(move || forward(&mut input.reader(), piece, &to));
    from
}

fn forward(input: &mut dyn Read, piece: usize, to: &SyncSender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; piece.max(READ_BYTES)];
    loop {
        let sent = match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => to.send(Ok(buffer[..len].to_vec())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                // Nobody listens any more if it cannot be sent.
                let _ = to.send(Err(error));
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Reads the lines of the input in a thread of its own, as they come.
pub fn read_lines(input: Input, piece: usize) -> Receiver<io::Result<Vec<u8>>> {
    let (to, from) = sync_channel(STREAM_LINES);
    std::thread::spawn(move || forward_lines(&mut BufReader::new(input.reader()), piece, &to));
    from
}

fn forward_lines(input: &mut dyn BufRead, piece: usize, to: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut line = Vec::new();
        let sent = match Read::take(&mut *input, piece as u64).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => to.send(Ok(line)),
            // Nobody listens any more if it cannot be sent.
            Err(error) => return drop(to.send(Err(error))),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;
/// Pieces of a stream read ahead.
const STREAM_CHUNKS: usize = 16;
/// Lines of a live stream read ahead.
const STREAM_LINES: usize = 256;
