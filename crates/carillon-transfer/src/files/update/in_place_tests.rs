//! Updates that change files in place.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use carillon_core::Seeds;
use carillon_testkit::sampling_step;
use carillon_wire::file::SUBTREE_BYTES;
use rustix::fs::{FallocateFlags, fallocate};

use super::Update;
use super::tests::{PART_LEN, Places, Updated, bytes, settle, tree, update_into};

fn update(source: &Path, out: &[&Path], options: Update) -> Updated {
    update_into(source, out, (options, true), usize::MAX, &mut |_| {})
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).expect("it is there")
}

/// Names of the files in a directory of a receiver.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A sender and receivers with the same image of this many parts.
fn places(parts: usize, receivers: &[&str]) -> Places {
    let places = Places::new();
    fs::write(places.source().join("image"), bytes("1", parts * PART_LEN)).expect("a file");
    settle();
    let out: Vec<_> = receivers.iter().map(|name| places.out(name)).collect();
    let out: Vec<&Path> = out.iter().map(|out| out.as_path()).collect();
    let first = update(&places.source(), &out, Update::default());
    assert!(first.results.iter().all(Result::is_ok), "{:?}", first.results);
    places
}

#[test]
fn file_in_place_keeps_its_inode_and_gets_the_missing_parts() {
    let places = places(6, &["a", "b"]);
    let (a, b) = (places.out("a"), places.out("b"));
    let inode = fs::metadata(a.join("site/image")).expect("it is there").ino();
    // A part differs, and zeros and a longer end are new.
    let image = open(&places.source().join("image"));
    image.write_all_at(b"changed", SUBTREE_BYTES + 5).expect("written");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&image, punch, 3 * SUBTREE_BYTES, SUBTREE_BYTES).expect("a hole");
    image.set_len(7 * SUBTREE_BYTES + 9).expect("it can be longer");
    image.set_permissions(fs::Permissions::from_mode(0o600)).expect("they can be set");
    settle();
    let done = update(&places.source(), &[&a, &b], Update::default());
    assert_eq!((done.results, done.partly_changed), (vec![Ok(()); 2], vec![Vec::new(); 2]));
    assert!(done.sent < 2 * PART_LEN, "{} bytes", done.sent);
    assert!(tree(&a.join("site")) == tree(&places.source()) && tree(&b) == tree(&a));
    let found = fs::metadata(a.join("site/image")).expect("it is there");
    assert_eq!(found.ino(), inode);
    assert!(found.blocks() * 512 < 6 * SUBTREE_BYTES, "zeros are holes");
    // A shorter file is cut.
    image.set_len(4 * SUBTREE_BYTES + 1).expect("it can be cut");
    settle();
    assert_eq!(update(&places.source(), &[&a], Update::default()).results, [Ok(())]);
    assert!(tree(&a.join("site")) == tree(&places.source()));
    assert_eq!((fs::metadata(a.join("site/image")).expect("it is there").ino()), inode);
    assert_eq!(names(&a.join("site")), ["image"]);
}

#[test]
fn interrupted_change_in_place_is_marked_and_repaired() {
    let places = places(6, &["a"]);
    let (a, old) = (places.out("a"), bytes("1", 6 * PART_LEN));
    let new = bytes("2", 6 * PART_LEN);
    fs::write(places.source().join("image"), &new).expect("a file");
    settle();
    let messages = 3 * PART_LEN / 1380;
    let cut = update_into(&places.source(), &[&a], (Update::default(), true), messages, &mut |_| {});
    assert_eq!(cut.results, [Err("cut".to_owned())]);
    assert_eq!(cut.partly_changed, [[b"site/image".to_vec()]]);
    let image = a.join("site/image");
    let half = fs::read(&image).expect("it is there");
    assert!(half != old && half != new && half.len() == old.len());
    let left = names(&a.join("site"));
    assert!(left.len() == 2 && left[0].starts_with(".image.changing.carillon-"), "{left:?}");
    // Neither the time of the new version nor another transfer hides it.
    let modified = fs::metadata(places.source().join("image")).and_then(|found| found.modified());
    open(&image).set_modified(modified.expect("a time")).expect("it can be set");
    fs::create_dir(places.out("other")).expect("a directory");
    fs::write(places.out("other").join("f"), b"another job").expect("a file");
    settle();
    let other = update(&places.out("other"), &[&a], Update::default());
    assert_eq!((other.results, other.partly_changed), (vec![Ok(())], vec![vec![b"site/image".to_vec()]]));
    let again = update(&places.source(), &[&a], Update::default());
    assert_eq!((again.results, again.partly_changed), (vec![Ok(())], vec![Vec::new()]));
    assert!((2 * PART_LEN..5 * PART_LEN).contains(&again.sent), "{} bytes", again.sent);
    assert!(fs::read(&image).expect("it is there") == new);
    assert_eq!(names(&a.join("site")), ["image"]);
}

/// A partly changed file that is replaced, beside or by hand, is no longer marked.
#[test]
fn marker_of_a_replaced_file_says_nothing() {
    for by_hand in [false, true] {
        let places = places(2, &["a"]);
        let a = places.out("a");
        fs::write(places.source().join("image"), bytes("2", 2 * PART_LEN)).expect("a file");
        settle();
        let cut = update_into(&places.source(), &[&a], (Update::default(), true), 500, &mut |_| {});
        assert_eq!(cut.partly_changed[0].len(), 1);
        if by_hand {
            fs::copy(places.source().join("image"), a.join("copy")).expect("a copy");
            fs::rename(a.join("copy"), a.join("site/image")).expect("it is replaced");
        }
        let done = update_into(&places.source(), &[&a], (Update::default(), false), usize::MAX, &mut |_| {});
        assert_eq!((done.results, done.partly_changed), (vec![Ok(())], vec![Vec::new()]), "{by_hand}");
        assert_eq!(names(&a.join("site")), ["image"], "{by_hand}");
    }
}

/// Other names of the file, links, and bits that give rights are no business of a sender.
#[test]
fn unfit_files_are_replaced_beside() {
    let places = places(2, &["a"]);
    let (a, image) = (places.out("a"), places.out("a").join("site/image"));
    let old = bytes("1", 2 * PART_LEN);
    for case in ["hard link", "symbolic link", "set-user-id"] {
        fs::write(places.source().join("image"), bytes(case, 2 * PART_LEN)).expect("a file");
        settle();
        let other = places.out("other");
        let _ = fs::remove_file(&other);
        fs::write(&image, &old).expect("a file");
        match case {
            "hard link" => fs::hard_link(&image, &other).expect("a link"),
            "symbolic link" => {
                fs::rename(&image, &other).expect("it is moved");
                std::os::unix::fs::symlink(&other, &image).expect("a link");
            }
            _ => {
                fs::set_permissions(&image, fs::Permissions::from_mode(0o4755)).expect("they can be set");
                fs::hard_link(&image, &other).expect("a link");
            }
        }
        assert_eq!(update(&places.source(), &[&a], Update::default()).results, [Ok(())], "{case}");
        assert!(fs::read(&other).expect("it stays") == old, "{case}");
        assert!(tree(&a.join("site")) == tree(&places.source()), "{case}");
    }
}

#[test]
fn file_that_another_program_has_locked_is_not_changed() {
    let places = places(2, &["a"]);
    let a = places.out("a");
    fs::write(places.source().join("image"), bytes("2", 2 * PART_LEN)).expect("a file");
    fs::write(places.source().join("other"), b"is stored").expect("a file");
    settle();
    let file = open(&a.join("site/image"));
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    let done = update(&places.source(), &[&a], Update::default());
    let reason = done.results[0].as_ref().expect_err("it is locked");
    assert!(
        reason.contains("site/image cannot be changed in place: another program has locked it"),
        "{reason}"
    );
    assert!(fs::read(a.join("site/image")).expect("it stays") == bytes("1", 2 * PART_LEN));
    assert_eq!(
        (done.partly_changed, names(&a.join("site"))),
        (vec![Vec::new()], vec!["image".into(), "other".into()])
    );
}

/// Random changes at both ends, cut at random points: the next update makes both equal, and until then the file that is
/// neither old nor new is named.
#[test]
fn random_images_are_equal_after_cuts() {
    let (mut cut, mut marked) = (0, 0);
    let cases = 24 / sampling_step(3) as u64;
    for case in 0..cases {
        let mut rng = Seeds::new(case).stream("in place");
        let places = places(3, &["a"]);
        let (a, image) = (places.out("a"), places.source().join("image"));
        for path in [&image, &a.join("site/image")] {
            let file = open(path);
            let len = SUBTREE_BYTES + rng.below(3 * SUBTREE_BYTES);
            file.set_len(len).expect("it can be cut");
            for _ in 0..rng.below(4) {
                let piece = match rng.chance(0.5) {
                    true => vec![0; 700_000],
                    false => bytes(&rng.bits().to_string(), 300_000),
                };
                file.write_all_at(&piece, rng.below(len)).expect("written");
            }
        }
        settle();
        let options = Update { checksum: rng.chance(0.3), ..Update::default() };
        let before = fs::read(a.join("site/image")).expect("it is there");
        for _ in 0..rng.below(3) {
            let messages = rng.below(9000) as usize;
            let done = update_into(&places.source(), &[&a], (options, true), messages, &mut |_| {});
            cut += u64::from(done.results[0].is_err());
            let now = fs::read(a.join("site/image")).expect("it is there");
            let is_whole = now == before || now == fs::read(&image).expect("it is there");
            assert!(is_whole || done.partly_changed == [[b"site/image".to_vec()]], "case {case}");
            marked += done.partly_changed[0].len();
        }
        let done = update_into(&places.source(), &[&a], (options, rng.chance(0.7)), usize::MAX, &mut |_| {});
        assert_eq!((done.results, done.partly_changed), (vec![Ok(())], vec![Vec::new()]), "case {case}");
        assert!(tree(&a.join("site")) == tree(&places.source()), "case {case}");
        assert_eq!(names(&a.join("site")), ["image"], "case {case}");
    }
    assert!(cut >= cases / 4 && marked >= cases as usize / 8, "{cut} cut, {marked} marked");
}
