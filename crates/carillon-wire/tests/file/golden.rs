//! Golden bytes of each record.

use carillon_wire::file::{ListFlags, Record, RelativePath, ResumePoint, Sessions, WithdrawReason};

/// Passes each golden record with its bytes and its line to `check`.
pub fn each_golden(check: &mut dyn FnMut(Record<'_>, &str, &str)) {
    files_and_updates(check);
    ends_streams_and_other_entries(check);
}

fn files_and_updates(check: &mut dyn FnMut(Record<'_>, &str, &str)) {
    check(
        Record::Offer { entries: 2, bytes: Some(300) },
        "01 00000002 000000000000012c",
        "file offer entries 2 bytes 300",
    );
    check(
        Record::Offer { entries: 1, bytes: None },
        "01 00000001 ffffffffffffffff",
        "file offer entries 1 bytes unknown",
    );
    check(
        Record::File {
            index: 1,
            size: Some(5),
            mode: 0o644,
            modified: Some(-2),
            path: RelativePath::new("d/é").unwrap(),
        },
        "02 00000001 0000000000000005 000001a4 fffffffffffffffe 642fc3a9",
        "file 1 begin size 5 mode 644 modified -2 path \"d/é\"",
    );
    check(
        Record::List { list: [9; 16], flags: ListFlags { entries: true, checksum: true } },
        "13 09090909090909090909090909090909 03",
        "file list 09090909090909090909090909090909 entries digests",
    );
    check(Record::Question { question: 2 }, "14 00000002", "file question 2");
    check(
        Record::Same { index: 1, offset: 258, len: 4 << 20 },
        "15 00000001 0000000000000102 0000000000400000",
        "file 1 same offset 258 length 4194304",
    );
    check(Record::Delete { limit: Some(258) }, "16 0000000000000102", "file delete limit 258");
    check(Record::Delete { limit: None }, "16 ffffffffffffffff", "file delete");
    check(Record::Exclude { pattern: "*.é" }, "17 2a2ec3a9", "file exclude \"*.é\"");
    check(
        Record::Archive { offset: 258, total: 300, bytes: b"abc" },
        "18 00000102 0000012c 616263",
        "file archive offset 258 of 300 length 3",
    );
    check(
        Record::Data { index: 1, offset: 258, bytes: b"abc" },
        "03 00000001 0000000000000102 616263",
        "file 1 data offset 258 length 3",
    );
    check(
        Record::Hole { index: 1, offset: 258, len: 16 << 20 },
        "10 00000001 0000000000000102 0000000001000000",
        "file 1 hole offset 258 length 16777216",
    );
    check(
        Record::Span {
            index: 1,
            offset: 258,
            step: 1400,
            count: 3,
            sessions: Sessions::new(&[0, 0, 0, 7, 0xAB, 0, 0, 1]).unwrap(),
        },
        "11 00000001 0000000000000102 00000578 00000003 00000007 ab000001",
        "file 1 span offset 258 step 1400 count 3 sessions 00000007 ab000001",
    );
}

fn ends_streams_and_other_entries(check: &mut dyn FnMut(Record<'_>, &str, &str)) {
    check(
        Record::Subtree { index: 1, end: 8 << 20, value: [0xCD; 32] },
        &format!("12 00000001 0000000000800000 {}", "cd".repeat(32)),
        &format!("file 1 subtree end 8388608 value {}", "cd".repeat(32)),
    );
    check(
        Record::EndOfFile { index: 1, size: 5, digest: [0xAB; 32] },
        &format!("04 00000001 0000000000000005 {}", "ab".repeat(32)),
        &format!("file 1 end size 5 digest {}", "ab".repeat(32)),
    );
    check(
        Record::End { bytes: 300, listing: [0xEF; 32] },
        &format!("05 000000000000012c {}", "ef".repeat(32)),
        "file transfer end bytes 300",
    );
    check(
        Record::Message { number: 258, bytes: b"abc" },
        "06 0000000000000102 616263",
        "stream message 258 length 3",
    );
    check(
        Record::Piece { number: 258, offset: 2, len: 5, bytes: b"abc" },
        "0c 0000000000000102 00000002 00000005 616263",
        "stream message 258 of 5 piece offset 2 length 3",
    );
    check(Record::EndOfStream { messages: 3 }, "07 0000000000000003", "stream end messages 3");
    check(
        Record::Directory { index: 3, mode: 0o750, modified: None, path: RelativePath::new("d/e").unwrap() },
        "08 00000003 000001e8 8000000000000000 642f65",
        "file 3 directory mode 750 path \"d/e\"",
    );
    check(
        Record::Link { index: 4, target: b"../x", path: RelativePath::new("d/l").unwrap() },
        "09 00000004 0004 2e2e2f78 642f6c",
        "file 4 link path \"d/l\" target \"../x\"",
    );
    check(
        Record::Withdraw { index: 5, reason: WithdrawReason::Changed },
        "0a 00000005 01",
        "file 5 withdrawn: changed while it was sent",
    );
    check(
        Record::Withdraw { index: 5, reason: WithdrawReason::Unreadable },
        "0a 00000005 02",
        "file 5 withdrawn: could not be read by the sender",
    );
    check(
        Record::Resume(ResumePoint { transfer: *b"sixteen bytes it", entry: 6, offset: 258 }),
        "0d 7369787465656e206279746573206974 00000006 0000000000000102",
        "file transfer 7369787465656e206279746573206974 from file 6 offset 258",
    );
    check(Record::Kept { index: 5 }, "0e 00000005", "file 5 kept");
}
