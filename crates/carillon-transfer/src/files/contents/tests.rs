//! Tests of a file that is being sent.

use super::*;

#[test]
fn a_change_right_after_a_file_was_opened_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    fs::write(&path, [0; 1000]).expect("a file");
    for change in 1..50u8 {
        let opened = loop {
            let opened = Opened::open(&path, true, false).expect("it can be opened");
            if !opened.is_fresh() {
                break opened;
            }
            std::thread::yield_now();
        };
        assert!(opened.is_same().expect("it can be looked at") && opened.stamp.is_there(&path, true));
        // The change keeps the size.
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, &[change; 10]))
            .expect("it can be written");
        assert!(!opened.is_same().expect("it can be looked at"), "change {change} is not noticed");
        assert!(!opened.stamp.is_there(&path, true), "change {change} is not noticed");
    }
}

#[test]
fn a_small_file_is_read_at_once_only_as_it_was_listed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, other) = (directory.path().join("file"), directory.path().join("other"));
    fs::write(&path, [1; 1000]).expect("a file");
    fs::write(&other, [2; 1000]).expect("another");
    let listed = Stamp::of(&fs::metadata(&path).expect("it is there"));
    let mut contents = Contents::new();
    // The change is noticed only after the time stamps can tell it.
    while !contents.read_whole(&path, true, &listed).expect("it can be read") {
        std::thread::yield_now();
    }
    assert_eq!((contents.available(), contents.digest()), (1000, *blake3::hash(&[1; 1000]).as_bytes()));
    fs::rename(&other, &path).expect("it is replaced");
    contents.take(1000);
    assert!(contents.is_done() && contents.is_unchanged(Some(&path)), "it was whole, and went out at once");
    assert!(!contents.read_whole(&path, true, &listed).expect("it can be read"), "it is another");

    let listed = Stamp::of(&fs::metadata(&path).expect("it is there"));
    while !contents.read_whole(&path, true, &listed).expect("it can be read") {
        std::thread::yield_now();
    }
    contents.take(500);
    fs::write(&path, [3; 1000]).expect("it changes");
    contents.take(500);
    assert!(!contents.is_unchanged(Some(&path)), "it changed before its end went out");
}

#[test]
fn size_of_a_device_is_taken_by_seeking() {
    let mut file = tempfile::tempfile().expect("a file");
    file.set_len(12_345).expect("it can be long");
    file.seek(io::SeekFrom::Start(7)).expect("it is long");
    assert_eq!(size_by_seek(&mut file).expect("it tells"), 12_345);
    assert_eq!(file.stream_position().expect("it has one"), 0);
    // The size of a device is not part of its metadata; the size of a file is.
    let metadata = file.metadata().expect("it is there");
    let device = Stamp { size: 99, is_device: true, ..Stamp::of(&metadata) };
    assert!(!device.fits(&metadata), "a file is no device");
    assert!(!Stamp { is_device: false, ..device }.fits(&metadata), "it has another size");
}

#[test]
fn file_in_the_place_of_a_device_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let error = Opened::open(file.path(), false, true).expect_err("it is no device");
    assert!(error.to_string().contains("block device"), "{error}");
}

#[test]
fn a_change_is_noticed_before_many_pieces_more_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    fs::write(&path, vec![0; 4 * READ_BYTES]).expect("a file");
    let open = |contents: &mut Contents| loop {
        let opened = Opened::open(&path, true, false).expect("it can be opened");
        if !opened.is_fresh() {
            return contents.read_file(opened);
        }
        std::thread::yield_now();
    };
    let (mut contents, mut piece) = (Contents::new(), vec![1; READ_BYTES / 8]);
    open(&mut contents);
    for _ in 0..32 {
        assert!(contents.has_piece(piece.len()));
        assert!(contents.read_piece(&mut piece).is_ok() && piece.iter().all(|byte| *byte == 0));
    }
    assert!(contents.is_done() && !contents.has_piece(1));

    open(&mut contents);
    assert!(contents.read_piece(&mut piece).is_ok());
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| io::Write::write_all(&mut file, &[1; 10]))
        .expect("it can be written");
    let read = (0..32).take_while(|_| contents.read_piece(&mut piece).is_ok()).count();
    assert_eq!(read, 6, "it is looked at before the eighth piece goes out");
    // A truncated file has no piece.
    open(&mut contents);
    fs::write(&path, vec![0; 100]).expect("it is shortened");
    assert!(matches!(contents.read_piece(&mut piece), Err(Filled::Changed)));
}

#[test]
fn times_of_whole_seconds_are_fresh_for_longer() {
    let stamp = |nanos| Stamp {
        device: 1,
        inode: 1,
        size: 1,
        modified: (100, 0),
        changed: (100, nanos),
        is_device: false,
    };
    let at = |millis| Duration::from_millis(millis);
    assert!(stamp(0).is_fresh(at(100_900)) && stamp(0).is_fresh(at(102_000)));
    assert!(!stamp(0).is_fresh(at(102_100)));
    assert!(stamp(1).is_fresh(at(100_010)) && !stamp(1).is_fresh(at(100_900)));
    // A file server's clock may be ahead.
    assert!(stamp(1).is_fresh(at(99_990)) && !stamp(1).is_fresh(at(98_000)));
}
