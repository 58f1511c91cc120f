//! Tests of the spool within and across processes.

use std::path::Path;

use carillon_core::{AssociationId, Bytes};
use carillon_wire::file::{Record, Sessions};

use super::names::{is_part_name, part_name};
use super::spool::{MAX_SPOOLED_SESSIONS, MIN_SPOOLED_OFFSET, Spool};

const SESSION: AssociationId = AssociationId(7);

fn data(index: u32, offset: u64, bytes: &[u8]) -> Bytes {
    let mut message = Vec::new();
    Record::Data { index, offset: MIN_SPOOLED_OFFSET + offset, bytes }.emit(&mut message);
    message.into()
}

/// Indices found for pieces of ten bytes, with their records.
fn found(spool: &mut Spool, index: u32, sessions: &[u8]) -> Vec<(u32, Bytes)> {
    let (offset, sessions) = (MIN_SPOOLED_OFFSET, Sessions::new(sessions).expect("a few"));
    spool.find(&Record::Span { index, offset, step: 10, count: 6, sessions })
}

/// A spool for which every disk is large enough.
fn spool(directory: &Path) -> Spool {
    Spool::open(directory, rustix::fs::stat(directory).map_or(0, |stat| stat.st_uid)).with_room(|_| true)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = directory.read_dir().expect("it is there");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("ours")).collect()
}

#[test]
fn spooled_data_is_found_at_any_piece_boundary() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut spool = spool(directory.path());
    assert!(spool.is_empty() && found(&mut spool, 0, &[0, 0, 0, 7]).is_empty());
    let bytes: Vec<u8> = (0..60).collect();
    // The second, fourth and fifth piece are complete, and half of the third.
    for (from, to) in [(30, 33), (10, 25), (33, 50)] {
        spool.keep(SESSION, &data(0, from, &bytes[from as usize..to]));
    }
    let piece = |place: u32| (place, data(0, u64::from(place) * 10, &bytes[place as usize * 10..][..10]));
    assert_eq!(found(&mut spool, 0, &[0, 0, 0, 7]), [piece(1), piece(3), piece(4)]);
    // The rest of the third piece, in another session.
    spool.keep(AssociationId(9), &data(0, 20, &bytes[20..30]));
    assert_eq!(found(&mut spool, 0, &[0, 0, 0, 9, 0, 0, 0, 7]).len(), 4);
    assert!(found(&mut spool, 0, &[0, 0, 0, 8]).is_empty() && found(&mut spool, 1, &[0, 0, 0, 7]).is_empty());
    spool.clear();
    assert!(found(&mut spool, 0, &[0, 0, 0, 7]).is_empty());
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn spool_survives_a_restart_without_other_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut first = spool(directory.path());
    let bytes: Vec<u8> = (0..60).collect();
    first.keep(SESSION, &data(0, 0, &bytes[..20]));
    first.keep(SESSION, &data(0, 30, &bytes[30..40]));
    first.keep(AssociationId(9), &data(5, 0, &bytes));
    assert_eq!(found(&mut first, 0, &[0, 0, 0, 7]).len(), 3);
    assert_eq!(found(&mut first, 5, &[0, 0, 0, 9]).len(), 6);
    // A second receiver beside it has unnamed files, which end with it.
    let mut beside = spool(directory.path());
    beside.keep(SESSION, &data(1, 0, &bytes));
    let there = names(directory.path());
    assert!(there.len() == 3 && there.iter().all(|name| is_part_name(name.as_bytes())), "{there:?}");
    if cfg!(target_os = "linux") {
        assert_eq!(found(&mut beside, 1, &[0, 0, 0, 7]).len(), 6);
    }
    drop((first, beside));
    let mut second = spool(directory.path());
    let places = |found: Vec<(u32, Bytes)>| found.into_iter().map(|(place, _)| place).collect::<Vec<_>>();
    assert_eq!(places(found(&mut second, 0, &[0, 0, 0, 7])), [0, 1, 3]);
    assert!(found(&mut second, 1, &[0, 0, 0, 7]).is_empty());
    // Restored data can be extended.
    second.keep(SESSION, &data(0, 20, &bytes[20..30]));
    assert_eq!(found(&mut second, 0, &[0, 0, 0, 7]).len(), 4);
    drop(second);
    let mut third = spool(directory.path());
    let piece = |place: u32| (place, data(0, u64::from(place) * 10, &bytes[place as usize * 10..][..10]));
    assert_eq!(found(&mut third, 0, &[0, 0, 0, 7]), [piece(0), piece(1), piece(2), piece(3)]);
    third.clear();
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn spool_entry_without_data_is_ignored() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(part_name(b"overheard", 0));
    let list = |bytes: &[u8]| std::fs::write(&path, bytes).expect("it can be written");
    let count = |spool: &mut Spool, session| found(spool, 0, &[0, 0, 0, session]).len();
    let mut first = spool(directory.path());
    first.keep(SESSION, &data(0, 0, &[1; 60]));
    assert_eq!(count(&mut first, 7), 6);
    drop(first);
    let good = std::fs::read(&path).expect("it is there");
    // Invalid ranges: empty, of another file, inverted, beyond the end, and partly missing.
    let mut bad = good.clone();
    bad.extend([0; 24]);
    bad.extend([0, 0, 0, 7, 0, 0, 0, 1].iter().chain(&good[8..]));
    bad.extend(good[..8].iter().chain(&good[16..]).chain(&good[8..16]));
    bad.extend(good[..16].iter().chain(&[0, 0, 0, 0, 0, 9, 0, 0]));
    bad.extend(&good[..23]);
    list(&bad);
    let mut second = spool(directory.path());
    assert_eq!(count(&mut second, 7), 6);
    second.keep(AssociationId(9), &data(0, 0, &[1; 60]));
    assert_eq!(count(&mut second, 9), 6);
    drop(second);
    let mut third = spool(directory.path());
    assert_eq!((count(&mut third, 7), count(&mut third, 9)), (6, 6), "what comes after the half is read");
    drop(third);
    for nothing in [&good[..20], &[0; 240], &[]] {
        list(nothing);
        assert!(spool(directory.path()).is_empty() && !path.exists());
    }
}

#[test]
fn spool_keeps_the_most_recent_sessions() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut first = spool(directory.path());
    let there = |spool: &mut Spool, session: u32| found(spool, 0, &session.to_be_bytes()).len();
    for session in 1..=6 {
        first.keep(AssociationId(session), &data(0, 0, &[1; 60]));
        assert_eq!(there(&mut first, session), 6);
    }
    assert_eq!(names(directory.path()).len(), 1 + MAX_SPOOLED_SESSIONS);
    drop(first);
    let mut second = spool(directory.path());
    assert_eq!([2, 3, 6].map(|session| there(&mut second, session)), [0, 6, 6]);
}

#[test]
fn spooled_zeros_take_no_disk_space() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut spool = spool(directory.path());
    let mut message = Vec::new();
    Record::Hole { index: 0, offset: MIN_SPOOLED_OFFSET + 5, len: 25 }.emit(&mut message);
    spool.keep(SESSION, &message.into());
    let zeros = |place: u32| (place, data(0, u64::from(place) * 10, &[0; 10]));
    assert_eq!(found(&mut spool, 0, &[0, 0, 0, 7]), [zeros(1), zeros(2)]);
}

#[test]
fn spool_on_a_full_disk_keeps_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut spool = spool(directory.path()).with_room(|_| false);
    spool.keep(SESSION, &data(0, 0, &[1; 60]));
    assert!(spool.is_empty() && found(&mut spool, 0, &[0, 0, 0, 7]).is_empty());
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn unwritable_spool_keeps_nothing_without_error() {
    let mut spool = spool(Path::new("/proc/1/none"));
    for offset in [0, 100_000] {
        spool.keep(SESSION, &data(0, offset, &[1; 10]));
    }
    assert!(found(&mut spool, 0, &[0, 0, 0, 7]).is_empty());
    spool.keep(SESSION, &data(0, 0, &[1; 10]));
    assert!(found(&mut spool, 0, &[0, 0, 0, 7]).is_empty());
}
