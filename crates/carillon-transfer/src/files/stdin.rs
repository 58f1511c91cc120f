//! The standard input, read beside everything else.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Reads the standard input in a thread of its own: it may pause for as long as it likes, and the
/// receivers must hear from the sender all the same.
pub fn read_stdin(piece: usize) -> Receiver<io::Result<Vec<u8>>> {
    let (to, from) = sync_channel(STREAM_CHUNKS);
    std::thread::spawn(move || forward(&mut io::stdin().lock(), piece, &to));
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

/// Reads the lines of the standard input in a thread of its own, as they come.
pub fn read_lines(piece: usize) -> Receiver<io::Result<Vec<u8>>> {
    let (to, from) = sync_channel(STREAM_LINES);
    std::thread::spawn(move || forward_lines(&mut io::stdin().lock(), piece, &to));
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
