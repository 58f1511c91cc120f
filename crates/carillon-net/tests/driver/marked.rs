//! The code point of differentiated services in the packets that an endpoint sends.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use carillon_core::{Dest, NodeId};
use carillon_net::{Dscp, EndpointConfig, GROUP};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use socket2::{Domain, Socket, Type};

use crate::common::{Talker, driver, group, in_namespace, multicast_works, run, sending};

/// A socket that receives this group on loopback, with the traffic class of each datagram.
fn listener(group: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::for_address(group), Type::DGRAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("an option");
    socket.bind(&group.into()).expect("a port");
    match group {
        SocketAddr::V4(group) => {
            socket.join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST).expect("a member");
            socket.set_recv_tos_v4(true).expect("an option");
        }
        SocketAddr::V6(group) => {
            socket.join_multicast_v6(group.ip(), 1).expect("a member");
            socket.set_recv_tclass_v6(true).expect("an option");
        }
    }
    socket.set_nonblocking(true).expect("an option");
    socket
}

/// Traffic class and length of the datagrams that are here.
fn arrived(socket: &Socket) -> Vec<(i32, usize)> {
    let mut arrived = Vec::new();
    let (mut bytes, mut control) = ([0; 2000], nix::cmsg_space!(i32, u8));
    loop {
        let mut into = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::empty();
        let Ok(got) = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut into, Some(&mut control), flags)
        else {
            return arrived;
        };
        let class = got.cmsgs().expect("ancillary data").find_map(|message| match message {
            ControlMessageOwned::Ipv4Tos(class) => Some(i32::from(class)),
            ControlMessageOwned::Ipv6TClass(class) => Some(class),
            _ => None,
        });
        arrived.push((class.expect("a class"), got.bytes));
    }
}

/// Single datagrams, batches that the system cuts into segments, and datagrams to one host.
fn all_are_marked(group: SocketAddr) {
    for (dscp, class) in [("ef", 0xb8), ("8", 0x20), ("cs0", 0)] {
        let socket = listener(group);
        let dscp: Option<Dscp> = dscp.parse().ok();
        let mut all = [
            driver(EndpointConfig { dscp, ..sending(group) }, Talker::default()),
            driver(EndpointConfig { dscp, listen: true, ..sending(group) }, Talker::default()),
        ];
        for _ in 0..40 {
            all[0].machine_mut().say(Dest::group(GROUP), vec![7; 900]);
        }
        all[0].machine_mut().say(Dest::group(GROUP), "ping");
        let mut seen = Vec::new();
        run(&mut all, |all| {
            seen.extend(arrived(&socket));
            seen.len() >= 41 && all[1].machine().heard.len() >= 41
        });
        assert_eq!(seen.iter().map(|(class, _)| *class).collect::<BTreeSet<_>>(), [class].into());
        assert_eq!(seen.iter().map(|(_, len)| *len).collect::<BTreeSet<_>>(), [4, 900].into());
        let stats = all[0].stats();
        assert!(stats.send_calls < stats.datagrams_sent / 4, "they left in batches: {stats:?}");
        // The answer to the sender alone.
        run(&mut all, |all| !all[0].machine().heard.is_empty());
        assert_eq!(all[0].machine().heard[0].from, NodeId(1));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn packets_have_the_code_point_on_ipv4() {
    if multicast_works("packets_have_the_code_point_on_ipv4") {
        all_are_marked(group());
    }
}

#[test]
fn packets_have_the_code_point_on_ipv6() {
    let setup = "ip link set lo up && ip -6 route add local ff00::/8 dev lo table local";
    if in_namespace("marked::packets_have_the_code_point_on_ipv6", setup) {
        all_are_marked(SocketAddr::new("ff15::4341".parse().expect("a group"), group().port()));
    }
}
