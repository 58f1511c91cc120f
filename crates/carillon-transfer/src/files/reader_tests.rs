//! Tests of the packing of files into messages.

use std::collections::VecDeque;
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use carillon_core::Bytes;
use carillon_net::Waker;
use carillon_wire::file::{DATA_HEADER_LEN, Record, ResumePoint, records};

use super::PIECE_BYTES;
use super::contents::READ_BYTES;
use super::manifest::{Manifest, Selection};
use super::reader::{ReadAhead, Start};
use super::signing::Binding;
use super::worker_queue::Found;

fn messages(manifest: Manifest, from: Option<ResumePoint>, max_payload: usize) -> VecDeque<(Bytes, u64)> {
    let ahead = ReadAhead::start(
        Arc::new(manifest),
        Start::Whole(from),
        max_payload,
        Binding::default(),
        Waker::default(),
    )
    .expect("a thread");
    let mut messages = VecDeque::new();
    while ahead.take(&mut messages) != Found::End {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(ahead.take_error().is_none() && messages.iter().all(|(message, _)| message.len() <= max_payload));
    messages
}

/// Pieces of the single file as offset and length, and the number of messages.
fn cut(manifest: Manifest, max_payload: usize) -> (Vec<(u64, usize)>, usize) {
    cut_from(manifest, None, max_payload)
}

fn cut_from(manifest: Manifest, from: Option<ResumePoint>, max_payload: usize) -> (Vec<(u64, usize)>, usize) {
    let messages = messages(manifest, from, max_payload);
    let (mut pieces, mut digest) = (Vec::new(), blake3::Hasher::new());
    for (message, _) in &messages {
        for record in records(message) {
            match record.expect("it is a record") {
                Record::Data { offset, bytes, .. } => {
                    assert_eq!(bytes, &contents(LEN)[offset as usize..][..bytes.len()]);
                    pieces.push((offset, bytes.len()));
                    digest.update(bytes);
                }
                Record::EndOfFile { digest: sent, .. } if from.is_none() => {
                    assert_eq!(sent, *digest.finalize().as_bytes());
                }
                _ => {}
            }
        }
    }
    (pieces, messages.len())
}

fn file_of(len: usize) -> (tempfile::TempDir, Manifest) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    fs::write(&path, contents(len)).expect("a file");
    let manifest = Manifest::list(&[path], &Selection::default()).expect("it is there");
    (directory, manifest)
}

/// Contents without repetition.
fn contents(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

/// Full pieces and the rest.
fn whole(len: usize) -> Vec<(u64, usize)> {
    (0..len).step_by(PIECE_BYTES).map(|at| (at as u64, PIECE_BYTES.min(len - at))).collect()
}

const ONE_PIECE_AND_TEN_BYTES: usize = PIECE_BYTES + DATA_HEADER_LEN + 10;
const LEN: usize = 20 * PIECE_BYTES + 1000;

#[test]
fn message_slightly_above_a_piece_holds_one_piece() {
    let (_directory, manifest) = file_of(LEN);
    let (pieces, messages) = cut(manifest, ONE_PIECE_AND_TEN_BYTES);
    assert_eq!(pieces, whole(LEN));
    // The header precedes the first piece, and the end record follows the last one.
    assert_eq!(messages, pieces.len() + 1);
    // After a full last piece the end record needs a message of its own.
    let (_directory, manifest) = file_of(20 * PIECE_BYTES);
    assert_eq!(cut(manifest, ONE_PIECE_AND_TEN_BYTES), (whole(20 * PIECE_BYTES), 22));
}

#[test]
fn stream_message_slightly_above_a_piece_holds_one() {
    let manifest = Manifest::reader("stream", Cursor::new(contents(LEN))).expect("a stream");
    assert_eq!(cut(manifest, ONE_PIECE_AND_TEN_BYTES).0, whole(LEN));
}

#[test]
fn resumed_file_continues_at_the_next_multiple() {
    let (_directory, manifest) = file_of(LEN);
    let at = PIECE_BYTES as u64 + 1000;
    let from = ResumePoint { transfer: manifest.id().expect("it has one"), entry: 0, offset: at };
    let (pieces, _) = cut_from(manifest, Some(from), ONE_PIECE_AND_TEN_BYTES);
    assert_eq!(pieces[0], (at, PIECE_BYTES - 1000));
    assert_eq!(pieces[1..], whole(LEN)[2..]);
}

#[test]
fn other_messages_are_filled() {
    for max_payload in [1400, PIECE_BYTES + DATA_HEADER_LEN - 1, 2 * PIECE_BYTES - 1000] {
        let (_directory, manifest) = file_of(LEN);
        let (_, messages) = cut(manifest, max_payload);
        let least = LEN.div_ceil(max_payload - DATA_HEADER_LEN);
        assert!((least..=least + 1).contains(&messages), "{messages} messages of {max_payload}, {least} do");
    }
    // A small file shares a message with the preceding records.
    let (_directory, manifest) = file_of(2 * PIECE_BYTES);
    assert_eq!(cut(manifest, ONE_PIECE_AND_TEN_BYTES).1, 3);
}

#[test]
fn holes_are_neither_read_nor_sent() {
    const MIB: u64 = 1 << 20;
    let size = 40 * MIB + 5;
    // The message contains only pieces, beginning with a short one.
    let parts = [(0, 1000), (3 * MIB + 7, 5), (30 * MIB - 3, READ_BYTES + 10)];
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    let file = fs::File::create(&path).expect("a file");
    file.set_len(size).expect("it can be long");
    for (at, len) in parts {
        file.write_all_at(&contents(len), at).expect("it can be written");
    }
    let whole = fs::read(&path).expect("it is there");
    let digest = *blake3::hash(&whole).as_bytes();
    for max_payload in [1400, ONE_PIECE_AND_TEN_BYTES] {
        for from in [0, 999, 2 * MIB, 2 * MIB + 1, 30 * MIB, size - 1, size] {
            let manifest =
                Manifest::list(std::slice::from_ref(&path), &Selection::default()).expect("it is there");
            let transfer = manifest.id().expect("it has one");
            let reached = ResumePoint { transfer, entry: 0, offset: from };
            let (mut at, mut sent, mut bytes) = (from, 0, 0);
            for (message, of_files) in messages(manifest, Some(reached), max_payload) {
                bytes += of_files;
                let mut holes = 0;
                // Hashed data that is not sent follows it, so that receivers hash at the same time.
                let begins = records(&message).any(|record| matches!(record, Ok(Record::File { .. })));
                assert!(!begins || of_files == 0 || from == 0, "{of_files} bytes with what begins the file");
                for record in records(&message) {
                    match record.expect("it is a record") {
                        Record::Data { offset, bytes, .. } => {
                            assert!(offset == at && *bytes == whole[at as usize..][..bytes.len()], "{at}");
                            at += bytes.len() as u64;
                            sent += bytes.len();
                        }
                        Record::Hole { offset, len, .. } => {
                            let zeros = &whole[at as usize..][..len as usize];
                            assert!(offset == at && zeros.iter().all(|byte| *byte == 0), "{at}");
                            at += len;
                            holes += 1;
                        }
                        Record::EndOfFile { digest: sent, .. } => assert_eq!(sent, digest),
                        _ => {}
                    }
                }
                assert!(holes < 2, "a message is never much work");
            }
            assert_eq!((at, bytes), (size, size), "from {from}");
            assert!(sent <= 5 * READ_BYTES, "{sent} bytes from {from}");
        }
    }
}
