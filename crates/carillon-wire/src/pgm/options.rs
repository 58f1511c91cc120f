//! Option extensions of PGM packets: RFC 3208, section 9, and its appendices 11.8 (OPT_PARITY_PRM, OPT_PARITY_GRP)
//! and 15.4 (back-off, OPT_NBR_UNREACH, OPT_PATH_NLA). The options of PGMCC (draft-ietf-rmt-bb-pgmcc-03) have the
//! numbers and the form that OpenPGM gives them.
//!
//! They stand behind the fixed header, OPT_LENGTH first, each as
//!
//! ```text
//! +-+-------------+---------------+-----------+---+---------------+
//! |E| type (7)    |  length       | reserved  |OPX|  option's own |  contents
//! +-+-------------+---------------+-----------+---+---------------+
//! ```
//!
//! E marks the last option. OPT_LENGTH has the total length of all options in its last two bytes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::bytes::{put_address, put_nla, put_nla_with};
use crate::ParseError;
use crate::reader::Reader;

/// Option extensions of a packet, and the bits of the options byte that mark parity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// OPT_PARITY: a parity packet, or a NAK or an NCF for parity packets (section 11.3).
    pub parity: bool,
    /// OPT_VAR_PKTLEN: a parity packet of packets that differ in length, which ends with the parity of their lengths.
    pub variable_length: bool,
    /// OPT_PARITY_GRP: number of the parity packet divided by the size of the transmission group, if not 0.
    pub parity_group: Option<u32>,
    /// OPT_NAK_LIST: further numbers of a NAK or an NCF.
    pub nak_list: NakList<'a>,
    /// OPT_NAK_BO_IVL.
    pub back_off_interval: Option<BackOffInterval>,
    /// OPT_NAK_BO_RNG.
    pub back_off_range: Option<BackOffRange>,
    /// OPT_REDIRECT: the address of a designated local repairer.
    pub redirect: Option<IpAddr>,
    /// OPT_PARITY_PRM.
    pub parity_parameters: Option<ParityParameters>,
    /// OPT_NBR_UNREACH: the window of this SPM is meaningless.
    pub neighbour_unreachable: bool,
    /// OPT_PATH_NLA: an address of the forwarding network element.
    pub path: Option<IpAddr>,
    /// OPT_FRAGMENT.
    pub fragment: Option<Fragment>,
    /// OPT_JOIN: a late joiner may request this packet and all after it.
    pub join: Option<u32>,
    /// OPT_SYN: the first packet of the session.
    pub syn: bool,
    /// OPT_FIN: no packet follows the leading edge.
    pub fin: bool,
    /// OPT_RST: the session was aborted; its byte of flags, 0x40 for "no NAKs any more".
    pub reset: Option<u8>,
    /// OPT_PGMCC_DATA.
    pub election: Option<AckerElection>,
    /// OPT_PGMCC_FEEDBACK.
    pub report: Option<LossReport>,
}

/// OPT_PGMCC_DATA: the receiver that acknowledges this data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckerElection {
    /// Clock of the source in milliseconds, at the transmission.
    pub timestamp_ms: u32,
    /// Address of the acker; the unspecified address if there is none.
    pub acker: IpAddr,
}

/// OPT_PGMCC_FEEDBACK: loss rate of a receiver, in NAKs and ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossReport {
    /// Timestamp of the newest data packet, and the milliseconds since it arrived.
    pub timestamp_ms: u32,
    /// Loss rate; 65536 would be 1.
    pub loss: u16,
    /// Address of the receiver.
    pub receiver: IpAddr,
}

/// OPT_FRAGMENT: position of a packet in an application's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Sequence number of the packet with the first fragment.
    pub first: u32,
    /// Offset of the fragment in the message, in bytes.
    pub offset: u32,
    /// Length of the message in bytes.
    pub length: u32,
}

/// OPT_NAK_BO_IVL: back-off interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOffInterval {
    /// Interval in microseconds.
    pub interval_us: u32,
    /// Sequence number of the POLL from which it holds; zero is now.
    pub poll_sqn: u32,
}

/// OPT_NAK_BO_RNG: range of back-off intervals that the source regards as reasonable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOffRange {
    /// Maximum in microseconds.
    pub max_us: u32,
    /// Minimum in microseconds.
    pub min_us: u32,
}

impl ParityParameters {
    /// Flag of parity on demand.
    pub const ON_DEMAND: u8 = 0x01;
    /// Flag of proactive parity.
    pub const PROACTIVE: u8 = 0x02;
}

/// OPT_PARITY_PRM: parity packets of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityParameters {
    /// Flags: 0x02 for proactive, 0x01 for on-demand parity, as in the figure (P left of O) and in the Wireshark
    /// dissector; OpenPGM exchanges the two.
    pub flags: u8,
    /// Number of packets in a transmission group.
    pub group_size: u32,
}

/// OPT_NAK_LIST: up to 62 sequence numbers besides that of the header, as in the packet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct NakList<'a>(&'a [u8]);

impl<'a> NakList<'a> {
    /// Maximum number of entries.
    pub const MAX: usize = 62;

    /// List of these bytes, four for each number; `None` if they are too many or not a multiple of four.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len().is_multiple_of(4) && bytes.len() <= 4 * Self::MAX).then_some(NakList(bytes))
    }

    /// Sequence numbers in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.0.as_chunks::<4>().0.iter().map(|number| u32::from_be_bytes(*number))
    }

    /// Encoded list.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns true if the list is empty, so that there is no option.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for NakList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Options<'a> {
    /// Options with a list of further packets only, four bytes each. A list that is too long for a packet is left
    /// out.
    pub fn listing(list: &'a [u8]) -> Self {
        Options { nak_list: NakList::from_bytes(list).unwrap_or_default(), ..Options::default() }
    }

    /// Parses the options at the front.
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        // OPT_LENGTH comes first and covers all options, itself included (section 9.1).
        let [kind, len, total @ ..] = reader.array::<4>()?;
        let wrong = |field, value: u8| ParseError::Field { field, value: value.into() };
        if kind & !END != LENGTH || len != 4 {
            return Err(wrong("OPT_LENGTH", len));
        }
        let total = usize::from(u16::from_be_bytes(total));
        let all = reader.bytes(total.checked_sub(4).ok_or(wrong("OPT_LENGTH", total as u8))?)?;
        let mut rest = Reader::new(all);
        let mut options = Options::default();
        let mut ended = kind & END != 0;
        // The bound holds even if no option has the end bit.
        for _ in 1..MAX_OPTIONS {
            if ended {
                break;
            }
            let [kind, len, _, own] = rest.array::<4>()?;
            ended = kind & END != 0;
            let len = len.checked_sub(4).ok_or(wrong("option length", len))?;
            let contents = rest.bytes(len.into())?;
            options.add(kind & !END, own, contents)?;
        }
        // The option with the end bit must be the last one.
        match ended && rest.rest().is_empty() {
            true => Ok(options),
            false => Err(wrong("OPT_LENGTH", total as u8)),
        }
    }

    fn add(&mut self, kind: u8, own: u8, contents: &'a [u8]) -> Result<(), ParseError> {
        let mut reader = Reader::new(contents);
        match kind {
            FRAGMENT => {
                let (first, offset, length) = (reader.u32()?, reader.u32()?, reader.u32()?);
                self.fragment = Some(Fragment { first, offset, length });
            }
            NAK_LIST => {
                let list = NakList::from_bytes(contents).filter(|list| !list.is_empty());
                let wrong = ParseError::Field { field: "OPT_NAK_LIST", value: contents.len() as u64 };
                self.nak_list = list.ok_or(wrong)?;
                return Ok(());
            }
            JOIN => self.join = Some(reader.u32()?),
            NAK_BO_IVL => {
                let (interval_us, poll_sqn) = (reader.u32()?, reader.u32()?);
                self.back_off_interval = Some(BackOffInterval { interval_us, poll_sqn });
            }
            NAK_BO_RNG => {
                let (max_us, min_us) = (reader.u32()?, reader.u32()?);
                self.back_off_range = Some(BackOffRange { max_us, min_us });
            }
            REDIRECT => self.redirect = Some(reader.nla()?),
            PARITY_PRM => {
                self.parity_parameters = Some(ParityParameters { flags: own, group_size: reader.u32()? });
            }
            PARITY_GRP => self.parity_group = Some(reader.u32()?),
            NBR_UNREACH => self.neighbour_unreachable = true,
            PATH_NLA => {
                self.path = Some(match contents.len() {
                    // OPT_PATH_NLA has no family field; its length tells the family (section 15.4.4).
                    16 => Ipv6Addr::from(reader.array::<16>()?).into(),
                    _ => Ipv4Addr::from(reader.array::<4>()?).into(),
                });
            }
            SYN => self.syn = true,
            FIN => self.fin = true,
            RST => self.reset = Some(own),
            PGMCC_DATA => {
                self.election = Some(AckerElection { timestamp_ms: reader.u32()?, acker: reader.nla()? });
            }
            PGMCC_FEEDBACK => {
                let timestamp_ms = reader.u32()?;
                let (receiver, loss) = reader.nla_with()?;
                self.report = Some(LossReport { timestamp_ms, loss, receiver });
            }
            // End systems skip unknown options; OPX concerns network elements only.
            _ => return Ok(()),
        }
        match reader.rest() {
            [] => Ok(()),
            rest => Err(ParseError::Field { field: "option length", value: rest.len() as u64 }),
        }
    }

    /// Appends the options, beginning with those for network elements.
    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        let total = self.wire_len();
        if total == 0 {
            return;
        }
        buf.extend_from_slice(&[LENGTH, 4]);
        buf.extend_from_slice(&(total as u16).to_be_bytes());
        // Offset of the last option, which gets the end bit.
        let mut last = 0;
        let mut head = |buf: &mut Vec<u8>, kind: u8, contents: usize, own: u8| {
            last = buf.len();
            buf.extend_from_slice(&[kind, 4 + contents as u8, 0, own]);
        };
        if !self.nak_list.is_empty() {
            head(buf, NAK_LIST, self.nak_list.0.len(), 0);
            buf.extend_from_slice(self.nak_list.0);
        }
        if let Some(BackOffInterval { interval_us, poll_sqn }) = self.back_off_interval {
            head(buf, NAK_BO_IVL, 8, 0);
            buf.extend_from_slice(&interval_us.to_be_bytes());
            buf.extend_from_slice(&poll_sqn.to_be_bytes());
        }
        if let Some(BackOffRange { max_us, min_us }) = self.back_off_range {
            head(buf, NAK_BO_RNG, 8, 0);
            buf.extend_from_slice(&max_us.to_be_bytes());
            buf.extend_from_slice(&min_us.to_be_bytes());
        }
        if let Some(address) = self.redirect {
            head(buf, REDIRECT, 4 + address_len(address), 0);
            put_nla(address, buf);
        }
        if let Some(ParityParameters { flags, group_size }) = self.parity_parameters {
            head(buf, PARITY_PRM, 4, flags);
            buf.extend_from_slice(&group_size.to_be_bytes());
        }
        if self.neighbour_unreachable {
            head(buf, NBR_UNREACH, 0, 0);
        }
        if let Some(address) = self.path {
            head(buf, PATH_NLA, address_len(address), 0);
            put_address(address, buf);
        }
        if let Some(Fragment { first, offset, length }) = self.fragment {
            head(buf, FRAGMENT, 12, 0);
            for number in [first, offset, length] {
                buf.extend_from_slice(&number.to_be_bytes());
            }
        }
        if let Some(group) = self.parity_group {
            head(buf, PARITY_GRP, 4, 0);
            buf.extend_from_slice(&group.to_be_bytes());
        }
        if let Some(minimum) = self.join {
            head(buf, JOIN, 4, 0);
            buf.extend_from_slice(&minimum.to_be_bytes());
        }
        if self.syn {
            head(buf, SYN, 0, 0);
        }
        if self.fin {
            head(buf, FIN, 0, 0);
        }
        if let Some(flags) = self.reset {
            head(buf, RST, 0, flags);
        }
        if let Some(AckerElection { timestamp_ms, acker }) = self.election {
            head(buf, PGMCC_DATA, 8 + address_len(acker), 0);
            buf.extend_from_slice(&timestamp_ms.to_be_bytes());
            put_nla(acker, buf);
        }
        if let Some(LossReport { timestamp_ms, loss, receiver }) = self.report {
            head(buf, PGMCC_FEEDBACK, 8 + address_len(receiver), 0);
            buf.extend_from_slice(&timestamp_ms.to_be_bytes());
            put_nla_with(receiver, loss, buf);
        }
        // The end bit marks the last option.
        buf[last] |= END;
    }

    /// Bytes of all options and of OPT_LENGTH; 0 without options.
    pub(super) fn wire_len(&self) -> usize {
        let list = if self.nak_list.is_empty() { 0 } else { 4 + self.nak_list.0.len() };
        let present = |is: bool, len: usize| if is { len } else { 0 };
        let sum = list
            + present(self.back_off_interval.is_some(), 12)
            + present(self.back_off_range.is_some(), 12)
            + self.redirect.map_or(0, |address| 8 + address_len(address))
            + present(self.parity_parameters.is_some(), 8)
            + present(self.neighbour_unreachable, 4)
            + self.path.map_or(0, |address| 4 + address_len(address))
            + present(self.fragment.is_some(), 16)
            + present(self.parity_group.is_some(), 8)
            + present(self.join.is_some(), 8)
            + present(self.syn, 4)
            + present(self.fin, 4)
            + present(self.reset.is_some(), 4)
            + self.election.map_or(0, |election| 12 + address_len(election.acker))
            + self.report.map_or(0, |report| 12 + address_len(report.receiver));
        if sum == 0 { 0 } else { 4 + sum }
    }

    /// Returns true if network elements must process an option.
    pub(super) fn has_network_significant(&self) -> bool {
        !self.nak_list.is_empty()
            || self.back_off_interval.is_some()
            || self.back_off_range.is_some()
            || self.redirect.is_some()
            || self.parity_parameters.is_some()
            || self.neighbour_unreachable
            || self.path.is_some()
    }
}

impl fmt::Display for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.nak_list.is_empty() {
            write!(f, " list {:?}", self.nak_list)?;
        }
        if self.parity {
            f.write_str(if self.variable_length { " parity of lengths" } else { " parity" })?;
        }
        if let Some(group) = self.parity_group {
            write!(f, " group {group}")?;
        }
        if let Some(minimum) = self.join {
            write!(f, " join {minimum}")?;
        }
        if let Some(Fragment { first, offset, length }) = self.fragment {
            write!(f, " fragment of {first} at {offset} of {length}")?;
        }
        if let Some(address) = self.redirect {
            write!(f, " redirect {address}")?;
        }
        if let Some(AckerElection { timestamp_ms, acker }) = self.election {
            write!(f, " at {timestamp_ms} acker {acker}")?;
        }
        if let Some(LossReport { timestamp_ms, loss, receiver }) = self.report {
            write!(f, " at {timestamp_ms} loss {loss} of {receiver}")?;
        }
        let words = [
            (self.neighbour_unreachable, " unreachable"),
            (self.syn, " syn"),
            (self.fin, " fin"),
            (self.reset.is_some(), " reset"),
        ];
        words.into_iter().filter(|(is, _)| *is).try_for_each(|(_, word)| f.write_str(word))
    }
}

fn address_len(address: IpAddr) -> usize {
    if address.is_ipv4() { 4 } else { 16 }
}

/// Flag of the last option.
const END: u8 = 0x80;
/// Maximum number of options in a packet, OPT_LENGTH included (section 9).
const MAX_OPTIONS: usize = 16;

const LENGTH: u8 = 0x00;
/// OPT_FRAGMENT with 16 bytes as in its figure; the 12 of its text are an error of the RFC.
const FRAGMENT: u8 = 0x01;
const NAK_LIST: u8 = 0x02;
const JOIN: u8 = 0x03;
const NAK_BO_IVL: u8 = 0x04;
const NAK_BO_RNG: u8 = 0x05;
const REDIRECT: u8 = 0x07;
const PARITY_PRM: u8 = 0x08;
const PARITY_GRP: u8 = 0x09;
const NBR_UNREACH: u8 = 0x0b;
const PATH_NLA: u8 = 0x0c;
const SYN: u8 = 0x0d;
const FIN: u8 = 0x0e;
const RST: u8 = 0x0f;
const PGMCC_DATA: u8 = 0x12;
const PGMCC_FEEDBACK: u8 = 0x13;
