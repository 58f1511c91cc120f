use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use carillon_core::{Bytes, NodeId};
use carillon_wire::file::{Packer, Record, RelativePath, SIGNED_HEADER_LEN, Signed, records};

use super::problem::Problem;
use super::signing::{Binding, Checks, Signer, Signing, Trust};
use super::signing_keys::{SigningKey, VerifyingKey};

/// The key of RFC 8032, Section 7.1, TEST 1, as OpenSSL writes it.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
";
const SENDER: NodeId = NodeId(1);
/// Nanoseconds since 1970.
const TIME: u64 = 1_800_000_000_000_000_000;
const BINDING: Binding =
    Binding { group: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)), 4567), job: [7; 16] };

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    file
}

fn key() -> SigningKey {
    SigningKey::read(file(PRIVATE).path()).expect("a key")
}

fn path(text: &str) -> RelativePath<'_> {
    RelativePath::new(text).expect("a path")
}

fn message(all: &[Record<'_>]) -> Bytes {
    let mut packer = Packer::new(1000);
    all.iter().for_each(|record| packer.push(record));
    packer.take()
}

/// A signed transfer of two files and a directory.
fn transfer(name: &str) -> Vec<Bytes> {
    let file = |index, path| Record::File { index, size: Some(3), mode: 0o644, modified: None, path };
    let end = |index| Record::EndOfFile { index, size: 3, digest: *blake3::hash(b"abc").as_bytes() };
    vec![
        message(&[Record::Offer { entries: 3, bytes: Some(6) }]),
        message(&[Record::Directory { index: 0, mode: 0o755, modified: None, path: path("d") }]),
        message(&[file(1, path(name))]),
        message(&[Record::Data { index: 1, offset: 0, bytes: b"abc" }]),
        message(&[end(1), file(2, path("b"))]),
        message(&[
            Record::Data { index: 2, offset: 0, bytes: b"abc" },
            end(2),
            Record::End { bytes: 6, listing: [0; 32] },
        ]),
    ]
}

fn signed(key: &SigningKey, name: &str) -> Vec<Bytes> {
    signed_at(key, name, TIME, BINDING)
}

fn signed_at(key: &SigningKey, name: &str, time: u64, binding: Binding) -> Vec<Bytes> {
    let mut signer = Signer::new(&Signing { key: key.clone(), time }, binding);
    transfer(name).into_iter().map(|message| signer.sign(message)).collect()
}

fn trusting(key: &SigningKey) -> Checks {
    trusting_with(key, None, false)
}

fn trusting_with(key: &SigningKey, history: Option<&Path>, allow_older: bool) -> Checks {
    let trust = Trust { keys: vec![key.verifying_key()], history: history.map(Path::to_owned), allow_older };
    let mut checks = Checks::new(trust, BINDING).expect("the history can be read");
    checks.begin(SENDER);
    checks
}

/// Number of messages accepted before the first refusal.
fn taken(checks: &mut Checks, messages: &[Bytes]) -> usize {
    messages.iter().take_while(|message| checks.check(SENDER, message).is_ok()).count()
}

#[test]
fn keys_are_those_of_rfc_8032_and_of_openssl() {
    let public = VerifyingKey::read(file(PUBLIC).path()).expect("a key");
    assert_eq!(key().verifying_key(), public);
    assert_eq!(public.to_string(), "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
    assert_eq!(public.to_string().parse(), Ok(public));
    assert!(!format!("{:?}", key()).contains("nWGxne"), "the private key is not printed");
    for (bad, says) in [("", "does not begin"), (&PRIVATE[..60], "does not end"), (PUBLIC, "does not begin")]
    {
        let error = SigningKey::read(file(bad).path()).expect_err("no key").to_string();
        assert!(error.contains(says) && error.contains("openssl genpkey -algorithm ed25519"), "{error}");
    }
    let error = VerifyingKey::read(file(PRIVATE).path()).expect_err("no key").to_string();
    assert!(error.contains("openssl pkey"), "{error}");
    assert!("11qY".parse::<VerifyingKey>().is_err());
}

#[test]
fn signed_transfer_is_accepted_with_the_same_content() {
    let (key, plain) = (key(), transfer("a"));
    let signed = signed(&key, "a");
    let mut checks = trusting(&key);
    assert_eq!(taken(&mut checks, &signed), 6);
    let by = checks.signature(SENDER).expect("a signature");
    assert_eq!((by.key, by.time), (key.verifying_key(), TIME));
    let needs: Vec<_> =
        signed.iter().map(|message| Signed::parse(message).expect("it parses").is_some()).collect();
    assert_eq!(needs, [false, true, true, false, true, true]);
    for (signed, plain) in signed.iter().zip(&plain) {
        assert!(
            records(signed)
                .map(|record| record.expect("a record"))
                .eq(records(plain).map(|r| r.expect("a record")))
        );
        assert!(signed.len() == plain.len() || signed.len() == plain.len() + SIGNED_HEADER_LEN);
    }
    // Without trusted keys everything is accepted.
    assert_eq!(taken(&mut Checks::default(), &plain), 6);
}

#[test]
fn unsigned_foreign_or_altered_transfers_are_refused() {
    let (key, right) = (key(), signed(&key(), "a"));
    assert_eq!(taken(&mut trusting(&key), &transfer("a")), 1, "the directory is not signed");
    // A second key, generated by OpenSSL.
    let other = SigningKey::read(file(OTHER_KEY).path()).expect("a key");
    assert_eq!(taken(&mut trusting(&key), &signed(&other, "a")), 1);
    // Both are trusted, but one transfer has one key, and one time.
    let keys = vec![key.verifying_key(), other.verifying_key()];
    let mut both = Checks::new(Trust { keys, ..Trust::default() }, BINDING).expect("no history");
    let mixed: Vec<_> = right[..4].iter().chain(&signed(&other, "a")[4..]).cloned().collect();
    assert_eq!(taken(&mut both, &mixed), 4);
    // Changes any byte of any signed message, omits it, repeats it, or replaces it by one of another transfer.
    // Without the last message the transfer is incomplete, which its end reports.
    for (at, rest) in [(1, 1), (2, 3), (4, 4), (5, 5)] {
        for byte in 0..right[at].len() {
            let mut bad = right.clone();
            let mut bytes = bad[at].to_vec();
            bytes[byte] ^= 1;
            bad[at] = bytes.into();
            let begins = matches!(records(&bad[at]).next(), Some(Ok(record)) if at == 5 && matches!(record, Record::Data { .. }));
            let count = taken(&mut trusting(&key), &bad);
            // The bytes of a file are covered by its digest.
            assert!(count <= at || (begins && count == 6), "byte {byte} of message {at}: {count}");
        }
        let mut less = right.clone();
        less.remove(at);
        assert_eq!(taken(&mut trusting(&key), &less), rest, "without message {at}");
        let mut twice = right.clone();
        twice.insert(at, right[at].clone());
        assert_eq!(taken(&mut trusting(&key), &twice), at + 1, "twice message {at}");
    }
    // A file with another name, or from an earlier transfer with other files.
    let elsewhere = signed(&key, "c");
    for at in 1..6 {
        let mixed: Vec<_> = right[..at].iter().chain(&elsewhere[at..]).cloned().collect();
        let expected = [6, 6, 6, 4, 4, 5][at];
        assert_eq!(taken(&mut trusting(&key), &mixed), expected, "from message {at} on another transfer");
    }
    // Without the wrapper, or with a nested one.
    let mut bare = right.clone();
    bare[1] = bare[1].slice(SIGNED_HEADER_LEN..);
    assert_eq!(taken(&mut trusting(&key), &bare), 1);
    let mut nested = Vec::new();
    let Ok(Some(outer)) = Signed::parse(&right[1]) else { panic!("it is signed") };
    Signed { message: &right[1], ..outer }.emit(&mut nested);
    assert!(trusting(&key).check(SENDER, &nested).is_err());
    assert!(records(&nested).any(|record| record.is_err()));
}

#[test]
fn a_signature_for_another_group_or_job_is_not_taken() {
    let key = key();
    for binding in [
        Binding { job: [8; 16], ..BINDING },
        Binding { group: "239.1.2.3:4568".parse().expect("an address"), ..BINDING },
        Binding { group: "239.1.2.4:4567".parse().expect("an address"), ..BINDING },
        Binding { group: "[ff02::1]:4567".parse().expect("an address"), ..BINDING },
    ] {
        let mut checks = trusting(&key);
        assert_eq!(taken(&mut checks, &signed_at(&key, "a", TIME, binding)), 1, "{binding:?}");
        assert!(checks.signature(SENDER).is_none(), "nothing of it was verified");
    }
}

#[test]
fn a_transfer_signed_before_an_accepted_one_is_refused() {
    let (key, directory) = (key(), tempfile::tempdir().expect("a directory"));
    let history = directory.path().join("accepted");
    let take = |name: &str, time, allow_older| {
        let messages = signed_at(&key, name, time, BINDING);
        taken(&mut trusting_with(&key, Some(&history), allow_older), &messages)
    };
    assert_eq!(take("a", TIME, false), 6, "the first");
    assert_eq!(take("a", TIME, false), 6, "a further session of its job");
    assert_eq!(take("a", TIME - 1, false), 1, "its directory is older");
    // Another transfer in which only the second file has a known name.
    let mut other = Signer::new(&Signing { key: key.clone(), time: TIME - 1 }, BINDING);
    let file = |index, name| Record::File { index, size: None, mode: 0, modified: None, path: path(name) };
    let messages = [message(&[file(0, "c")]), message(&[file(1, "b/deep")])].map(|bytes| other.sign(bytes));
    let mut checks = trusting_with(&key, Some(&history), false);
    assert!(checks.check(SENDER, &messages[0]).is_ok(), "its name is new");
    let problem = checks.check(SENDER, &messages[1]).expect_err("its name is not");
    let Problem::Transfer(text) = problem else { panic!("{problem:?}") };
    assert!(text.contains("b was signed 1799999999 s") && text.contains("--allow-older"), "{text}");
    // Older transfers are allowed here, and the newest time stays recorded.
    assert_eq!(take("a", TIME - 1, true), 6);
    assert_eq!(take("a", TIME - 1, false), 1);
    assert_eq!(take("a", TIME + 1, false), 6);
    assert_eq!(take("a", TIME, false), 1);
    // Another receiver has its own history.
    assert_eq!(taken(&mut trusting(&key), &signed_at(&key, "a", TIME - 1, BINDING)), 6);
}

/// Naming a trusted key without its owner's signature reports no signature.
#[test]
fn a_signature_is_reported_only_once_it_is_verified() {
    let (key, other) = (key(), SigningKey::read(file(OTHER_KEY).path()).expect("a key"));
    let mut messages = signed(&other, "a");
    let Ok(Some(forged)) = Signed::parse(&messages[1]) else { panic!("it is signed") };
    let mut bytes = Vec::new();
    Signed { key: *key.verifying_key().as_bytes(), ..forged }.emit(&mut bytes);
    messages[1] = bytes.into();
    let mut checks = trusting(&key);
    assert_eq!(taken(&mut checks, &messages), 1);
    assert_eq!(checks.signature(SENDER), None);
}

const OTHER_KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEICRFmErEA83cBcARrul9qqAC7RuefkCbPY9XkbCvXbBt
-----END PRIVATE KEY-----
";
