//! File delivery table of FLUTE (RFC 6726, section 3.4.2; version 1: RFC 3926 and 3GPP TS 26.346): an XML document
//! that names the files of a session.
//!
//! Attributes are found by their local names, because versions differ in their namespaces only. Documents have bounds,
//! since any host may send one, and entries that are not usable are skipped and counted. Document type declarations
//! are refused, and with them entities.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roxmltree::{Document, Node, ParsingOptions};
use thiserror::Error;

use crate::alc::{Code, Encoding, Packet, Transmission};

/// File delivery table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fdt {
    /// Time at which it expires, in seconds since 1900 (NTP) modulo 2^32.
    pub expires: u32,
    /// True if no later instance has further files.
    pub complete: bool,
    /// Files.
    pub files: Vec<File>,
    /// Number of entries that are not usable.
    pub skipped: usize,
}

/// Entry of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Object that carries it.
    pub toi: u128,
    /// Name: a URI, or a path relative to one.
    pub location: String,
    /// Bytes of the file.
    pub content_length: Option<u64>,
    /// Bytes of the object that carries it, which differ if it is encoded.
    pub transfer_length: Option<u64>,
    /// Encoding of the contents, such as `gzip`; empty if there is none.
    pub encoding: String,
    /// MD5 digest of the object that carries it.
    pub md5: Option<[u8; 16]>,
    /// Symbol size and code, if the table has them.
    pub fec: Option<(u16, Code)>,
}

/// Reason why bytes are not a file delivery table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FdtError {
    /// The document is too long.
    #[error("it has {0} bytes, more than {MAX_FDT_BYTES}")]
    TooLong(usize),
    /// The bytes are not a document in UTF-8.
    #[error("it is no XML document")]
    Xml,
    /// The document is another one.
    #[error("its root is no FDT-Instance")]
    Root,
    /// No valid time of expiry.
    #[error("it has no time of expiry")]
    Expires,
    /// The table has too many files.
    #[error("it has more than {MAX_FILES} files")]
    TooManyFiles,
}

impl Fdt {
    /// Parses a document.
    pub fn parse(xml: &[u8]) -> Result<Fdt, FdtError> {
        if xml.len() > MAX_FDT_BYTES {
            return Err(FdtError::TooLong(xml.len()));
        }
        // The parser calls itself for elements within elements.
        if depth(xml) > MAX_DEPTH {
            return Err(FdtError::Xml);
        }
        let text = std::str::from_utf8(xml).map_err(|_| FdtError::Xml)?;
        // Senders pad the last symbol with zeros, and some count the padding.
        let text = text.trim_end_matches('\0');
        let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..Default::default() };
        let document = Document::parse_with_options(text, options).map_err(|_| FdtError::Xml)?;
        let root = document.root_element();
        if root.tag_name().name() != "FDT-Instance" {
            return Err(FdtError::Root);
        }
        let expires = number(root, "Expires").ok_or(FdtError::Expires)?;
        let mut fdt = Fdt { expires, complete: is_true(root, "Complete"), ..Fdt::default() };
        for entry in root.children().filter(|node| node.tag_name().name() == "File") {
            if fdt.files.len() >= MAX_FILES {
                return Err(FdtError::TooManyFiles);
            }
            match file(root, entry) {
                Some(file) => fdt.files.push(file),
                None => fdt.skipped += 1,
            }
        }
        Ok(fdt)
    }

    /// Writes a document for this version of FLUTE.
    pub fn emit(&self, version: u8) -> String {
        let namespace = if version == 1 { NAMESPACE_1 } else { NAMESPACE_2 };
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<FDT-Instance xmlns=\"{namespace}\" Expires=\"{}\"",
            self.expires
        );
        xml.push_str(if self.complete { " Complete=\"true\">" } else { ">" });
        for file in &self.files {
            file.emit(&mut xml);
        }
        xml.push_str("</FDT-Instance>\n");
        xml
    }
}

impl File {
    /// Transmission information of the object, as far as the table has it.
    pub fn transmission(&self) -> Option<Transmission> {
        let length = self.transfer_length.or(self.content_length)?;
        self.fec.map(|(symbol, code)| Transmission { length, symbol, code })
    }

    fn emit(&self, xml: &mut String) {
        xml.push_str("<File");
        let mut attribute = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string does not fail.
            let _ = write!(xml, " {name}=\"{}\"", Escaped(&value.to_string()));
        };
        attribute("TOI", &self.toi);
        attribute("Content-Location", &self.location);
        let lengths = [("Content-Length", self.content_length), ("Transfer-Length", self.transfer_length)];
        for (name, length) in lengths {
            if let Some(length) = length {
                attribute(name, &length);
            }
        }
        if !self.encoding.is_empty() {
            attribute("Content-Encoding", &self.encoding);
        }
        if let Some(md5) = self.md5 {
            attribute("Content-MD5", &STANDARD.encode(md5));
        }
        if let Some((symbol, code)) = self.fec {
            attribute("FEC-OTI-FEC-Encoding-ID", &code.encoding().id());
            attribute("FEC-OTI-Encoding-Symbol-Length", &symbol);
            let (block, total) = match code {
                Code::NoCode { block } => (Some(block), None),
                Code::ReedSolomon8 { block, total } => (Some(block.into()), Some(total.into())),
                Code::ReedSolomon { block, total, .. } | Code::SmallBlock { block, total, .. } => {
                    (Some(block.into()), Some(u32::from(total)))
                }
                Code::Raptor { .. } | Code::RaptorQ { .. } => (None, None),
            };
            if let Some(block) = block {
                attribute("FEC-OTI-Maximum-Source-Block-Length", &block);
            }
            if let Some(total) = total {
                attribute("FEC-OTI-Max-Number-of-Encoding-Symbols", &total);
            }
            if let Code::SmallBlock { instance, .. } = code {
                attribute("FEC-OTI-FEC-Instance-ID", &instance);
            }
            let specific = code.specific();
            if !specific.is_empty() {
                attribute("FEC-OTI-Scheme-Specific-Info", &STANDARD.encode(specific));
            }
        }
        xml.push_str("/>");
    }
}

/// Text of an attribute, with the characters escaped that XML reserves.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\t' | '\n' | '\r' => write!(f, "&#{};", u32::from(character)),
            // XML has no way to write the other ones.
            '\0'..' ' => f.write_char('?'),
            character => f.write_char(character),
        })
    }
}

/// Upper bound of the depth of elements: tags that open less those that close, at any place of the document.
fn depth(xml: &[u8]) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for pair in xml.windows(2) {
        match pair {
            b"</" | b"/>" => open = open.saturating_sub(1),
            [b'<', _] => open += 1,
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Attribute with this local name.
fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attributes().find(|attribute| attribute.name() == name).map(|attribute| attribute.value().trim())
}

fn number<T: std::str::FromStr>(node: Node<'_, '_>, name: &str) -> Option<T> {
    text(node, name)?.parse().ok()
}

fn is_true(node: Node<'_, '_>, name: &str) -> bool {
    matches!(text(node, name), Some("true" | "1"))
}

/// Entry of a file; attributes of the instance are defaults. `None` if it has no name or no valid object.
fn file(instance: Node<'_, '_>, entry: Node<'_, '_>) -> Option<File> {
    let toi = number(entry, "TOI").filter(|&toi: &u128| toi != Packet::FDT && toi >> 112 == 0)?;
    let location = text(entry, "Content-Location").filter(|location| location.len() <= MAX_LOCATION)?;
    let md5 = text(entry, "Content-MD5").and_then(|digest| STANDARD.decode(digest).ok()?.try_into().ok());
    let encoding = either(instance, entry, "Content-Encoding").unwrap_or_default();
    Some(File {
        toi,
        location: location.to_owned(),
        content_length: number(entry, "Content-Length"),
        transfer_length: number(entry, "Transfer-Length"),
        encoding: if matches!(encoding, "null" | "identity") { String::new() } else { encoding.to_owned() },
        md5,
        fec: fec(instance, entry),
    })
}

/// Attribute of an entry, or of the instance.
fn either<'a>(instance: Node<'a, '_>, entry: Node<'a, '_>, name: &str) -> Option<&'a str> {
    text(entry, name).or_else(|| text(instance, name))
}

fn fec(instance: Node<'_, '_>, entry: Node<'_, '_>) -> Option<(u16, Code)> {
    let attribute = |name: &str| either(instance, entry, name);
    let number = |name: &str| attribute(name).and_then(|text| text.parse::<u32>().ok());
    let encoding = number("FEC-OTI-FEC-Encoding-ID").and_then(|id| Encoding::of(id.try_into().ok()?))?;
    let symbol = number("FEC-OTI-Encoding-Symbol-Length")?.try_into().ok()?;
    let specific = attribute("FEC-OTI-Scheme-Specific-Info").unwrap_or_default();
    let code = Code::of_attributes(
        encoding,
        number("FEC-OTI-Maximum-Source-Block-Length"),
        number("FEC-OTI-Max-Number-of-Encoding-Symbols"),
        number("FEC-OTI-FEC-Instance-ID").and_then(|id| id.try_into().ok()),
        &STANDARD.decode(specific).ok()?,
    )?;
    Some((symbol, code))
}

/// Maximum bytes of a document.
pub const MAX_FDT_BYTES: usize = 1 << 20;
/// Maximum number of files in an instance.
pub const MAX_FILES: usize = 4096;
/// Maximum number of elements, texts and comments in a document.
const MAX_NODES: u32 = 65_536;
/// Maximum depth of elements.
const MAX_DEPTH: usize = 64;
/// Maximum bytes of a name: a path of the file system with each byte as `%` and two digits, and a scheme.
const MAX_LOCATION: usize = 3 * crate::file::RelativePath::MAX_LEN + 64;
/// Namespace of version 1, as 3GPP has it.
const NAMESPACE_1: &str = "urn:IETF:metadata:2005:FLUTE:FDT";
/// Namespace of version 2.
const NAMESPACE_2: &str = "urn:ietf:params:xml:ns:fdt";
