//! Reading of messages in a thread, because the input may pause while the sender must go on.

use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use carillon_net::Waker;

use super::NamedFile;

/// Cut of the input into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Maximum bytes of a message; all but the last have as many unless they are lines.
    pub bytes: usize,
    /// True if a message ends behind each line feed.
    pub lines: bool,
}

/// Reads messages from the input. The waker is called for each.
pub(super) fn read_messages(
    input: impl Read + Send + 'static,
    cut: Cut,
    waker: Waker,
) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (to, from) = sync_channel(MAX_QUEUED_MESSAGES);
    let thread = std::thread::Builder::new().name("carillon-input".to_owned());
    thread.spawn(move || {
        forward(&mut BufReader::with_capacity(READ_BYTES, input), cut, &to, &waker);
        // The end of the input is news too.
        drop(to);
        waker.wake();
    })?;
    Ok(from)
}

/// Reads files: each is a message with its name. The waker is called for each.
pub(super) fn read_files(
    files: Vec<(String, PathBuf)>,
    waker: Waker,
) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    // Whole files wait here, so there are few of them.
    let (to, from) = sync_channel(MAX_QUEUED_FILES);
    let thread = std::thread::Builder::new().name("carillon-input".to_owned());
    thread.spawn(move || {
        for (name, path) in files {
            let file = std::fs::read(&path)
                .map(|content| NamedFile { name, content: content.into() }.into_message().into())
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())));
            let failed = file.is_err();
            let sent = to.send(file).is_ok();
            waker.wake();
            if failed || !sent {
                return;
            }
        }
        drop(to);
        waker.wake();
    })?;
    Ok(from)
}

fn forward(input: &mut impl BufRead, cut: Cut, to: &SyncSender<io::Result<Vec<u8>>>, waker: &Waker) {
    loop {
        let mut message = Vec::new();
        let mut limited = input.take(cut.bytes as u64);
        let read = match cut.lines {
            true => limited.read_until(b'\n', &mut message),
            false => limited.read_to_end(&mut message),
        };
        let sent = match read {
            Ok(0) => return,
            Ok(_) => to.send(Ok(message)).is_ok(),
            Err(error) => {
                // Sending fails only after the receiver was dropped.
                let _ = to.send(Err(error));
                return;
            }
        };
        waker.wake();
        if !sent {
            return;
        }
    }
}

/// Maximum number of messages that wait for the sender.
const MAX_QUEUED_MESSAGES: usize = 64;
/// Maximum number of files that wait for the sender.
const MAX_QUEUED_FILES: usize = 4;
/// Bytes of a read.
const READ_BYTES: usize = 64 << 10;
