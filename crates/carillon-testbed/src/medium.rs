//! Shared medium between the nodes: the simulator's model of an Ethernet or a radio, run in real time.
//!
//! A thread holds the far ends of all wires. A frame that a node sends arrives here at once and is queued in the
//! model, which senses, collides and backs off as in the simulator. When the model has sent a frame, the thread
//! writes it to the interfaces that receive it. The difference from a simulated run is the jitter of clock and
//! scheduler.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use carillon_core::{Bytes, Dest, Event, GroupId, NodeId, Observer, Seeds, Time, TraceEvent, Transmit};
use carillon_sim::{Arrival, LanConfig, Network as _};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeSpec;

use crate::Error;
use crate::namespaces::{Namespaces, node_of, port};
use crate::shared::Shared;

/// Carries frames until the run is over.
pub(crate) fn carry(
    namespaces: &Namespaces,
    config: LanConfig,
    seeds: &Seeds,
    shared: &Shared,
) -> Result<(), Error> {
    let opened = shared.end(open(namespaces, shared.nodes));
    shared.ready.wait();
    shared.ready.wait();
    let (ports, start) = (opened?, shared.start());
    let mut lan = config.medium(shared.nodes, seeds);
    let (mut tape, mut arrival) = (EventRecorder(Vec::new()), Arrival::default());
    let mut fds: Vec<PollFd<'_>> =
        ports.iter().map(|port| PollFd::new(port.as_fd(), PollFlags::POLLIN)).collect();
    let mut buf = vec![0; 1 << 16];
    while !shared.is_over() {
        let now = Time::ZERO + start.elapsed();
        while let Some((due, _)) = lan.next_time().filter(|&(due, _)| due <= now) {
            if lan.advance(due, &mut arrival, &mut tape) {
                for &receiver in &arrival.receivers {
                    write(&ports[receiver.index()], &arrival.bytes)?;
                }
            }
        }
        let wait = lan.next_time().map_or(MAX_IDLE_WAIT, |(due, _)| due.since(now).min(MAX_IDLE_WAIT));
        match ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(Error::doing("wait for frames")(error)),
        }
        for (node, port) in ports.iter().enumerate() {
            if fds[node].any() != Some(true) {
                continue;
            }
            while let Some(len) = read(port, &mut buf)? {
                let now = Time::ZERO + start.elapsed();
                match classify(&mut buf[..len]) {
                    Frame::Datagram(dest) => {
                        let bytes = Bytes::copy_from_slice(&buf[..len]);
                        lan.transmit(now, NodeId(node as u32), Transmit::now(dest), bytes, &mut tape);
                    }
                    Frame::Housekeeping => {
                        for (_, port) in ports.iter().enumerate().filter(|&(other, _)| other != node) {
                            write(port, &buf[..len])?;
                        }
                    }
                    Frame::Other => {}
                }
            }
        }
    }
    shared.give(tape.0);
    Ok(())
}

/// Maximum wait for frames when the model has no event due; bounds the delay of the end of a run.
const MAX_IDLE_WAIT: Duration = Duration::from_millis(5);

/// Receive buffer of a port in bytes, with the system's overhead per frame. Large enough for a whole window of
/// packets.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

/// Class of a frame.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    /// A datagram, which the medium carries.
    Datagram(Dest),
    /// Address resolution, unknown to the model; forwarded at once.
    Housekeeping,
    /// Other traffic of the system; dropped.
    Other,
}

/// Tells frames apart; takes away the UDP checksum, which the sender's system leaves for an interface to
/// fill in. Zero means that there is none (RFC 768).
fn classify(frame: &mut [u8]) -> Frame {
    const IPV4: [u8; 2] = [0x08, 0x00];
    const ARP: [u8; 2] = [0x08, 0x06];
    const UDP: u8 = 17;
    match frame.get(12..14) {
        Some(kind) if kind == ARP => Frame::Housekeeping,
        Some(kind) if kind == IPV4 && frame.len() >= 42 && frame[14] == 0x45 && frame[23] == UDP => {
            // Of a datagram in fragments only the first has the UDP header.
            if frame[20] & 0x1f == 0 && frame[21] == 0 {
                frame[40..42].fill(0);
            }
            let to = Ipv4Addr::new(frame[30], frame[31], frame[32], frame[33]);
            match node_of(to) {
                Some(node) => Frame::Datagram(Dest::Node(NodeId(node as u32))),
                None if to.is_multicast() => Frame::Datagram(Dest::group(GroupId(0))),
                None => Frame::Other,
            }
        }
        _ => Frame::Other,
    }
}

fn open(namespaces: &Namespaces, nodes: usize) -> Result<Vec<OwnedFd>, Error> {
    namespaces.enter_middle()?;
    let interfaces = nix::ifaddrs::getifaddrs().map_err(Error::doing("list interfaces"))?;
    let links: Vec<(String, LinkAddr)> = interfaces
        .filter_map(|interface| {
            let link = *interface.address?.as_link_addr()?;
            Some((interface.interface_name, link))
        })
        .collect();
    (0..nodes)
        .map(|node| {
            let name = port(node);
            let link = links.iter().find(|(link, _)| *link == name).map(|(_, link)| link);
            let link = link.ok_or(Error::Internal("an interface of the testbed is missing"))?;
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let fd = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
                .map_err(Error::doing("open a packet socket"))?;
            bind(fd.as_raw_fd(), link).map_err(Error::doing(format!("listen to {name}")))?;
            // A node sends its whole window at once. Queueing belongs to the model, so no frame may be lost before
            // it.
            setsockopt(&fd, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES)
                .map_err(Error::doing(format!("set the buffer of {name}")))?;
            Ok(fd)
        })
        .collect()
}

fn read(port: &OwnedFd, buf: &mut [u8]) -> Result<Option<usize>, Error> {
    match recv(port.as_raw_fd(), buf, MsgFlags::empty()) {
        Ok(len) => Ok(Some(len)),
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => Ok(None),
        Err(error) => Err(Error::doing("read a frame")(error)),
    }
}

fn write(port: &OwnedFd, frame: &[u8]) -> Result<(), Error> {
    match send(port.as_raw_fd(), frame, MsgFlags::empty()) {
        // A full queue loses a frame, as an interface does.
        Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR | Errno::ENETDOWN) => Ok(()),
        Err(error) => Err(Error::doing("write a frame")(error)),
    }
}

/// Frames and collisions, as the simulator tells them.
struct EventRecorder(Vec<TraceEvent>);

impl Observer for EventRecorder {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.0.push(TraceEvent { time, node, event: event.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(to: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[23] = 17;
        frame[30..34].copy_from_slice(&to);
        frame[40..42].copy_from_slice(&[1, 2]);
        frame
    }

    #[test]
    fn datagrams_are_carried_and_their_checksums_taken_away() {
        let mut frame = datagram([239, 255, 77, 77]);
        assert_eq!(classify(&mut frame), Frame::Datagram(Dest::group(GroupId(0))));
        assert_eq!(frame[40..42], [0, 0]);
        let mut fragment = datagram([239, 255, 77, 77]);
        fragment[21] = 185;
        assert_eq!(classify(&mut fragment), Frame::Datagram(Dest::group(GroupId(0))));
        assert_eq!(fragment[40..42], [1, 2], "bytes of a message");
        assert_eq!(classify(&mut datagram([10, 77, 0, 3])), Frame::Datagram(Dest::Node(NodeId(2))));
        assert_eq!(classify(&mut datagram([192, 0, 2, 1])), Frame::Other);
    }

    #[test]
    fn any_bytes_are_classified() {
        let mut frame = datagram([10, 77, 0, 3]);
        for len in 0..42 {
            assert_eq!(classify(&mut frame.clone()[..len]), Frame::Other, "{len} bytes");
        }
        frame[13] = 6;
        assert_eq!(classify(&mut frame), Frame::Housekeeping);
    }
}
