//! Plain sessions of FLUTE and NORM over loopback: files with their names, messages of a stream, and the end.

use std::path::PathBuf;

use carillon_core::NoObserver;
use carillon_transfer::plain::{
    Framing, PlainFolder, PlainNews, PlainReceive, PlainSend, plain_contents, receiver_id,
};
use carillon_transfer::run_loop::{RunControl, run_to_end};
use carillon_transfer::{Error, Network};

#[test]
fn files_arrive_with_their_names() {
    let Some(group) = carillon_testkit::loopback_group() else { return };
    let network = Network { group, interface: Some("lo".to_owned()), ..Network::default() };
    let folder = tempfile::tempdir().expect("a directory");
    let contents = [("empty", Vec::new()), ("a b%.txt", vec![7; 100_000]), ("\u{e9}", b"short".to_vec())];
    let paths: Vec<PathBuf> = contents.iter().map(|(name, _)| folder.path().join(name)).collect();
    for (path, (_, content)) in paths.iter().zip(&contents) {
        std::fs::write(path, content).expect("it can be written");
    }
    let has_files = |protocol| plain_contents(protocol).has_files();
    assert!(has_files("flute") && !has_files("pgm") && !has_files("none"));

    let options = PlainReceive::new("flute");
    let bound = options.bind(&network).expect("sockets");
    let mut receiver = options.open(bound, NoObserver).expect("a receiver");
    let there = network.clone();
    let sender = std::thread::spawn(move || {
        let mut options = PlainSend::new("flute");
        options.settings.push(("content_encoding".to_owned(), "gzip".to_owned()));
        let mut run = options.open_files(options.bind(&there)?, &paths, NoObserver)?;
        run_to_end(&mut run, |_| Ok::<_, Error>(RunControl::Continue))?;
        Ok::<_, Error>(run.report())
    });
    let out = folder.path().join("out");
    let mut store = PlainFolder::open(&out, false).expect("a folder");
    let mut end = None;
    run_to_end(&mut receiver, |receiver| {
        for news in receiver.take_news() {
            match news {
                PlainNews::File { file, .. } => drop(store.store(&file)?),
                PlainNews::Closed { lost, ended, .. } => end = Some((lost, ended)),
                PlainNews::Opened(_) | PlainNews::Message { .. } => {}
            }
        }
        Ok::<_, Error>(if end.is_some() { RunControl::Drop } else { RunControl::Continue })
    })
    .expect("it receives");
    assert_eq!(end, Some((0, true)));
    for (name, content) in contents {
        assert_eq!(std::fs::read(out.join(name)).expect("it is there"), content, "{name}");
    }
    let report = sender.join().expect("it does not panic").expect("it sends");
    assert_eq!((report.messages, report.bytes, report.datagrams_received), (3, 100_005, 0));
}

/// Files by NORM in blocks of more than 255 symbols. The sender reports which of the receivers that it names have
/// confirmed everything.
#[test]
fn named_receivers_confirm_files() {
    let Some(group) = carillon_testkit::loopback_group() else { return };
    let network = Network { group, interface: Some("lo".to_owned()), ..Network::default() };
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("file");
    let content: Vec<u8> = (0..1_000_000_u32).map(|byte| (byte / 3) as u8).collect();
    std::fs::write(&path, &content).expect("it can be written");
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let mut options = PlainReceive::new("norm");
    options.settings.push(set("node_id", "11"));
    let bound = options.bind(&network).expect("sockets");
    let mut receiver = options.open(bound, NoObserver).expect("a receiver");
    let sender = std::thread::spawn(move || {
        let long = [set("block", "500"), set("parity", "40"), set("grtt", "2 ms"), set("robust_factor", "5")];
        let mut options = PlainSend { expect: vec![11, 12], ..PlainSend::new("norm") };
        options.settings.extend(long);
        let mut run = options.open_files(options.bind(&network)?, &[path], NoObserver)?;
        run_to_end(&mut run, |_| Ok::<_, Error>(RunControl::Continue))?;
        Ok::<_, Error>(run.report())
    });
    let (mut files, mut end) = (Vec::new(), None);
    run_to_end(&mut receiver, |receiver| {
        for news in receiver.take_news() {
            match news {
                PlainNews::File { file, .. } => files.push(file.content),
                PlainNews::Closed { lost, ended, .. } => end = Some((lost, ended)),
                PlainNews::Opened(_) | PlainNews::Message { .. } => {}
            }
        }
        Ok::<_, Error>(if end.is_some() { RunControl::Drop } else { RunControl::Continue })
    })
    .expect("it receives");
    assert!(end == Some((0, true)) && files == [content]);
    let report = sender.join().expect("it does not panic").expect("it sends");
    assert_eq!(report.receivers, [(11, true), (12, false)]);
}

#[test]
fn identifiers_of_receivers_are_numbers_or_addresses() {
    let ids = ["11", "10.0.0.7", "4294967294", "0", "4294967295", "a", "-1", ""].map(receiver_id);
    assert_eq!(ids[..3], [Some(11), Some(0x0a00_0007), Some(u32::MAX - 1)]);
    assert!(ids[3..].iter().all(Option::is_none));
}

/// A stream of NORM, with and without the frames of ZeroMQ: messages keep their boundaries, also those longer than a
/// packet.
#[test]
fn messages_of_a_stream_keep_their_boundaries() {
    let Some(group) = carillon_testkit::loopback_group() else { return };
    let network = Network { group, interface: Some("lo".to_owned()), ..Network::default() };
    let text: Vec<u8> = (0..50_000_u32).map(|byte| (byte / 7) as u8).collect();
    for framing in [Framing::None, Framing::ZeroMq] {
        let options = PlainReceive { framing, ..PlainReceive::new("norm") };
        let bound = options.bind(&network).expect("sockets");
        let mut receiver = options.open(bound, NoObserver).expect("a receiver");
        let (there, input) = (network.clone(), std::io::Cursor::new(text.clone()));
        let sender = std::thread::spawn(move || {
            let mut options = PlainSend { framing, message_bytes: Some(3000), ..PlainSend::new("norm") };
            options.settings.push(("grtt".to_owned(), "2 ms".to_owned()));
            let mut run = options.open(options.bind(&there)?, input, NoObserver)?;
            run_to_end(&mut run, |_| Ok::<_, Error>(RunControl::Continue))?;
            Ok::<_, Error>(run.report())
        });
        let (mut messages, mut end) = (Vec::new(), None);
        run_to_end(&mut receiver, |receiver| {
            for news in receiver.take_news() {
                match news {
                    PlainNews::Message { payload, .. } => messages.push(payload),
                    PlainNews::Closed { lost, ended, .. } => end = Some((lost, ended)),
                    PlainNews::Opened(_) | PlainNews::File { .. } => {}
                }
            }
            Ok::<_, Error>(if end.is_some() { RunControl::Drop } else { RunControl::Continue })
        })
        .expect("it receives");
        assert_eq!(end, Some((0, true)));
        assert!(messages.iter().eq(text.chunks(3000)), "{framing:?}: {} messages", messages.len());
        let report = sender.join().expect("it does not panic").expect("it sends");
        assert_eq!((report.messages, report.bytes), (17, 50_000));
    }
}

#[test]
fn streams_and_files_are_not_confused() {
    let Some(group) = carillon_testkit::loopback_group() else { return };
    let network = Network { group, interface: Some("lo".to_owned()), ..Network::default() };
    let flute = PlainSend::new("flute");
    let input = std::io::Cursor::new("text");
    let bound = flute.bind(&network).expect("sockets");
    assert!(matches!(flute.open(bound, input, NoObserver), Err(Error::PlainMessages("flute", _))));
    let named = PlainSend { expect: vec![11], ..PlainSend::new("flute") };
    let bound = named.bind(&network).expect("sockets");
    assert!(matches!(named.open_files(bound, &[], NoObserver), Err(Error::PlainUnconfirmed("flute"))));
    let pgm = PlainSend::new("pgm");
    let bound = flute.bind(&network).expect("sockets");
    assert!(matches!(pgm.open_files(bound, &[], NoObserver), Err(Error::PlainMessages("pgm", _))));
}
