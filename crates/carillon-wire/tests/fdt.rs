//! File delivery tables: a recorded one, round trips, versions, and hostile documents.

use carillon_wire::alc::{Code, Packet};
use carillon_wire::fdt::{Fdt, FdtError, File, MAX_FDT_BYTES, MAX_FILES};
use proptest::prelude::*;

/// Table of the crate `flute`, from its packets.
fn recorded(codepoint: u8) -> Vec<u8> {
    let lines = include_str!("vectors/alc-peer.txt").lines().filter(|line| !line.starts_with('#'));
    let mut parts = std::collections::BTreeMap::new();
    let mut length = 0;
    for line in lines {
        let digits: Vec<u8> = line.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
        let datagram: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let packet = Packet::parse(&datagram).expect("a packet");
        let encoding = carillon_wire::alc::Encoding::of(packet.codepoint).expect("a known code");
        if packet.codepoint == codepoint && packet.name() == "fdt" {
            let (id, symbol) = encoding.split(packet.payload).expect("a symbol");
            length = packet.extensions.transmission(encoding).expect("it is there").length as usize;
            parts.insert(id.symbol, symbol.to_vec());
        }
    }
    let mut xml: Vec<u8> = parts.into_values().flatten().collect();
    xml.truncate(length);
    xml
}

#[test]
fn tables_of_another_implementation_are_read() {
    for (codepoint, code) in [
        (0, Code::NoCode { block: 64 }),
        (1, Code::Raptor { blocks: 3, sub_blocks: 1, alignment: 4 }),
        (5, Code::ReedSolomon8 { block: 64, total: 80 }),
        (6, Code::RaptorQ { blocks: 3, sub_blocks: 1, alignment: 4 }),
    ] {
        let fdt = Fdt::parse(&recorded(codepoint)).expect("a table");
        let [file] = &fdt.files[..] else { panic!("one file: {fdt:?}") };
        assert_eq!((file.toi, file.fec, fdt.skipped), (1, Some((400, code)), 0));
        let length = if codepoint == 0 { 40_000 } else { 60_000 };
        assert_eq!((file.content_length, file.transfer_length), (Some(length), Some(length)));
        assert_eq!(file.location, format!("file:///in-{length}"));
        assert!(file.md5.is_some() && fdt.expires > 4_000_000_000 && !fdt.complete);
    }
}

fn wrapped(entry: &str) -> String {
    format!("<FDT-Instance Expires=\"5\">{entry}</FDT-Instance>")
}

#[test]
fn attributes_of_the_instance_are_defaults_of_its_files() {
    let xml = "<f:FDT-Instance xmlns:f=\"urn:any\" Expires=\"7\" Complete=\"1\" Content-Encoding=\"gzip\" \
               FEC-OTI-FEC-Encoding-ID=\"0\" FEC-OTI-Maximum-Source-Block-Length=\"9\" \
               FEC-OTI-Encoding-Symbol-Length=\"100\"><f:File TOI=\"1\" Content-Location=\"a\"/>\
               <f:File TOI=\"2\" Content-Location=\"b\" Content-Encoding=\"null\" \
               FEC-OTI-Encoding-Symbol-Length=\"200\"/></f:FDT-Instance>\0\0";
    let fdt = Fdt::parse(xml.as_bytes()).expect("a table");
    assert!(fdt.complete);
    let seen: Vec<_> = fdt.files.iter().map(|file| (&*file.encoding, file.fec)).collect();
    let code = Code::NoCode { block: 9 };
    assert_eq!(seen, [("gzip", Some((100, code))), ("", Some((200, code)))]);
}

#[test]
fn entries_that_are_not_usable_are_skipped() {
    for entry in [
        "<File TOI=\"0\" Content-Location=\"a\"/>",
        "<File TOI=\"-1\" Content-Location=\"a\"/>",
        "<File TOI=\"5192296858534827628530496329220096\" Content-Location=\"a\"/>",
        "<File TOI=\"1\"/>",
        "<File Content-Location=\"a\"/>",
        &format!("<File TOI=\"1\" Content-Location=\"{}\"/>", "a".repeat(20_000)),
    ] {
        let fdt = Fdt::parse(wrapped(entry).as_bytes()).expect("a table");
        assert_eq!((fdt.files.len(), fdt.skipped), (0, 1), "{entry}");
    }
    // Values that mean nothing are left out.
    let entry = "<File TOI=\"1\" Content-Location=\"a\" Content-Length=\"x\" Content-MD5=\"AAAA\" \
                 FEC-OTI-FEC-Encoding-ID=\"5\" FEC-OTI-Encoding-Symbol-Length=\"70000\"/>";
    let fdt = Fdt::parse(wrapped(entry).as_bytes()).expect("a table");
    let expected = File { toi: 1, location: "a".to_owned(), ..File::default() };
    assert_eq!(fdt.files, [expected]);
}

#[test]
fn hostile_documents_are_refused() {
    let many = "<File TOI=\"1\" Content-Location=\"a\"/>".repeat(MAX_FILES + 1);
    let nested = "<a>".repeat(100_000) + &"</a>".repeat(100_000);
    let wide = wrapped(&"<a/>".repeat(100_000));
    let entities = "<!DOCTYPE l [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>\
                    <FDT-Instance Expires=\"1\">&b;</FDT-Instance>";
    for (xml, error) in [
        (wrapped(&many), FdtError::TooManyFiles),
        (nested.clone(), FdtError::Xml),
        (wrapped(&nested), FdtError::Xml),
        (wide, FdtError::Xml),
        (entities.to_owned(), FdtError::Xml),
        ("<FDT-Instance/>".to_owned(), FdtError::Expires),
        ("<FDT-Instance Expires=\"4294967296\"/>".to_owned(), FdtError::Expires),
        ("<Other Expires=\"1\"/>".to_owned(), FdtError::Root),
        ("<FDT-Instance Expires=\"1\">".to_owned(), FdtError::Xml),
        (String::new(), FdtError::Xml),
        (" ".repeat(MAX_FDT_BYTES + 1), FdtError::TooLong(MAX_FDT_BYTES + 1)),
    ] {
        assert_eq!(Fdt::parse(xml.as_bytes()), Err(error), "{}", &xml[..xml.len().min(100)]);
    }
    assert_eq!(Fdt::parse(&[0xff, 0xfe, 0]), Err(FdtError::Xml));
}

proptest! {
    #[test]
    fn tables_survive_a_round_trip(
        locations in prop::collection::vec("[ -~\u{e9}\u{4e2d}]{0,20}", 0..4),
        lengths in any::<(Option<u64>, Option<u64>, Option<[u8; 16]>)>(),
        expires in any::<u32>(), complete in any::<bool>(), version in 1u8..3, symbol in any::<u16>(),
        code in prop_oneof![
            any::<u32>().prop_map(|block| Code::NoCode { block }),
            any::<(u8, u8)>().prop_map(|(block, total)| Code::ReedSolomon8 { block, total }),
            (1u8.., 1u8.., any::<u16>(), any::<u16>())
                .prop_map(|(bits, group, block, total)| Code::ReedSolomon { bits, group, block, total }),
            any::<(u16, u16, u16)>().prop_map(|(instance, block, total)| Code::SmallBlock { instance, block, total }),
            any::<(u16, u8, u8)>()
                .prop_map(|(blocks, sub_blocks, alignment)| Code::Raptor { blocks, sub_blocks, alignment }),
            any::<(u8, u16, u8)>()
                .prop_map(|(blocks, sub_blocks, alignment)| Code::RaptorQ { blocks, sub_blocks, alignment }),
        ],
    ) {
        let files = (1..).zip(&locations).map(|(toi, location)| File {
            toi,
            location: location.trim().to_owned(),
            content_length: lengths.0,
            transfer_length: lengths.1,
            encoding: if toi == 1 { "gzip".to_owned() } else { String::new() },
            md5: lengths.2,
            fec: Some((symbol, code)),
        });
        let fdt = Fdt { expires, complete, files: files.collect(), skipped: 0 };
        prop_assert_eq!(Fdt::parse(fdt.emit(version).as_bytes()), Ok(fdt));
    }

    #[test]
    fn arbitrary_documents_do_no_harm(xml in "(<|>|/|\"|=|FDT-Instance|File| |TOI|Expires|Content-Location|[0-9a]|&|;|!|\\?|-){0,60}") {
        let _ = Fdt::parse(xml.as_bytes());
    }
}
