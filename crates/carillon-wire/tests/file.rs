//! File delivery records: golden bytes, round trips, refused paths, and arbitrary bytes.

mod golden;

use carillon_wire::ParseError;
use carillon_wire::file::archive::{Archive, Class, Special, SpecialKind};
use carillon_wire::file::{
    DATA_HEADER_LEN, FILE_HEADER_LEN, HOLE_MAX, MESSAGE_HEADER_LEN, PACK_HEADER_LEN, PACK_RECORD_LEN,
    PIECE_HEADER_LEN, Packer, Record, RelativePath, ResumePoint, SUBTREE_BYTES, Sessions, WithdrawReason,
    link_stays_below, records, stream_records,
};
use proptest::prelude::*;

pub use golden::each_golden;

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
    each_golden(&mut golden);
}

#[test]
fn a_pack_has_its_records_one_after_the_other() {
    let mut packer = Packer::new(40);
    assert!(packer.is_empty());
    assert_eq!(packer.room(), 40);
    packer.push(&Record::Data { index: 1, offset: 2, bytes: b"ab" });
    assert_eq!(packer.room(), 40 - 1 - 2 - 15 - 2);
    packer.push(&Record::EndOfStream { messages: 4 });
    let message = packer.take();
    assert_eq!(
        hex(&message),
        "0b 000f 03 00000001 0000000000000002 6162 0009 07 0000000000000004".replace(' ', "")
    );
    let two = [Record::Data { index: 1, offset: 2, bytes: b"ab" }, Record::EndOfStream { messages: 4 }];
    assert_eq!(records(&message).collect::<Result<Vec<_>, _>>(), Ok(two.to_vec()));
    // A single record needs no pack.
    assert!(packer.is_empty());
    packer.push(&Record::EndOfStream { messages: 4 });
    let message = packer.take();
    assert_eq!(hex(&message), "070000000000000004");
    assert_eq!(records(&message).collect::<Vec<_>>(), [Ok(Record::EndOfStream { messages: 4 })]);
}

#[test]
fn messages_of_a_live_stream_go_many_to_a_pack() {
    let mut packer = Packer::new(100);
    let three = [
        Record::Message { number: 0, bytes: b"" },
        Record::Message { number: 1, bytes: b"ab" },
        Record::EndOfStream { messages: 2 },
    ];
    three.iter().for_each(|record| packer.push(record));
    let message = packer.take();
    assert_eq!(
        hex(&message),
        "0b 0009 06 0000000000000000 000b 06 0000000000000001 6162 0009 07 0000000000000002".replace(' ', "")
    );
    assert_eq!(records(&message).collect::<Result<Vec<_>, _>>(), Ok(three.to_vec()));
}

#[test]
fn a_record_too_long_for_a_pack_is_alone() {
    let mut packer = Packer::new(100_000);
    let bytes = vec![7; 66_000];
    packer.push(&Record::Data { index: 1, offset: 0, bytes: &bytes });
    assert_eq!(packer.room(), 0);
    let message = packer.take();
    let record = Record::Data { index: 1, offset: 0, bytes: &bytes };
    assert_eq!(records(&message).collect::<Vec<_>>(), [Ok(record)]);
    assert_eq!(packer.room(), 100_000);
}

#[test]
fn pack_iteration_stops_at_the_first_error() {
    let end = [0, 9, 7, 0, 0, 0, 0, 0, 0, 0, 4];
    let number = |value| Err(ParseError::Field { field: "records in a pack", value });
    assert_eq!(records(&[11]).collect::<Vec<_>>(), [number(0)]);
    assert_eq!(
        records(&[&[11], &end[..]].concat()).collect::<Vec<_>>(),
        [Ok(Record::EndOfStream { messages: 4 }), number(1)]
    );
    let twice = [&end[..], &end].concat();
    let good = |bytes: &[u8]| records(bytes).take_while(Result::is_ok).count();
    assert_eq!(good(&[&[11], &twice[..]].concat()), 2);
    for (bad, before) in [
        // A record without its length, and one that is longer than the message.
        (&[0][..], 2),
        (&[0, 14, 5, 0], 2),
        // No record, a nested pack, and a message without its number.
        (&[0, 0], 2),
        (&[0, 1, 11], 2),
        (&[0, 8, 6, 0, 0, 0, 0, 0, 0, 0], 2),
        (&[0, 8, 12, 0, 0, 0, 0, 0, 0, 0], 2),
    ] {
        let after = if bad.len() < 2 { &[] } else { &end[..] };
        let message = [&[11], &twice[..], bad, after].concat();
        let found: Vec<_> = records(&message).collect();
        assert_eq!(good(&message), before, "{bad:?}");
        assert_eq!(found.len(), before + 1, "nothing comes after an error: {bad:?}");
    }
    assert_eq!(records(&[]).collect::<Vec<_>>(), [Err(ParseError::Truncated { have: 0, need: 1 })]);
}

#[test]
fn links_stay_below_whatever_other_links_do() {
    let stays = |path, target| link_stays_below(&RelativePath::new(path).unwrap(), target);
    for (path, target) in [
        ("l", "x"),
        ("l", "x/y"),
        ("l", "."),
        ("l", "./x"),
        ("a/l", ".."),
        ("a/l", "../x"),
        ("a/b/l", "../../x/y"),
        ("a/l", "...//x"),
    ] {
        assert!(stays(path, target), "{path} -> {target}");
    }
    for (path, target) in [
        ("l", "/etc/passwd"),
        ("l", "/"),
        ("l", ".."),
        ("l", "../x"),
        ("a/l", "../../x"),
        // `x` may be a link to a directory with fewer directories above it.
        ("a/b/l", "x/../y"),
        ("a/b/l", "../x/.."),
        ("a/b/l", "./../x"),
        ("a/b/l", "..//../x/../../.."),
    ] {
        assert!(!stays(path, target), "{path} -> {target}");
    }
}

#[test]
fn links_and_reasons_that_cannot_be_are_refused() {
    let link = |target: &[u8]| {
        let mut message = vec![9, 0, 0, 0, 0];
        message.extend_from_slice(&(target.len() as u16).to_be_bytes());
        message.extend_from_slice(target);
        message.push(b'l');
        Record::parse(&message).map(|_| ())
    };
    assert_eq!(link(&[b'x'; 4095]), Ok(()));
    assert_eq!(link(b"\xFF"), Ok(()), "a target is bytes");
    for bad in [&b""[..], &[b'x'; 4096], b"a\0b"] {
        let value = bad.len() as u64;
        assert_eq!(link(bad), Err(ParseError::Field { field: "link target", value }));
    }
    assert_eq!(Record::parse(&[9, 0, 0, 0, 0, 0, 2, b'x']), Err(ParseError::Truncated { have: 8, need: 9 }));
    assert_eq!(Record::parse(&[10, 0, 0, 0, 0, 3]), Err(ParseError::Field { field: "reason", value: 3 }));
}

/// FILE up to its path.
fn file_begins() -> [u8; FILE_HEADER_LEN] {
    let mut bytes = [0; FILE_HEADER_LEN];
    bytes[0] = 2;
    bytes
}

#[test]
fn a_path_that_leaves_the_directory_is_refused() {
    for bad in ["", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", "a//b", "a/", ".", "a/./b", "a\0b"] {
        assert_eq!(RelativePath::new(bad), None, "{bad:?}");
        let message = [&file_begins()[..], bad.as_bytes()].concat();
        let refused = ParseError::Field { field: "path", value: bad.len() as u64 };
        assert_eq!(Record::parse(&message), Err(refused), "{bad:?}");
    }
    let names = ["a", "a/b/c", "...", ".hidden", "a b", "ü/..x", "-", "a\\b", "\\", "a\\..\\b", "a\nb", "C:"];
    let names = names.map(str::as_bytes);
    for good in names.into_iter().chain([&b"\xFF"[..], b"caf\xe9/x", b"\xED\xA0\x80"]) {
        assert_eq!(RelativePath::new(good).map(|path| path.as_bytes()), Some(good));
        let message = [&file_begins()[..], good].concat();
        let parsed = Record::parse(&message);
        assert!(matches!(parsed, Ok(Record::File { path, .. }) if path.as_bytes() == good), "{good:?}");
    }
    // Longest names and paths of file systems, and the deepest directory for which receivers have handles.
    let name = "x".repeat(256);
    assert!(RelativePath::new(&name[1..]).is_some());
    assert_eq!(RelativePath::new(&name), None);
    let long = ["x".repeat(200).as_str(); 21].join("/");
    assert!(RelativePath::new(&long[..4096]).is_some());
    assert_eq!(RelativePath::new(&long[..4097]), None);
    assert!(RelativePath::new(&["x"; 128].join("/")).is_some());
    assert_eq!(RelativePath::new(&["x"; 129].join("/")), None);
    // Logs escape bytes that are not text and characters that act on a terminal.
    let odd = [&file_begins()[..], b"caf\xe9\n\\x"].concat();
    let line = Record::parse(&odd).map(|record| record.to_string());
    assert!(line.as_ref().is_ok_and(|line| line.ends_with("path \"caf\\xe9\\n\\\\x\"")), "{line:?}");
}

#[test]
fn invalid_modes_and_offsets_are_refused() {
    let mut message = Vec::new();
    let path = RelativePath::new("x").unwrap();
    // Bits that a file system adds to the permissions are left out.
    Record::File { index: 0, size: None, mode: 0o104_755, modified: None, path }.emit(&mut message);
    assert_eq!(
        Record::parse(&message),
        Ok(Record::File { index: 0, size: None, mode: 0o755, modified: None, path })
    );
    message[15] |= 0x08;
    assert_eq!(Record::parse(&message), Err(ParseError::Field { field: "mode", value: 0o4755 }));
    message.clear();
    Record::Data { index: 0, offset: u64::MAX - 2, bytes: b"ab" }.emit(&mut message);
    assert!(matches!(Record::parse(&message), Err(ParseError::Field { field: "offset", .. })));
    message.pop();
    assert!(Record::parse(&message).is_ok());
    let hole = |offset, len| {
        let mut message = Vec::new();
        Record::Hole { index: 0, offset, len }.emit(&mut message);
        Record::parse(&message).map(|_| ())
    };
    assert_eq!((hole(0, 1), hole(u64::MAX - 1 - HOLE_MAX, HOLE_MAX)), (Ok(()), Ok(())));
    for len in [0, HOLE_MAX + 1, u64::MAX] {
        assert_eq!(hole(0, len), Err(ParseError::Field { field: "length", value: len }));
    }
    for offset in [u64::MAX - HOLE_MAX, u64::MAX] {
        assert_eq!(hole(offset, HOLE_MAX), Err(ParseError::Field { field: "offset", value: offset }));
    }
}

#[test]
fn subtrees_end_at_multiples_of_their_length() {
    let subtree = |end| {
        let mut message = Vec::new();
        Record::Subtree { index: 0, end, value: [7; 32] }.emit(&mut message);
        Record::parse(&message).map(|_| ())
    };
    assert_eq!((subtree(SUBTREE_BYTES), subtree(u64::MAX - SUBTREE_BYTES + 1)), (Ok(()), Ok(())));
    for end in [0, 1, SUBTREE_BYTES - 1, SUBTREE_BYTES + 1, u64::MAX] {
        assert_eq!(subtree(end), Err(ParseError::Field { field: "end", value: end }));
    }
}

#[test]
fn invalid_spans_are_refused() {
    let span = |offset, step, count, sessions: usize| {
        let sessions = vec![7; sessions];
        let mut message = Vec::new();
        let one = Sessions::new(&[7; 4]).unwrap();
        Record::Span { index: 0, offset, step, count, sessions: one }.emit(&mut message);
        message.truncate(message.len() - 4);
        message.extend(sessions);
        Record::parse(&message).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!((span(0, 1, 1, 4), span(u64::MAX - 7, 2, 3, 32)), (Ok(()), Ok(())));
    for (offset, step, count, sessions) in
        [(0, 0, 1, 4), (0, 1, 0, 4), (u64::MAX - 5, 2, 3, 4), (0, 1, 1, 0), (0, 1, 1, 5), (0, 1, 1, 36)]
    {
        assert!(span(offset, step, count, sessions).is_err(), "{offset} {step} {count} {sessions}");
    }
}

#[test]
fn pieces_of_no_bytes_or_beyond_their_message_are_refused() {
    let piece = |offset, len, bytes: &[u8]| {
        let mut message = Vec::new();
        Record::Piece { number: 0, offset, len, bytes }.emit(&mut message);
        Record::parse(&message).map(|_| ())
    };
    assert_eq!((piece(2, 4, b"ab"), piece(u32::MAX - 2, u32::MAX, b"ab")), (Ok(()), Ok(())));
    for (offset, len, bytes) in [(0, 0, &b""[..]), (2, 4, b""), (3, 4, b"ab"), (u32::MAX, u32::MAX, b"a")] {
        assert_eq!(piece(offset, len, bytes), Err(ParseError::Field { field: "length", value: len.into() }));
    }
}

#[test]
fn a_live_message_is_one_record_or_pieces_that_make_it() {
    let message: Vec<u8> = (0..100).collect();
    for most in [0, 1, PIECE_HEADER_LEN + 1, 64, MESSAGE_HEADER_LEN + 99, MESSAGE_HEADER_LEN + 100, 500] {
        let all: Vec<Record<'_>> = stream_records(7, &message, most).collect();
        if most >= MESSAGE_HEADER_LEN + 100 {
            assert_eq!(all, [Record::Message { number: 7, bytes: &message }]);
            continue;
        }
        let mut whole = Vec::new();
        for record in all {
            assert!(record.wire_len() <= most.max(PIECE_HEADER_LEN + 1));
            let Record::Piece { number: 7, offset, len: 100, bytes } = record else { panic!("{record}") };
            assert_eq!(offset as usize, whole.len());
            whole.extend_from_slice(bytes);
        }
        assert_eq!(whole, message);
    }
    assert_eq!(stream_records(3, b"", 0).collect::<Vec<_>>(), [Record::Message { number: 3, bytes: b"" }]);
}

#[test]
fn the_header_of_data_is_small() {
    assert_eq!(DATA_HEADER_LEN, 13);
    assert_eq!(Record::parse(&[3; 12]), Err(ParseError::Truncated { have: 12, need: 13 }));
    assert_eq!(Record::parse(&[]), Err(ParseError::Truncated { have: 0, need: 1 }));
    assert_eq!(Record::parse(&[15]), Err(ParseError::Type(15)));
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

/// A table with all kinds of entries.
fn table() -> Archive {
    let special = |name: &str, kind| Special { name: name.into(), class: 1, modified: Some(-3), kind };
    Archive {
        classes: vec![
            Class::default(),
            Class {
                user: 1000,
                group: 7,
                mode: 0o6755,
                attributes: vec![(b"user.a".to_vec(), b"v".to_vec()), (b"user.b".to_vec(), Vec::new())],
            },
        ],
        runs: vec![(3, 1), (1, 0)],
        links: vec![(2, None), (3, Some(5))],
        specials: vec![
            special("d/h", SpecialKind::HardLink(1)),
            special("l", SpecialKind::Link(b"/etc/passwd".to_vec())),
            special("p", SpecialKind::Fifo),
            special("c", SpecialKind::CharacterDevice(1, 3)),
            special("b", SpecialKind::BlockDevice(8, 1)),
        ],
    }
}

#[test]
fn table_of_an_archive_parses_back_and_refuses_what_cannot_be() {
    let (table, mut bytes) = (table(), Vec::new());
    table.emit(&mut bytes);
    assert_eq!(Archive::parse(&bytes), Ok(table.clone()));
    for len in 0..bytes.len() {
        assert!(Archive::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
    let refused = |change: &dyn Fn(&mut Archive)| {
        let (mut changed, mut bytes) = (table.clone(), Vec::new());
        change(&mut changed);
        changed.emit(&mut bytes);
        Archive::parse(&bytes).is_err()
    };
    assert!(refused(&|table| table.specials[0].name = b"../h".to_vec()), "a path that leads out");
    assert!(refused(&|table| table.specials[0].class = 2), "a class that is not there");
    assert!(refused(&|table| table.runs[0].1 = 2), "a class that is not there");
    assert!(refused(&|table| table.classes[0].user = u32::MAX), "no owner");
    assert!(refused(&|table| table.classes[1].attributes[0].0.clear()), "an attribute without a name");
    assert!(refused(&|table| table.specials[1].kind = SpecialKind::Link(Vec::new())), "no target");
}

proptest! {
    #[test]
    fn emitted_records_parse_back(
        kind in 0usize..17,
        target in "[a-z./]{1,30}",
        index: u32,
        size in 0..u64::MAX,
        known: bool,
        mode in 0u32..0o1000,
        modified in proptest::option::of(-i64::MAX..),
        path in "[a-z]{1,8}(/[a-zé.]{3,8}x){0,3}",
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        digest: [u8; 32],
    ) {
        let offset = size / 2;
        let path = RelativePath::new(&path).unwrap();
        let record = match kind {
            0 => Record::Offer { entries: index, bytes: known.then_some(size) },
            1 => Record::File { index, size: known.then_some(size), mode, modified, path },
            2 => Record::Data { index, offset, bytes: &bytes },
            3 => Record::EndOfFile { index, size, digest },
            4 => Record::Message { number: size, bytes: &bytes },
            5 => Record::EndOfStream { messages: size },
            9 if !bytes.is_empty() => {
                let (offset, len) = (index / 2, bytes.len() as u32);
                Record::Piece { number: size, offset, len: offset + len + u32::from(known), bytes: &bytes }
            }
            6 => Record::Directory { index, mode, modified, path },
            7 => Record::Link { index, target: target.as_bytes(), path },
            8 => Record::Withdraw { index, reason: WithdrawReason::Changed },
            11 => Record::Resume(ResumePoint { transfer: digest[..16].try_into().unwrap(), entry: index, offset }),
            12 => Record::Kept { index },
            14 => {
                let sessions = Sessions::new(&digest[..4 * (1 + usize::from(known))]).unwrap();
                Record::Span { index, offset, step: 1 + mode, count: 1 + mode, sessions }
            }
            15 => Record::Subtree { index, end: (1 + size % 1000) * SUBTREE_BYTES, value: digest },
            13 => Record::Hole { index, offset, len: 1 + size % HOLE_MAX },
            _ => Record::End { bytes: size, listing: digest },
        };
        let mut message = Vec::new();
        record.emit(&mut message);
        prop_assert_eq!(Record::parse(&message), Ok(record));
        canonical(&message);
    }

    #[test]
    fn changed_tables_parse_to_what_they_emit(at: usize, byte: u8, cut: usize) {
        let mut bytes = Vec::new();
        table().emit(&mut bytes);
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut % 4);
        if let Ok(table) = Archive::parse(&bytes) {
            let mut again = Vec::new();
            table.emit(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(
        record_type in 0u8..26, rest in proptest::collection::vec(any::<u8>(), 0..80)
    ) {
        canonical(&rest);
        canonical(&[&[record_type], &rest[..]].concat());
        // A file with a valid mode, so that its path is parsed.
        let text: Vec<u8> = rest.iter().map(|byte| byte & 0x7F).collect();
        canonical(&[&file_begins()[..], &text].concat());
    }
}

#[test]
fn data_filled_in_place_equals_pushed_data() {
    let (mut copied, mut written) = (Packer::new(40_000), Packer::new(40_000));
    // The second message reuses the buffer of the first, and the third is shorter.
    for (byte, len) in [(1u8, 20_000), (2, 30_000), (3, 16_400), (4, 30_000)] {
        for index in 0..1 + u32::from(byte % 2) {
            let bytes = vec![byte + 10 * index as u8; len / (1 + index as usize)];
            copied.push(&Record::Data { index, offset: 7, bytes: &bytes });
            let room = written.room();
            assert_eq!(written.push_data(index, 7, bytes.len(), |_| Err("no")), Err("no"));
            assert_eq!((written.room(), written.is_empty()), (room, index == 0), "nothing was put in");
            let done: Result<(), ()> = written.push_data(index, 7, bytes.len(), |into| {
                into.copy_from_slice(&bytes);
                Ok(())
            });
            assert_eq!(done, Ok(()));
        }
        let end = Record::End { bytes: len as u64, listing: [7; 32] };
        if byte != 3 {
            copied.push(&end);
            written.push(&end);
        }
        assert_eq!(copied.room(), written.room());
        assert!(copied.take() == written.take(), "message {byte}");
    }
}

#[test]
fn short_messages_share_one_chunk_unchanged() {
    let mut packer = Packer::new(1_000);
    let mut held = Vec::new();
    for turn in 0..100u8 {
        let bytes = vec![turn; 500 + usize::from(turn)];
        packer.push(&Record::Data { index: turn.into(), offset: 0, bytes: &bytes });
        held.push(packer.take());
    }
    for (message, turn) in held.iter().zip(0u8..) {
        let bytes = vec![turn; 500 + usize::from(turn)];
        let record = Record::Data { index: turn.into(), offset: 0, bytes: &bytes };
        assert_eq!(records(message).collect::<Vec<_>>(), [Ok(record)]);
    }
    let next = held.windows(2).filter(|pair| {
        let gap = pair[1].as_ptr().addr().wrapping_sub(pair[0].as_ptr().addr() + pair[0].len());
        gap == PACK_HEADER_LEN + PACK_RECORD_LEN
    });
    assert!(next.count() >= 95, "most begin where the one before ends");
}

#[test]
fn long_message_buffer_is_reused_after_release() {
    let mut packer = Packer::new(40_000);
    let (mut held, mut others) = (Vec::new(), Vec::new());
    let mut places = std::collections::BTreeSet::new();
    for turn in 0..10u8 {
        let bytes = vec![turn; 30_000];
        let record = Record::Data { index: turn.into(), offset: 0, bytes: &bytes };
        packer.push(&record);
        let message = packer.take();
        assert_eq!(records(&message).collect::<Vec<_>>(), [Ok(record)]);
        places.insert(message.as_ptr());
        // Two buffers are held and must stay unchanged.
        if turn < 2 {
            held.push(message);
        } else {
            drop(message);
        }
        // The allocator would hand out a freed buffer again.
        others.push(Vec::<u8>::with_capacity(40_003));
    }
    for (message, turn) in held.iter().zip(0u8..) {
        let bytes = vec![turn; 30_000];
        let record = Record::Data { index: turn.into(), offset: 0, bytes: &bytes };
        assert_eq!(records(message).collect::<Vec<_>>(), [Ok(record)]);
    }
    assert_eq!(places.len(), 3);
}
