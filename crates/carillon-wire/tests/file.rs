//! File delivery records: golden bytes, round trips, paths that are refused, and bytes that are no
//! record.

use carillon_wire::ParseError;
use carillon_wire::file::{DATA_HEADER_LEN, Record, RelativePath};
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn golden(record: Record<'_>, bytes: &str, display: &str) {
    let mut emitted = Vec::new();
    record.emit(&mut emitted);
    assert_eq!(hex(&emitted), bytes.replace(' ', ""));
    assert_eq!(record.wire_len(), emitted.len());
    assert_eq!(Record::parse(&emitted), Ok(record));
    assert_eq!(record.to_string(), display);
}

#[test]
fn golden_bytes() {
    golden(
        Record::Offer { files: 2, bytes: Some(300) },
        "01 00000002 000000000000012c",
        "file offer files 2 bytes 300",
    );
    golden(
        Record::Offer { files: 1, bytes: None },
        "01 00000001 ffffffffffffffff",
        "file offer files 1 bytes unknown",
    );
    golden(
        Record::File { index: 1, size: Some(5), mode: 0o644, path: RelativePath::new("d/é").unwrap() },
        "02 00000001 0000000000000005 000001a4 642fc3a9",
        "file 1 begin size 5 mode 644 path \"d/é\"",
    );
    golden(
        Record::Data { index: 1, offset: 258, bytes: b"abc" },
        "03 00000001 0000000000000102 616263",
        "file 1 data offset 258 length 3",
    );
    golden(
        Record::EndOfFile { index: 1, size: 5, digest: [0xAB; 32] },
        &format!("04 00000001 0000000000000005 {}", "ab".repeat(32)),
        &format!("file 1 end size 5 digest {}", "ab".repeat(32)),
    );
    golden(Record::End { bytes: 300 }, "05 000000000000012c", "file transfer end bytes 300");
    golden(
        Record::Message { number: 258, bytes: b"abc" },
        "06 0000000000000102 616263",
        "stream message 258 length 3",
    );
    golden(Record::EndOfStream { messages: 3 }, "07 0000000000000003", "stream end messages 3");
}

#[test]
fn a_path_that_leaves_the_directory_is_refused() {
    for bad in
        ["", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", "a//b", "a/", ".", "a/./b", "a\\b", "a\0b"]
    {
        assert_eq!(RelativePath::new(bad), None, "{bad:?}");
        let mut message = vec![2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(bad.as_bytes());
        let refused = ParseError::Field { field: "path", value: bad.len() as u64 };
        assert_eq!(Record::parse(&message), Err(refused), "{bad:?}");
    }
    for good in ["a", "a/b/c", "...", ".hidden", "a b", "ü/..x", "-"] {
        assert_eq!(RelativePath::new(good).map(|path| path.as_str()), Some(good));
    }
    let long = "x".repeat(4097);
    assert!(RelativePath::new(&long[1..]).is_some());
    assert_eq!(RelativePath::new(&long), None);
    let not_text = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF];
    assert_eq!(Record::parse(&not_text), Err(ParseError::Field { field: "path", value: 1 }));
}

#[test]
fn modes_beyond_the_permissions_and_offsets_beyond_the_end_are_refused() {
    let mut message = Vec::new();
    let path = RelativePath::new("x").unwrap();
    // What a file system adds to the permissions is left out.
    Record::File { index: 0, size: None, mode: 0o104_755, path }.emit(&mut message);
    assert_eq!(Record::parse(&message), Ok(Record::File { index: 0, size: None, mode: 0o755, path }));
    message[15] |= 0x08;
    assert_eq!(Record::parse(&message), Err(ParseError::Field { field: "mode", value: 0o4755 }));
    message.clear();
    Record::Data { index: 0, offset: u64::MAX - 2, bytes: b"ab" }.emit(&mut message);
    assert!(matches!(Record::parse(&message), Err(ParseError::Field { field: "offset", .. })));
    message.pop();
    assert!(Record::parse(&message).is_ok());
}

#[test]
fn the_header_of_data_is_small() {
    assert_eq!(DATA_HEADER_LEN, 13);
    assert_eq!(Record::parse(&[3; 12]), Err(ParseError::Truncated { have: 12, need: 13 }));
    assert_eq!(Record::parse(&[]), Err(ParseError::Truncated { have: 0, need: 1 }));
    assert_eq!(Record::parse(&[9]), Err(ParseError::Type(9)));
}

fn canonical(message: &[u8]) {
    if let Ok(record) = Record::parse(message) {
        let mut again = Vec::new();
        record.emit(&mut again);
        assert_eq!(again, message);
        assert_eq!(record.wire_len(), message.len());
        assert!(!record.to_string().contains('\n'));
    }
}

proptest! {
    #[test]
    fn what_is_emitted_parses_to_itself(
        kind in 0usize..7,
        index: u32,
        size in 0..u64::MAX,
        known: bool,
        mode in 0u32..0o1000,
        path in "[a-z]{1,8}(/[a-zé.]{3,8}x){0,3}",
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        digest: [u8; 32],
    ) {
        let offset = size / 2;
        let path = RelativePath::new(&path).unwrap();
        let record = match kind {
            0 => Record::Offer { files: index, bytes: known.then_some(size) },
            1 => Record::File { index, size: known.then_some(size), mode, path },
            2 => Record::Data { index, offset, bytes: &bytes },
            3 => Record::EndOfFile { index, size, digest },
            4 => Record::Message { number: size, bytes: &bytes },
            5 => Record::EndOfStream { messages: size },
            _ => Record::End { bytes: size },
        };
        let mut message = Vec::new();
        record.emit(&mut message);
        prop_assert_eq!(Record::parse(&message), Ok(record));
        canonical(&message);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(
        record_type in 0u8..9, rest in proptest::collection::vec(any::<u8>(), 0..80)
    ) {
        canonical(&rest);
        canonical(&[&[record_type], &rest[..]].concat());
        // A file whose mode is good, so that its path is looked at.
        let head = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let text: Vec<u8> = rest.iter().map(|byte| byte & 0x7F).collect();
        canonical(&[&head[..], &text].concat());
    }
}
