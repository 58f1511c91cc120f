//! Golden bytes of a wire version, which never change.
//!
//! A file of vectors has one line for each golden packet of a part of the wire: its name and its bytes in hexadecimal
//! digits. [`assert_wire_vectors`] compares it with the current code. Packets may be added under the same wire
//! version, as its earlier releases need not understand them; none may change or disappear.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Asserts that these packets, by name, are those in the vectors of a wire version.
///
/// With `CARILLON_BLESS` set, new packets are added to the file.
#[track_caller]
pub fn assert_wire_vectors(directory: &Path, part: &str, wire: u16, packets: &BTreeMap<String, Vec<u8>>) {
    assert!(!packets.is_empty(), "{part} has no packets");
    let path = directory.join(format!("wire-{wire}-{part}.txt"));
    let there = fs::read_to_string(&path).unwrap_or_default();
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    for line in there.lines() {
        let (name, hex) = line.rsplit_once(' ').expect("a name and its bytes");
        lines.insert(name.to_owned(), hex.to_owned());
    }
    let now: BTreeMap<String, String> =
        packets.iter().map(|(name, bytes)| (name.clone(), hex(bytes))).collect();
    // Recorded packets must neither change nor disappear.
    for (name, hex) in &lines {
        assert_eq!(
            now.get(name),
            Some(hex),
            "the bytes of `{name}` are not those of wire version {wire}: a release of that version cannot read them. Raise \
             WIRE_VERSION in crates/carillon-wire/src/session/opening.rs, or leave the format as it is and add an extension"
        );
    }
    // New packets need a blessing.
    let new = now.keys().filter(|name| !lines.contains_key(*name)).count();
    if new > 0 && std::env::var_os("CARILLON_BLESS").is_some() {
        let text: String = now.iter().map(|(name, hex)| format!("{name} {hex}\n")).collect();
        fs::create_dir_all(directory).expect("a directory of vectors");
        return fs::write(&path, text).expect("a file of vectors");
    }
    assert_eq!(new, 0, "{} lacks {new} packets: run this test with CARILLON_BLESS=1", path.display());
}

/// Text of a file of vectors; with `CARILLON_BLESS` set, a missing file is recorded first.
#[track_caller]
pub fn recorded(path: &Path, record: impl FnOnce() -> String) -> String {
    if !path.exists() && std::env::var_os("CARILLON_BLESS").is_some() {
        fs::write(path, record()).expect("a file of vectors");
    }
    let read = fs::read_to_string(path);
    read.unwrap_or_else(|error| panic!("{}: {error}: CARILLON_BLESS=1 records it", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
