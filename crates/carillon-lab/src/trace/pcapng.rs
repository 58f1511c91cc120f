//! The trace as a packet capture: each datagram as the Ethernet frame it could have been.
//!
//! Blocks: IETF draft-ietf-opsawg-pcapng. Frames: IPv4 (RFC 791) or IPv6 (RFC 8200), UDP
//! (RFC 768), multicast hardware addresses (RFC 1112, RFC 2464). Simulated nodes have made-up
//! addresses that follow from their numbers; nodes of a real run have their own.
//!
//! Left out: fragments (a frame is as long as its datagram) and the padding and check sequence
//! of Ethernet.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use carillon_core::{
    Bytes, Dest, Duration, Event, GroupId, NodeId, NumberedAddresses, Observer, PortId, PortSet, Time,
};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};

/// Options of a capture: facts that datagrams alone do not tell.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The name of the run, shown as the name of the capture's interface. At most 255 bytes count.
    pub name: String,
    /// The UDP port of nodes and groups that have no address below.
    pub port: u16,
    /// The wall clock at the start of the run, since the Unix epoch; zero for simulated runs.
    pub start: Duration,
    /// The addresses of nodes. One without has the made-up address of its number.
    pub nodes: BTreeMap<NodeId, SocketAddr>,
    /// Addresses of groups; a group without one gets a default address.
    pub groups: BTreeMap<GroupId, SocketAddr>,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        CaptureOptions {
            name: "carillon".into(),
            port: DEFAULT_PORT,
            start: Duration::ZERO,
            nodes: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }
}

/// Writer of each datagram as a frame of a pcapng file, with its time to the nanosecond.
///
/// Node n is 10.0.0.1 + n (fd00::10.0.0.1 + n), group g is 239.255.0.1 + g (ff15::1 + g). A datagram that a relay
/// sends to chosen ports without routing goes to the broadcast address (ff02::1), with the ports in a comment. The
/// address family is the sender's.
///
/// The first error ends the capture and is kept for [`Capture::finish`]; the run continues.
#[derive(Debug)]
pub struct Capture<W: Write> {
    /// `None` after an error.
    blocks: Option<Blocks<W>>,
    error: Option<io::Error>,
    options: CaptureOptions,
    frame: Vec<u8>,
}

impl<W: Write> Capture<W> {
    /// Writes to `out`, by way of a buffer, and begins with the headers of the file.
    pub fn new(out: W, options: CaptureOptions) -> io::Result<Self> {
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(APPLICATION.into())],
            ..SectionHeaderBlock::default()
        };
        // An option's length has 16 bits.
        let name = options.name[..options.name.floor_char_boundary(255)].to_owned();
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: SNAP_LENGTH,
            options: vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        let out = BufWriter::new(out);
        let mut writer = PcapNgWriter::with_section_header(out, section).map_err(into_io)?;
        writer.write_pcapng_block(interface).map_err(into_io)?;
        Ok(Capture { blocks: Some(Blocks(writer)), error: None, options, frame: Vec::new() })
    }

    /// Sets the address of a node from now on.
    pub fn name_node(&mut self, node: NodeId, address: SocketAddr) {
        self.options.nodes.insert(node, address);
    }

    /// Flushes the buffer and returns the first write error, if any.
    pub fn finish(self) -> io::Result<()> {
        match (self.error, self.blocks) {
            (Some(error), _) => Err(error),
            (None, Some(blocks)) => blocks.0.into_inner().flush(),
            (None, None) => Ok(()),
        }
    }

    fn endpoints(&self, from: NodeId, to: &Dest) -> Endpoints {
        let source = self.options.nodes.get(&from).copied();
        let v6 = source.is_some_and(|address| address.is_ipv6());
        // A given address of the other family cannot stand in the same frame.
        let fits = |address: &&SocketAddr| address.is_ipv6() == v6;
        let port = self.options.port;
        let source = source.unwrap_or_else(|| SocketAddr::new(node_address(from, v6), port));
        let (destination, hardware, hops) = match to {
            Dest::Node(node) => {
                let given = self.options.nodes.get(node).filter(fits).copied();
                let address = given.unwrap_or_else(|| SocketAddr::new(node_address(*node, v6), port));
                (address, hardware_address(address.ip(), *node), UNICAST_HOPS)
            }
            Dest::Group { group, scope } => {
                let given = self.options.groups.get(group).filter(fits).copied();
                let address = given.unwrap_or_else(|| SocketAddr::new(group_address(*group, v6), port));
                // Only an address that is no multicast address needs a node's; it has none.
                (address, hardware_address(address.ip(), from), scope.0)
            }
            // Addresses as seen at the destination of the datagram.
            Dest::Ports { source, dest, .. } => return self.endpoints(*source, dest),
        };
        Endpoints { source, source_hardware: node_hardware(from), destination, hardware, hops }
    }

    fn write(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &[u8]) -> io::Result<()> {
        let endpoints = self.endpoints(from, to);
        let Some(blocks) = &mut self.blocks else { return Ok(()) };
        let left_out = endpoints.write_frame(bytes, &mut self.frame);
        let options = match to {
            Dest::Ports { ports, .. } => vec![EnhancedPacketOption::Comment(port_list(ports).into())],
            _ => Vec::new(),
        };
        // The format counts 64 bits of nanoseconds, up to the year 2554.
        let nanos = self.options.start.as_nanos().saturating_add(time.as_nanos().into());
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
            original_len: u32::try_from(self.frame.len() + left_out).unwrap_or(u32::MAX),
            data: Cow::Borrowed(&self.frame),
            options,
        };
        blocks.0.write_block(&block.into_block()).map_err(into_io).map(drop)
    }
}

impl<W: Write + Send> Observer for Capture<W> {
    fn event(&mut self, _time: Time, _node: NodeId, _event: &Event) {}

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        if let Err(error) = self.write(time, from, to, bytes) {
            self.error = Some(error);
            self.blocks = None;
        }
    }
}

/// Writer of pcapng blocks. The library writes packet times in nanoseconds whatever the interface block says, so the
/// interface block declares nanoseconds.
struct Blocks<W: Write>(PcapNgWriter<BufWriter<W>>);

impl<W: Write> std::fmt::Debug for Blocks<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blocks")
    }
}

/// The addresses of one datagram.
struct Endpoints {
    source: SocketAddr,
    source_hardware: [u8; 6],
    destination: SocketAddr,
    hardware: [u8; 6],
    hops: u8,
}

impl Endpoints {
    /// Makes the frame of a datagram. One that is too long for IP to carry is cut; returns how
    /// many bytes were left out.
    fn write_frame(&self, payload: &[u8], frame: &mut Vec<u8>) -> usize {
        frame.clear();
        frame.extend_from_slice(&self.hardware);
        frame.extend_from_slice(&self.source_hardware);
        let carried = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let carried = payload.len().min(MAX_IPV4_PAYLOAD);
                self.write_ipv4(source, destination, carried, frame);
                carried
            }
            (source, destination) => {
                let carried = payload.len().min(MAX_IPV6_PAYLOAD);
                self.write_ipv6(to_v6(source), to_v6(destination), carried, frame);
                carried
            }
        };
        let udp = frame.len();
        let length = short(UDP_HEADER + carried);
        frame.extend_from_slice(&self.source.port().to_be_bytes());
        frame.extend_from_slice(&self.destination.port().to_be_bytes());
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&[0, 0]);
        frame.extend_from_slice(&payload[..carried]);
        // The pseudo-header: both addresses, which end the IP header, then protocol and length.
        let addresses = if self.source.is_ipv4() { 8 } else { 32 };
        let pseudo = sum(&frame[udp - addresses..udp]) + u64::from(UDP) + u64::from(length);
        // A checksum of zero would say that there is none.
        let checksum = match checksum(pseudo + sum(&frame[udp..])) {
            0 => 0xffff,
            checksum => checksum,
        };
        frame[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
        payload.len() - carried
    }

    fn write_ipv4(&self, source: Ipv4Addr, destination: Ipv4Addr, carried: usize, frame: &mut Vec<u8>) {
        frame.extend_from_slice(&[0x08, 0x00]);
        let ip = frame.len();
        frame.extend_from_slice(&[0x45, 0]);
        frame.extend_from_slice(&short(IPV4_HEADER + UDP_HEADER + carried).to_be_bytes());
        // Never fragmented, so the identification is free (RFC 6864).
        frame.extend_from_slice(&[0, 0, 0x40, 0]);
        frame.extend_from_slice(&[self.hops, UDP, 0, 0]);
        frame.extend_from_slice(&source.octets());
        frame.extend_from_slice(&destination.octets());
        let checksum = checksum(sum(&frame[ip..]));
        frame[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
    }

    fn write_ipv6(&self, source: Ipv6Addr, destination: Ipv6Addr, carried: usize, frame: &mut Vec<u8>) {
        frame.extend_from_slice(&[0x86, 0xdd]);
        frame.extend_from_slice(&[0x60, 0, 0, 0]);
        frame.extend_from_slice(&short(UDP_HEADER + carried).to_be_bytes());
        frame.extend_from_slice(&[UDP, self.hops]);
        frame.extend_from_slice(&source.octets());
        frame.extend_from_slice(&destination.octets());
    }
}

/// The made-up address of a node: what packets that carry addresses call it ([`NumberedAddresses`]).
fn node_address(node: NodeId, v6: bool) -> IpAddr {
    let v4 = NumberedAddresses::node(node);
    if v6 { (NODES_V6 | u128::from(u32::from(v4))).to_be_bytes().into() } else { v4.into() }
}

fn group_address(group: GroupId, v6: bool) -> IpAddr {
    let low = group.0.wrapping_add(1);
    if v6 {
        (GROUPS_V6 | u128::from(low)).to_be_bytes().into()
    } else {
        NumberedAddresses::group(group).into()
    }
}

fn node_hardware(node: NodeId) -> [u8; 6] {
    let [_, high, middle, low] = node.0.to_be_bytes();
    [0x02, 0, 0, high, middle, low]
}

/// The hardware address that frames to an address have: `node`'s if it is a node's.
fn hardware_address(address: IpAddr, node: NodeId) -> [u8; 6] {
    match address {
        IpAddr::V4(Ipv4Addr::BROADCAST) => [0xff; 6],
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [_, high, middle, low] = v4.octets();
            [0x01, 0x00, 0x5e, high & 0x7f, middle, low]
        }
        IpAddr::V6(v6) if v6.is_multicast() => {
            let [.., a, b, c, d] = v6.octets();
            [0x33, 0x33, a, b, c, d]
        }
        _ => node_hardware(node),
    }
}

fn to_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn port_list(ports: &PortSet) -> String {
    let ports: Vec<String> = ports.iter().map(|port: PortId| port.to_string()).collect();
    format!("out of ports {}", ports.join(" "))
}

fn short(length: usize) -> u16 {
    u16::try_from(length).expect("payloads are cut to what the headers can count")
}

/// The sum of the 16-bit words of which the Internet checksum is made (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>() + last
}

fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        error => io::Error::other(error),
    }
}

/// The port of captures that are given none.
pub const DEFAULT_PORT: u16 = 7654;

const APPLICATION: &str = concat!("carillon ", env!("CARGO_PKG_VERSION"));
/// `if_tsresol`: negative powers of ten.
const NANOSECONDS: u8 = 9;
/// Snapshot length: the maximum that readers accept. No frame reaches it.
const SNAP_LENGTH: u32 = 262_144;

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const MAX_IPV4_PAYLOAD: usize = 65_535 - IPV4_HEADER - UDP_HEADER;
const MAX_IPV6_PAYLOAD: usize = 65_535 - UDP_HEADER;
const UNICAST_HOPS: u8 = 64;

/// fd00::/8 is for local use (RFC 4193); ff15::/16 are transient groups of a site (RFC 4291).
const NODES_V6: u128 = 0xfd00 << 112;
const GROUPS_V6: u128 = 0xff15 << 112;
