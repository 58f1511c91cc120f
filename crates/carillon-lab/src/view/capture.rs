//! Packet captures of runs and real sessions.
//!
//! Each UDP datagram becomes an event `frame_sent` of the node with its source address. A capture tells neither losses
//! nor deliveries. Fragments, other protocols and truncated packets are left out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use carillon_core::{Bytes, Event, Format, Frame, NodeId, Observer as _, ProtocolEntry, Time};
use carillon_proto::REGISTRY;
use carillon_run::trace::Recording;
use carillon_run::trace::recording::{NetworkKind, NodeRole, RecordedNetwork, RecordedNode};
use pcap_file::DataLink;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::source::{ViewError, in_file, title};

/// UDP datagram of a capture.
#[derive(Debug, PartialEq, Eq)]
struct Datagram {
    time: Duration,
    from: SocketAddr,
    to: SocketAddr,
    /// Length of the IP packet.
    length: u32,
    payload: Bytes,
}

/// Reads a capture.
pub(super) fn read(
    path: &Path,
    protocol: Option<&'static ProtocolEntry>,
    limit: usize,
) -> Result<Recording, ViewError> {
    let (datagrams, is_truncated) = datagrams(path, limit)?;
    let formats = || {
        protocol.map_or_else(
            || REGISTRY.iter().map(|entry| entry.packets.format).collect(),
            |entry| vec![entry.packets.format],
        )
    };
    let parsed = |format: &&'static Format| {
        let sample = datagrams.iter().take(SAMPLE);
        sample.filter(|datagram| (format.summary)(&datagram.payload).is_some()).count()
    };
    let formats: Vec<&'static Format> = formats();
    let Some(format) = formats.into_iter().rev().max_by_key(parsed) else {
        return Err(ViewError::Content { path: path.into(), problem: "no protocol is known".to_owned() });
    };
    let name = match (protocol, parsed(&format)) {
        (Some(entry), _) => entry.name,
        (None, 0) => "",
        (None, _) => REGISTRY
            .iter()
            .find(|entry| std::ptr::eq(entry.packets.format, format))
            .map_or("", |entry| entry.name),
    };
    // Nodes are numbered in the order of their first datagrams; multicast groups are no nodes.
    let mut numbers: BTreeMap<SocketAddr, u32> = BTreeMap::new();
    let mut found: Vec<SocketAddr> = Vec::new();
    for datagram in &datagrams {
        for address in [datagram.from, datagram.to].into_iter().filter(|address| is_node(address.ip())) {
            numbers.entry(address).or_insert_with(|| {
                found.push(address);
                found.len() as u32 - 1
            });
        }
    }
    let mut ports: BTreeMap<IpAddr, usize> = BTreeMap::new();
    found.iter().for_each(|address| *ports.entry(address.ip()).or_default() += 1);
    let node = |(id, address): (u32, &SocketAddr)| {
        // Several nodes of one host differ in their ports.
        let is_alone = ports.get(&address.ip()) == Some(&1);
        let name = if is_alone { address.ip().to_string() } else { address.to_string() };
        RecordedNode { id, role: NodeRole::Node, name: Some(name) }
    };
    let nodes = (0..).zip(&found).map(node).collect();
    let network = RecordedNetwork::new(NetworkKind::Real, nodes, Vec::new());
    let mut recording = Recording::new(network, format, limit.saturating_add(1));
    let start = datagrams.iter().map(|datagram| datagram.time).min().unwrap_or_default();
    for datagram in &datagrams {
        let nanos = u64::try_from((datagram.time - start).as_nanos()).unwrap_or(u64::MAX);
        let from = numbers.get(&datagram.from).copied().unwrap_or(u32::MAX);
        recording.frame(&Frame::new(None, &datagram.payload));
        recording.event(Time::from_nanos(nanos), NodeId(from), &Event::FrameSent { bytes: datagram.length });
        if let Some(&to) = numbers.get(&datagram.to) {
            recording.set_destination(NodeId(to));
        }
    }
    let recording = recording.titled(title(path), name);
    Ok(if is_truncated { recording.truncated() } else { recording })
}

/// The UDP datagrams of a capture, at most `limit`, and whether there are more.
fn datagrams(path: &Path, limit: usize) -> Result<(Vec<Datagram>, bool), ViewError> {
    let wrong = |problem: String| ViewError::Content { path: path.into(), problem };
    let file = BufReader::new(File::open(path).map_err(in_file(path))?);
    let mut reader =
        PcapNgReader::new(file).map_err(|error| wrong(format!("is no packet capture (pcapng): {error}")))?;
    let (mut links, mut found): (Vec<DataLink>, Vec<Datagram>) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.map_err(|error| wrong(format!("is damaged after {} datagrams: {error}", found.len())))? {
            Block::SectionHeader(_) => links.clear(),
            Block::InterfaceDescription(interface) => links.push(interface.linktype),
            Block::EnhancedPacket(packet) => {
                let link = links.get(packet.interface_id as usize).copied();
                let datagram = match link {
                    Some(DataLink::ETHERNET) => ethernet(&packet.data),
                    Some(DataLink::RAW | DataLink::IPV4 | DataLink::IPV6) => ip(&packet.data),
                    Some(DataLink::LINUX_SLL) => packet.data.get(SLL_HEADER..).and_then(ip),
                    Some(other) => {
                        return Err(wrong(format!(
                            "has packets of the link type {other:?}; Ethernet, IP and Linux cooked are known"
                        )));
                    }
                    None => {
                        return Err(wrong(format!(
                            "has a packet of interface {}, which it does not describe",
                            packet.interface_id
                        )));
                    }
                };
                let Some(datagram) = datagram else { continue };
                if found.len() >= limit {
                    return Ok((found, true));
                }
                found.push(Datagram { time: packet.timestamp, ..datagram });
            }
            _ => {}
        }
    }
    Ok((found, false))
}

fn ethernet(frame: &[u8]) -> Option<Datagram> {
    let kind = u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]);
    matches!(kind, 0x0800 | 0x86dd).then(|| ip(&frame[14..]))?
}

/// UDP datagram of an IP packet that is no fragment.
fn ip(packet: &[u8]) -> Option<Datagram> {
    let (from, to, header): (IpAddr, IpAddr, usize) = match packet.first()? >> 4 {
        4 => {
            let is_fragment = (u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff) != 0;
            if is_fragment || *packet.get(9)? != UDP {
                return None;
            }
            let address = |at: usize| Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?).into());
            (address(12)?, address(16)?, usize::from(packet[0] & 15) * 4)
        }
        6 if *packet.get(6)? == UDP => {
            let address = |at: usize| Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?).into());
            (address(8)?, address(24)?, 40)
        }
        _ => return None,
    };
    let udp = packet.get(header..)?;
    let number = |at: usize| Some(u16::from_be_bytes([*udp.get(at)?, *udp.get(at + 1)?]));
    let (from, to) = (SocketAddr::new(from, number(0)?), SocketAddr::new(to, number(2)?));
    let payload = udp.get(8..usize::from(number(4)?))?;
    let length = 8 + payload.len();
    let length = (header + length) as u32;
    Some(Datagram { time: Duration::ZERO, from, to, length, payload: Bytes::copy_from_slice(payload) })
}

/// Returns true for the address of a node, and not of a group or of all nodes.
fn is_node(address: IpAddr) -> bool {
    !address.is_multicast() && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

const UDP: u8 = 17;
/// Bytes of the header of Linux cooked captures.
const SLL_HEADER: usize = 16;
/// Number of datagrams by which the protocol is recognized.
const SAMPLE: usize = 2_000;
