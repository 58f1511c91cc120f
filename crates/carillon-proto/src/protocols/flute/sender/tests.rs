//! Packets of the sender: their order, the table, and the end.

use carillon_core::{
    AssociationId, BitRate, Bytes, GroupId, Host, Machine, NodeId, Seeds, Sender as _, Time, drain,
};
use carillon_wire::alc::Encoding;
use carillon_wire::fdt::Fdt;

use super::*;

/// Host that keeps all packets.
#[derive(Default)]
pub(in crate::protocols::flute) struct Sent {
    pub packets: Vec<Vec<u8>>,
    fired: bool,
}

impl Host for Sent {
    fn transmit(&mut self, _transmit: Transmit, bytes: &mut Vec<u8>) {
        self.packets.push(bytes.clone());
    }
    fn event(&mut self, _event: &carillon_core::Event) {}
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

pub(in crate::protocols::flute) fn context(node: u32) -> BuildContext {
    BuildContext {
        association: AssociationId(6),
        node: NodeId(node),
        sender: NodeId(1),
        members: Vec::new().into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(10),
        link_overhead: 28,
        max_payload: 100,
        memory: 1 << 20,
        rejoining: false,
    }
}

pub(in crate::protocols::flute) fn config(settings: &[(&str, &str)]) -> Config {
    let parameters = super::super::ENTRY.parameters;
    let mut config = Config::defaults(parameters);
    for (key, value) in settings {
        config.set(parameters, key, value).expect("a setting");
    }
    config
}

/// Packets of a session with these files.
pub(in crate::protocols::flute) fn session(settings: &[(&str, &str)], files: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut sender = FluteSender::new(true, &context(1), &config(settings)).expect("valid settings");
    let (mut now, mut sent, mut buf) = (Time::ZERO, Sent::default(), Vec::new());
    sender.start(now);
    let mut files = files.iter().enumerate();
    let mut waiting = files.next();
    loop {
        while let Some((number, content)) = waiting {
            let name = format!("file:///f{number}");
            let message = NamedFile { name, content: Bytes::copy_from_slice(content) }.into_message();
            match sender.offer(now, message) {
                Err(OfferError::Full) => break,
                offered => assert_eq!(offered, Ok(MessageId(number as u64))),
            }
            waiting = files.next();
        }
        if waiting.is_none() {
            sender.finish(now);
        }
        sent.fired = false;
        drain(&mut sender, now, &mut buf, &mut sent);
        let Some(at) = sender.poll_timeout() else {
            match waiting {
                // There is room again.
                Some(_) => continue,
                None => break,
            }
        };
        now = now.max(at);
        sender.handle_timeout(now);
        sent.fired = true;
        drain(&mut sender, now, &mut buf, &mut sent);
    }
    assert!(sender.is_finished());
    sent.packets
}

fn kinds(packets: &[Vec<u8>]) -> Vec<String> {
    let each = |bytes: &Vec<u8>| {
        let packet = Packet::parse(bytes).expect("a packet");
        let Some(toi) = packet.identifiers.toi() else { return "close".to_owned() };
        let encoding = Encoding::of(packet.codepoint).expect("a known code");
        let (id, _) = encoding.split(packet.payload).expect("a symbol");
        let end = if packet.closes_object { "!" } else { "" };
        format!("{toi}:{}.{}{end}", id.block, id.symbol)
    };
    packets.iter().map(each).collect()
}

#[test]
fn each_pass_begins_with_the_table_and_the_end_comes_last() {
    let settings = [("carousel", "2"), ("block", "2"), ("parity", "1"), ("fdt_every", "1000")];
    let packets = session(&settings, &[&[7; 250], &[]]);
    let sent = kinds(&packets).join(" ");
    // The table has nine symbols.
    let table = |sent: &str| {
        let parts: Vec<&str> = sent.split(' ').filter(|kind| !kind.starts_with("0:")).collect();
        parts.join(" ")
    };
    let pass = "1:0.0 1:0.1 1:0.2 1:1.0 1:1.1";
    assert_eq!(table(&sent), format!("{pass} 2:0.0 {pass}! 2:0.0! close close close"));
    assert!(sent.starts_with("0:0.0 "), "{sent}");
    let [.., before, _, _, _] = &kinds(&packets)[..] else { panic!("more packets") };
    assert!(before.starts_with("0:"), "the table is repeated before the end: {before}");
}

#[test]
fn the_table_lists_what_is_sent() {
    for (version, namespace) in [(1, "urn:IETF:metadata:2005:FLUTE:FDT"), (2, "urn:ietf:params:xml:ns:fdt")] {
        let (number, clock) = (version.to_string(), "3700000000");
        let settings = [("version", &*number), ("clock", clock), ("content_encoding", "gzip")];
        let mut xml = Vec::new();
        for bytes in session(&settings, &[&[1; 1000]]) {
            let packet = Packet::parse(&bytes).expect("a packet");
            let Some(header) = packet.extensions.fdt() else { continue };
            assert_eq!((header.version, header.instance), (version, 1));
            assert_eq!(packet.extensions.sender_seconds(), (version == 2).then_some(3_700_000_000));
            let (id, symbol) = Encoding::NoCode.split(packet.payload).expect("a symbol");
            if id.symbol as usize * 88 == xml.len() {
                xml.extend_from_slice(symbol);
            }
        }
        assert!(String::from_utf8_lossy(&xml).contains(namespace));
        let fdt = Fdt::parse(&xml).expect("a table");
        assert_eq!((fdt.expires, fdt.complete), (3_700_003_600, true));
        let [file] = &fdt.files[..] else { panic!("one file") };
        assert_eq!(
            (&*file.location, file.content_length, &*file.encoding),
            ("file:///f0", Some(1000), "gzip")
        );
        assert!(file.transfer_length < Some(100));
    }
}

#[test]
fn a_full_buffer_waits_for_the_carousel() {
    let files: Vec<Vec<u8>> = (0..6).map(|number| vec![number; 1000]).collect();
    let files: Vec<&[u8]> = files.iter().map(|file| &file[..]).collect();
    let packets = session(&[("send_buffer", "2000"), ("fec", "no-code")], &files);
    let mut last: Vec<String> = kinds(&packets);
    last.retain(|kind| kind.ends_with('!'));
    assert_eq!(last, ["1:0.9!", "2:0.9!", "3:0.9!", "4:0.9!", "5:0.9!", "6:0.9!"]);
}

#[test]
fn impossible_settings_are_refused() {
    for settings in [[("fec", "reed-solomon"), ("block", "250")], [("close_interval", "0 s"), ("block", "1")]]
    {
        assert!(FluteSender::new(true, &context(1), &config(&settings)).is_err(), "{settings:?}");
    }
}
