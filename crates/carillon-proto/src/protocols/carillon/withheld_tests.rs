//! Tests of messages that are sent only if a receiver misses them.

use carillon_core::{MessageId, Time};

use super::test_net::{Net, message};

/// Withholds this number of messages, of which each receiver holds the ones accepted by `has`. Returns the number of
/// packets sent.
fn withheld(receivers: u32, loss: f64, messages: u64, has: impl Fn(usize, u64) -> bool) -> u64 {
    let mut net = Net::new(receivers, loss);
    // One message that is sent, before the withheld ones.
    net.sender().offer(Time::ZERO, message(0)).expect("there is room");
    net.settle();
    let (now, before) = (net.now, net.sent);
    for number in 1..=messages {
        for at in (0..receivers as usize).filter(|&at| has(at, number)) {
            net.receiver(at).supply(now, MessageId(number), message(number));
        }
        assert_eq!(net.sender().withhold(now, message(number)), Ok(MessageId(number)));
    }
    net.settle();
    // Messages that are sent can follow withheld ones.
    let now = net.now;
    net.sender().offer(now, message(messages + 1)).expect("there is room");
    net.sender().finish(now);
    net.settle();
    assert!(net.sender().is_finished());
    for delivered in &net.delivered {
        assert!(delivered.iter().eq((0..=messages + 1).map(message).collect::<Vec<_>>().iter()));
    }
    net.sent - before
}

#[test]
fn message_that_all_hold_is_not_sent() {
    // A multiple of the block length.
    let packets = withheld(3, 0.0, 192, |_, _| true);
    // The last message and the polls.
    assert!(packets < 20, "{packets} packets");
}

#[test]
fn only_missing_messages_are_sent() {
    let packets = withheld(1, 0.0, 200, |_, number| number % 10 != 0);
    assert!((20..50).contains(&packets), "{packets} packets for 20 messages");
    // A sum serves two receivers that miss different messages.
    let packets = withheld(2, 0.0, 200, |at, number| number % 10 != at as u64);
    assert!((20..60).contains(&packets), "{packets} packets for 20 messages each");
}

#[test]
fn receiver_without_data_gets_everything_despite_loss() {
    let packets = withheld(2, 0.1, 300, |at, number| at == 0 && number % 3 != 0);
    assert!((300..420).contains(&packets), "{packets} packets for 300 messages");
}

/// The first message of the block is sent. No pause follows it, so only the full block can cause the poll.
#[test]
fn block_full_of_withheld_messages_is_polled_at_once() {
    let mut net = Net::new(1, 0.0);
    net.sender().offer(Time::ZERO, message(0)).expect("there is room");
    (1..32).for_each(|number| _ = net.sender().withhold(Time::ZERO, message(number)).expect("there is room"));
    net.settle();
    assert_eq!(net.delivered[0].len(), 32);
}
