//! Tests of forged packets among the packets of a sender.

use bytes::Bytes;
use carillon_core::{AssociationId, Dest, GroupId};
use carillon_testkit::{SENDER, peer_context};
use carillon_wire::carillon::Packet;

use super::test_net::{Net, message, received};

/// A forged message contradicts the place or the block length that the sender states. All other messages still
/// arrive.
#[test]
fn forged_message_does_not_block_others() {
    let association: AssociationId = peer_context(&[SENDER], 0, false).association;
    for (place, length) in [(40, 0), (3, 7), (0, 1), (31, 64), (9_000, 0)] {
        let mut net = Net::new(2, 0.2);
        let group = Dest::group(GroupId(0));
        let mut bytes = Vec::new();
        let payload = b"forged";
        Packet::Data { sequence: 40, index: place, length, count: 0, payload }.emit(association, &mut bytes);
        let bytes = Bytes::from(bytes);
        let now = net.now;
        for receiver in &mut net.receivers {
            receiver.handle_datagram(now, received(SENDER, &group, &bytes));
        }
        for number in 0..100 {
            net.sender().offer(now, message(number)).expect("there is room");
        }
        net.sender().finish(now);
        net.settle();
        for delivered in &net.delivered {
            assert_eq!(delivered.len(), 100);
            let wrong = (0..100).filter(|&number| delivered[number as usize] != message(number)).count();
            assert!(wrong <= 1, "{place} of {length}: {wrong} of 100 are wrong");
        }
    }
}
