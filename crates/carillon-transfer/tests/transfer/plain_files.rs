//! Plain sessions of FLUTE and NORM over loopback: files with their names, messages of a stream, and the end.

use std::path::PathBuf;

use carillon_core::NoObserver;
use carillon_transfer::plain::{Framing, PlainFolder, PlainNews, PlainReceive, PlainSend, plain_contents};
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
    let pgm = PlainSend::new("pgm");
    let bound = flute.bind(&network).expect("sockets");
    assert!(matches!(pgm.open_files(bound, &[], NoObserver), Err(Error::PlainMessages("pgm", _))));
}
