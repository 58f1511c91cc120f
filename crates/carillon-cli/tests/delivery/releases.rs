//! Members of other releases: both ends report them by name, and a sender that leaves one out fails. A socket of the
//! test plays the other end.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::delivery::support::{Place, listener, loopback_sender, need_multicast, wait_until_or};

/// DECLINE of wire version 9, release 7.8.9, by "later", for the session of this INVITE. A sender reads its fixed
/// part only.
fn later_decline(invite: &[u8]) -> Vec<u8> {
    [&[0xCA, 3, 0, 12], &invite[4..8], &[0, 9, 7, 8, 9, 5], b"later", &[0xFF; 3]].concat()
}

/// A receiver with session version 2. It sends a challenge before it declines, like release 0.1.0.
fn earlier_receiver(group: SocketAddrV4) -> thread::JoinHandle<SocketAddr> {
    let hears = listener(group).expect("a socket in the group");
    let speaks = loopback_sender().expect("a socket");
    speaks.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket with patience");
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        loop {
            let (len, sender) = hears.recv_from(&mut buffer).expect("a notice within ten seconds");
            // The form that includes the datagram sizes.
            let packet = &buffer[..len];
            if packet[..4] != [0xCA, 2, 0, 1] || packet[8..12] != [0, 30, 1, 0] || len != 8 + 17 + 31 {
                continue;
            }
            let session = packet[4..8].to_vec();
            let of = |kind: u8, rest: &[u8]| [&[0xCA, 2, 0, kind], &session[..], rest].concat();
            speaks.send_to(&of(13, b"nonce678"), sender).expect("an ASK");
            let len = speaks.recv(&mut buffer).expect("an ANSWER");
            assert_eq!(buffer[..16], of(14, b"nonce678")[..]);
            // State gathering, the parameters of the notice, no text.
            assert_eq!((len, buffer[16], buffer[25]), (26, 0, 0));
            assert_ne!(buffer[17..25], [0; 8]);
            speaks.send_to(&of(12, b"\x07\x02earlierno"), sender).expect("a DECLINE");
            return speaks.local_addr().expect("an address");
        }
    })
}

fn later_receiver(group: SocketAddrV4) -> thread::JoinHandle<()> {
    let hears = listener(group).expect("a socket in the group");
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        loop {
            let (len, sender) = hears.recv_from(&mut buffer).expect("an invitation within ten seconds");
            if len > 8 && buffer[..4] == [0xCA, 3, 0, 1] {
                let speaks = loopback_sender().expect("a socket");
                for _ in 0..2 {
                    speaks.send_to(&later_decline(&buffer[..len]), sender).expect("a DECLINE");
                }
                return;
            }
        }
    })
}

#[test]
fn sender_names_receivers_of_other_releases_and_fails() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 50_000);
    let (earlier, later) = (earlier_receiver(place.group), later_receiver(place.group));
    let sender = place.send("s").arg(&file).args("--name s --receivers 1 --json").start();
    later.join().expect("a receiver of a later release");
    earlier.join().expect("a receiver of an earlier release");
    let receiver = place.recv("a").start();
    let ended = sender.end_within(Duration::from_secs(30));
    receiver.end().expect(0);
    let out = ended.expect(1).out;
    for row in [
        r#""reason":"runs an earlier release (from before wire version 3) of carillon""#,
        r#""reason":"runs release 7.8.9 with wire version 9 of carillon""#,
    ] {
        assert!(out.contains(row), "{row}: {out}");
    }
    assert!(
        out.contains("earlier") && out.contains("later") && out.contains(r#""outcome":"verified""#),
        "{out}"
    );
}

#[test]
fn receiver_names_senders_of_other_releases() {
    need_multicast!();
    let place = Place::new();
    let mut receiver = place.recv("a").start();
    let sender: UdpSocket = loopback_sender().expect("a socket");
    // INVITE of wire version 9 by "s1"; and of session version 2 by "old", to the protocol "p".
    let later = [&[0xCA, 3, 0, 1, 0, 0, 0, 9, 0, 9, 7, 8, 9, 2], &b"s1"[..], &[0xFF; 40]].concat();
    let fixed = [0xCA, 2, 0, 1, 0, 0, 0, 8, 0, 1, 3, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0];
    let earlier = [&fixed[..], b"pold"].concat();
    for (packet, line) in [(&later, "sender s1 (127.0.0.1:"), (&earlier, "sender old (127.0.0.1:")] {
        wait_until_or(
            line,
            || receiver.err(),
            || {
                sender.send_to(packet, place.group).expect("the group can be sent to");
                thread::sleep(Duration::from_millis(50));
                receiver.err().contains(line)
            },
        );
    }
    let log = receiver.err();
    let advice = "with wire version 3: install the same release on both";
    assert!(
        log.contains("runs release 7.8.9 with wire version 9 of carillon; this is release ")
            && log.contains(advice),
        "{log}"
    );
    assert!(log.contains("runs an earlier release (from before wire version 3) of carillon"), "{log}");
    receiver.kill();
}
