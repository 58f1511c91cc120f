//! Packets of strangers and the answers of real processes. Many more of them run in virtual time:
//! `crates/carillon-session/tests/session/strangers.rs`.

use std::time::{Duration, Instant};

use carillon_core::AssociationId;
use carillon_wire::session::{Body, DatagramSizes, Invite, Name, Packet, Settings, State, Text};

use crate::delivery::support::{Place, loopback_sender, need_multicast};

fn invitation(association: u32, state: State, settings: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let body = Body::Invite(Invite {
        state,
        max_payload: 1400,
        progress_interval: 1,
        relays: false,
        sizes: DatagramSizes::default(),
        protocol: Name::new("mbap").expect("a name"),
        sender: Name::new("nobody").expect("a name"),
        settings: Settings::new(settings).expect("settings"),
        reason: Text::default(),
        job: None,
        asks: false,
        job_name: None,
    });
    Packet { association: AssociationId(association), body }.emit(&mut bytes);
    bytes
}

/// An invitation with a timer of a nanosecond and a kilobyte of data must not make a receiver send without limit.
#[test]
fn receiver_answers_false_invitations_with_few_bytes() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 100_000);
    let receiver = place.recv("a").start();
    let stranger = loopback_sender().expect("a socket");
    stranger.set_read_timeout(Some(Duration::from_millis(10))).expect("a socket with patience");
    let (mut got, mut sent) = (0, 0);
    let mut buffer = vec![0; 65_536];
    let begun = Instant::now();
    let mut round = 0;
    while begun.elapsed() < Duration::from_secs(3) {
        for state in [State::Gathering, State::Running, State::Finished, State::Aborted] {
            let invite = invitation(round % 3, state, "ack_timeout=1 ns\nwindow=32768");
            // Half of the kilobyte is data of that session, in small equal datagrams.
            let mut data = vec![0xCA, 1, 2, 1];
            data.extend_from_slice(&(round % 3).to_be_bytes());
            data.extend_from_slice(&[0; 24]);
            for bytes in [invite, data] {
                sent += stranger.send_to(&bytes, place.group).expect("the group can be sent to");
            }
        }
        round += 1;
        while let Ok((len, _)) = stranger.recv_from(&mut buffer) {
            got += len;
        }
    }
    assert!(got > 0 && got <= 3 * sent, "{got} bytes for {sent}");
    let sender = place.send("s").arg(&file).args("--receivers 1").start();
    sender.end_within(Duration::from_secs(30)).expect(0);
    receiver.end().expect(0);
}
