//! Tests of holes and of times.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use carillon_wire::file::{HOLE_MAX, Packer, Record};

use super::{Place, data, end, end_of_file, file, offer, path, whole};

fn hole(index: u32, offset: u64, len: u64) -> Record<'static> {
    Record::Hole { index, offset, len }
}

#[test]
fn holes_of_the_sender_stay_holes_at_the_receiver() {
    const MAX_HOLE: u64 = HOLE_MAX;
    // Pieces (filled with sevens) and holes, and the space that the file may take, including preallocation.
    for (parts, room) in [
        (vec![(false, MAX_HOLE), (true, 5), (false, MAX_HOLE), (false, MAX_HOLE)], 8 << 20),
        (vec![(true, 300_000), (false, MAX_HOLE), (true, 1), (false, 100), (true, 1)], 8 << 20),
        (vec![(false, 1)], 1 << 20),
        (vec![(true, 1000), (false, 200_000), (true, 10)], 1 << 20),
        (vec![(false, 256 << 10)], 1 << 20),
    ] {
        let mut whole = Vec::new();
        let sevens = vec![7; 300_000];
        for size_is_known in [true, false] {
            let mut place = Place::new(false);
            whole.clear();
            let mut records = Vec::new();
            for &(is_piece, len) in &parts {
                let at = whole.len() as u64;
                records.push(if is_piece { data(0, at, &sevens[..len as usize]) } else { hole(0, at, len) });
                whole.resize(whole.len() + len as usize, if is_piece { 7 } else { 0 });
            }
            let size = whole.len() as u64;
            records.splice(..0, [offer(1), file(0, "f", size_is_known.then_some(size))]);
            records.push(end_of_file(0, &whole));
            records.push(end(size, &records));
            let result = place.take(&records);
            assert_eq!(result, Some(Ok(())), "{parts:?}");
            assert!(fs::read(place.out("f")).unwrap() == whole, "{parts:?}");
            let taken = fs::metadata(place.out("f")).unwrap().blocks() * 512;
            assert!(taken <= room, "{parts:?} take {taken} bytes");
        }
    }
}

#[test]
fn zeros_come_in_their_turn_and_within_what_was_announced() {
    let begin = [offer(1), file(0, "f", Some(10))];
    for (records, words) in [
        (vec![hole(0, 1, 5)], "bytes 0 to 1 are missing"),
        (vec![hole(0, 0, 5), hole(0, 0, 5)], "bytes 0 to 5 came twice"),
        (vec![hole(0, 0, 11)], "larger than announced"),
        (vec![hole(0, 0, HOLE_MAX)], "larger than announced"),
        (vec![hole(1, 0, 5)], "entry 1 arrived instead of entry 0"),
        (vec![hole(0, 0, 5), end_of_file(0, &[0; 5])], "f is incomplete"),
        (vec![hole(0, 0, 10), end_of_file(0, &[1; 10])], "its digest is wrong"),
    ] {
        let mut place = Place::new(false);
        place.take(&begin);
        place.refuses(&records, words);
        assert_eq!(place.names(), Vec::<String>::new());
    }
    Place::new(false).refuses(&[offer(1), hole(0, 0, 5)], "messages are missing before");
    // One record per message: more would take long for little.
    let mut place = Place::new(false);
    place.take(&begin);
    let mut packer = Packer::new(100);
    [hole(0, 0, 4), hole(0, 4, 4)].iter().for_each(|record| packer.push(record));
    let _ = place.intake.take(&packer.take(), &mut place.sink);
    place.refuses(&[], "more than one HOLE");
}

#[test]
fn files_and_directories_have_the_times_that_they_had() {
    let time = |place: &Place, name| {
        let found = fs::symlink_metadata(place.out(name)).unwrap();
        found.mtime() * 1_000_000_000 + found.mtime_nsec()
    };
    for overwrite in [false, true] {
        let mut place = Place::new(overwrite);
        // Existing directories get their time as well.
        fs::create_dir(place.out("d")).unwrap();
        let large = vec![7; 300_000];
        let directory =
            |index, modified, name| Record::Directory { index, mode: 0o555, modified, path: path(name) };
        let file = |index, len, modified, name| Record::File {
            index,
            size: Some(len),
            mode: 0o444,
            modified,
            path: path(name),
        };
        let records = whole(
            300_001,
            &[
                offer(6),
                directory(0, Some(-1_500_000_000), "d"),
                directory(1, Some(1_000_000_001), "d/e"),
                file(2, 1, Some(2_000_000_002), "d/e/small"),
                data(2, 0, b"x"),
                end_of_file(2, b"x"),
                file(3, 300_000, Some(3_000_000_003), "d/e/large"),
                data(3, 0, &large),
                end_of_file(3, &large),
                file(4, 0, None, "d/now"),
                end_of_file(4, b""),
                directory(5, Some(i64::MAX), "never"),
            ],
        );
        assert_eq!(place.take(&records), Some(Ok(())));
        assert_eq!(time(&place, "d"), -1_500_000_000);
        assert_eq!(time(&place, "d/e"), 1_000_000_001);
        assert_eq!(time(&place, "d/e/small"), 2_000_000_002);
        assert_eq!(time(&place, "d/e/large"), 3_000_000_003);
        assert!(time(&place, "d/now") > 1_700_000_000_000_000_000);
    }
}
