//! Messages that do not go out unless somebody lacks them.

use carillon_core::{MessageId, Time};

use super::test_net::{Net, message};

/// So many messages are withheld, of which each receiver has those that fit; how many packets went out.
fn withheld(receivers: u32, loss: f64, messages: u64, has: impl Fn(usize, u64) -> bool) -> u64 {
    let mut net = Net::new(receivers, loss);
    // One that says what follows.
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
    // They are followed by others as ever.
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
fn what_all_have_does_not_go_out() {
    // Whole blocks.
    let packets = withheld(3, 0.0, 192, |_, _| true);
    // The last message, questions.
    assert!(packets < 20, "{packets} packets");
}

#[test]
fn only_what_somebody_lacks_goes_out() {
    let packets = withheld(1, 0.0, 200, |_, number| number % 10 != 0);
    assert!((20..50).contains(&packets), "{packets} packets for 20 messages");
    // Sums serve two that lack others.
    let packets = withheld(2, 0.0, 200, |at, number| number % 10 != at as u64);
    assert!((20..60).contains(&packets), "{packets} packets for 20 messages each");
}

#[test]
fn who_has_nothing_gets_everything_through_losses() {
    let packets = withheld(2, 0.1, 300, |at, number| at == 0 && number % 3 != 0);
    assert!((300..420).contains(&packets), "{packets} packets for 300 messages");
}

/// The first of the block goes out: nothing is quiet then, and nothing else would have it asked about.
#[test]
fn a_block_that_is_full_of_them_is_asked_about_at_once() {
    let mut net = Net::new(1, 0.0);
    net.sender().offer(Time::ZERO, message(0)).expect("there is room");
    (1..32).for_each(|number| _ = net.sender().withhold(Time::ZERO, message(number)).expect("there is room"));
    net.settle();
    assert_eq!(net.delivered[0].len(), 32);
}
