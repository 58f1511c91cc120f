//! Files of plain sessions, from command to command. `scripts/check-strangers.py` tries other programs.

use std::fs;

use crate::delivery::support::{Place, files, need_multicast, wait_until};

const PROTOCOLS: [&str; 2] = ["flute", "norm"];

#[test]
fn plain_files_arrive_under_their_names() {
    need_multicast!();
    for protocol in PROTOCOLS {
        let place = Place::new();
        let sent = [place.file("from/a b%\u{e9}#?.txt", 100_000), place.file("from/empty", 0)];
        let plain = format!("--plain --protocol {protocol}");
        let out = place.path("to");
        let receiver =
            place.job("recv", "r").args(&plain).arg("--out").arg(&out).args("--timeout 20").start();
        let port = format!(":{:04X} ", place.group.port());
        wait_until("the receiver joins", || {
            fs::read_to_string("/proc/net/udp").is_ok_and(|sockets| sockets.contains(&port))
        });
        let sender = place.send("s").args(&plain).args("--rate 50Mbit/s").arg(&sent[0]).arg(&sent[1]);
        let ended = sender.run().expect(0);
        assert!(ended.out.contains("sent 2 files, 97.66 KiB"), "{}", ended.out);
        let ended = receiver.end().expect(0);
        assert!(ended.out.contains("2 files, 97.66 KiB"), "{}", ended.out);
        assert_eq!(files(&out), files(&place.path("from")), "{protocol}");
    }
}

#[test]
fn plain_senders_of_files_refuse_other_input() {
    let place = Place::new();
    let file = place.file("f", 10);
    let without_messages = [
        ("-", "and - has none"),
        ("--stream -", "sends whole files"),
        ("--message-bytes 100 F", "sends whole files"),
        ("--framing zeromq F", "ZeroMQ does not use the protocol"),
    ];
    let always = [
        ("--set block=0 F", "expected a whole number from 1"),
        (".", "is no file"),
        ("missing", "cannot open missing"),
    ];
    for protocol in PROTOCOLS {
        // NORM sends messages too.
        let more = if protocol == "norm" { &[("--stream F", "give `-`")][..] } else { &without_messages };
        for &(options, reason) in always.iter().chain(more) {
            let options = options.replace('F', file.to_str().expect("a path in UTF-8"));
            let ended =
                place.send("s").args(&format!("--plain --protocol {protocol} {options}")).run().expect(2);
            assert!(ended.err.contains(reason), "{protocol}, {options}: {}", ended.err);
        }
    }
}
