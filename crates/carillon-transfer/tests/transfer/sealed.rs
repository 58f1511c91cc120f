//! Every protocol delivers with a key, and endpoints without it cannot take part.

use std::io::Cursor;
use std::time::Duration;

use carillon_core::{Helpers, Probability, ProtocolEntry};
use carillon_proto::REGISTRY;
use carillon_testkit::loopback_group;
use carillon_transfer::{Key, SendReport, help, receive_to, send_reader};

fn key(byte: u8) -> Key {
    Key::of(&[byte; 32]).expect("long enough")
}

/// Sends by this protocol to two receivers with a key, with loss if it repairs any.
fn deliver(entry: &ProtocolEntry, helpers: usize) -> Option<SendReport> {
    let protocol = entry.name;
    let loss = if entry.delivery.repairs {
        Probability::new(0.02).expect("a probability")
    } else {
        Probability::ZERO
    };
    let group = loopback_group()?;
    let receivers: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let end = receive_to(std::io::sink()).group(group).interface("lo").name(name).key(key(1)).seed(7);
            end.drop_arriving(loss).start()
        })
        .collect();
    let helping: Vec<_> = (0..helpers)
        .map(|n| help(protocol).group(group).interface("lo").name(format!("h{n}")).key(key(1)).start())
        .collect();
    let text = Cursor::new(vec![7; 40_000]);
    let sender = send_reader("f", text).protocol(protocol).group(group).interface("lo").name("s").key(key(1));
    let sender = if helpers > 0 { sender.helpers(helpers) } else { sender };
    let report = sender.datagram(1472).receivers(2).run().expect("a report");
    for receiver in receivers {
        let report = receiver.wait().expect("a report");
        assert!(report.is_success(), "{protocol}: {report:?}");
    }
    for helper in helping {
        helper.wait().expect("a report");
    }
    Some(report)
}

#[test]
fn every_protocol_delivers_with_a_key() {
    for entry in REGISTRY {
        let helpers = match entry.helpers {
            Helpers::Required(least) => least as usize,
            _ => 0,
        };
        let Some(report) = deliver(entry, helpers) else { return };
        assert!(report.is_success(), "{}: {report:?}", entry.name);
    }
}

#[test]
fn endpoint_without_the_key_cannot_take_part() {
    let Some(group) = loopback_group() else { return };
    let end = |name: &str| receive_to(std::io::sink()).group(group).interface("lo").name(name);
    let strangers = [end("none").start(), end("other").key(key(2)).start()];
    let receiver = end("a").key(key(1)).start();
    let text = Cursor::new(vec![7; 10_000]);
    let sender = send_reader("f", text).group(group).interface("lo").key(key(1));
    let report = sender.wait(Duration::from_millis(500)).run().expect("a report");
    assert_eq!(report.receivers.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(report.is_success() && report.unserved.is_empty() && report.rivals.is_empty(), "{report:?}");
    assert!(receiver.wait().expect("a report").is_success());
    for stranger in strangers {
        stranger.abort();
        let report = stranger.wait().expect("a report");
        assert_eq!((report.sender, report.bytes), (None, 0));
    }
}
