//! Archives from hostile senders.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use carillon_wire::file::archive::{Archive, Class, Special, SpecialKind};
use carillon_wire::file::{Record, RelativePath};

use super::super::intake::{Intake, Sink};
use super::super::listing::Listing;
use super::super::target::Target;
use super::Accepted;

/// Receives an archive of these directories.
fn receive(out: &Path, accepts: Accepted, table: &Archive, directories: &[&str]) -> Result<(), String> {
    let mut sink = Sink::Files(Target::directory(out, true).expect("a directory"));
    sink.accept_archives(accepts);
    let mut bytes = Vec::new();
    table.emit(&mut bytes);
    let mut records = vec![Record::Archive { offset: 0, total: bytes.len() as u32, bytes: &bytes }];
    records.extend(directories.iter().enumerate().map(|(index, name)| Record::Directory {
        index: index as u32,
        mode: 0o755,
        modified: None,
        path: RelativePath::new(name).expect("it is valid"),
    }));
    let mut listing = Listing::default();
    records.iter().for_each(|record| listing.add(record));
    records.insert(0, Record::Offer { entries: directories.len() as u32, bytes: Some(0) });
    records.push(Record::End { bytes: 0, listing: listing.digest() });
    let mut intake = Intake::new("s".to_owned(), None, false);
    for record in records {
        let mut message = Vec::new();
        record.emit(&mut message);
        if let Err(error) = intake.take(&message, &mut sink) {
            return Err(error.to_string());
        }
    }
    intake.result().cloned().expect("it has ended")
}

fn table(classes: &[Class], entries: u32, specials: &[(&str, SpecialKind)]) -> Archive {
    let specials = specials.iter().map(|(name, kind)| Special {
        name: name.as_bytes().to_vec(),
        class: 0,
        modified: None,
        kind: kind.clone(),
    });
    Archive {
        classes: classes.to_vec(),
        runs: vec![(entries, 0)],
        links: Vec::new(),
        specials: specials.collect(),
    }
}

/// A class of this process with these permission bits.
fn own(mode: u32) -> Class {
    let probe = tempfile::tempfile().and_then(|file| file.metadata()).expect("a file");
    Class { user: probe.uid(), group: probe.gid(), mode, attributes: Vec::new() }
}

#[test]
fn no_entry_goes_through_a_link_of_the_archive() {
    let place = tempfile::tempdir().expect("a directory");
    let (out, outside) = (place.path().join("out"), place.path().join("outside"));
    fs::create_dir(&outside).expect("a directory");
    let before = fs::metadata(&outside).expect("it is there");
    let link = SpecialKind::Link(outside.to_str().expect("it is text").as_bytes().to_vec());
    for below in [SpecialKind::Fifo, SpecialKind::Link(b"x".to_vec())] {
        let table = table(&[own(0o755)], 1, &[("d/l", link.clone()), ("d/l/x", below)]);
        let error = receive(&out, Accepted::Privileged, &table, &["d"]).expect_err("it leads out");
        assert!(error.contains("is not a directory: nothing is written through it"), "{error}");
    }
    assert_eq!(fs::read_link(out.join("d/l")).expect("a link"), outside);
    // The link is there in the next transfer.
    let table = table(&[own(0o755)], 2, &[]);
    let error = receive(&out, Accepted::Privileged, &table, &["d", "d/l"]).expect_err("it leads out");
    assert!(error.contains("nothing is written through it"), "{error}");
    assert_eq!(fs::read_dir(&outside).expect("a directory").count(), 0);
    let after = fs::metadata(&outside).expect("it is there");
    assert_eq!((after.mode(), after.ctime_nsec()), (before.mode(), before.ctime_nsec()));
}

#[test]
fn archive_is_refused_without_consent_and_if_it_is_damaged() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("out");
    let whole = table(&[own(0o700)], 1, &[]);
    let error = receive(&out, Accepted::Nothing, &whole, &["d"]).expect_err("nothing is accepted");
    assert!(error.contains("may not set owners"), "{error}");
    let short = table(&[own(0o700)], 0, &[]);
    let error = receive(&out, Accepted::Ordinary, &short, &["d"]).expect_err("an entry has no class");
    assert!(error.contains("table of the archive is damaged"), "{error}");
    let no_file = table(&[own(0o700)], 1, &[("h", SpecialKind::HardLink(0))]);
    let error = receive(&out, Accepted::Ordinary, &no_file, &["d"]).expect_err("a directory has one name");
    assert!(error.contains("h is a link to no file"), "{error}");
    let part = table(&[own(0o700)], 1, &[(".x.carillon-0123456789abcdef.part", SpecialKind::Fifo)]);
    let error = receive(&out, Accepted::Ordinary, &part, &["d"]).expect_err("it is a temporary name");
    assert!(error.contains("name of a temporary file"), "{error}");
    assert_eq!(receive(&out, Accepted::Ordinary, &whole, &["d"]), Ok(()));
    assert_eq!(fs::metadata(out.join("d")).expect("it is there").mode() & 0o7777, 0o700);
}

#[test]
fn device_needs_more_consent() {
    let place = tempfile::tempdir().expect("a directory");
    let device = table(&[own(0o700)], 1, &[("d/null", SpecialKind::CharacterDevice(1, 3))]);
    let error = receive(place.path(), Accepted::Ordinary, &device, &["d"]).expect_err("a device");
    assert!(error.contains("d/null is a device"), "{error}");
    assert!(!place.path().join("d/null").exists());
}
