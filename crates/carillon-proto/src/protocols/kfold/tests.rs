//! Transcripts: one rule each, in virtual time.

use carillon_core::{DropReason, Event, MessageId, NodeId, OfferError, Role};
use carillon_testkit::{ASSOCIATION, MachineFixture};
use carillon_wire::kfold::{HEADER_LEN, Packet};

use super::ENTRY;

fn sender(copies: &str, interval: &str) -> MachineFixture {
    let settings = [("copies", copies), ("interval", interval)];
    MachineFixture::new(&ENTRY, Role::Sender, 2, &settings, HEADER_LEN, 1)
}

fn receiver() -> MachineFixture {
    MachineFixture::new(&ENTRY, Role::Receiver, 2, &[], HEADER_LEN, 1)
}

fn data(number: u32) -> Vec<u8> {
    let mut buf = Vec::new();
    Packet { number, payload: b"abc" }.emit(ASSOCIATION, &mut buf);
    buf
}

/// The numbers of the messages that wait for the application.
fn taken(receiver: &mut MachineFixture) -> Vec<u64> {
    std::iter::from_fn(|| receiver.take()).map(|delivery| delivery.message.0).collect()
}

/// The sender transmits each message `copies` times, one interval apart, before the next message.
#[test]
fn message_is_sent_k_times_before_the_next() {
    let mut sender = sender("3", "1000 bit");
    assert_eq!(sender.offer("a"), Ok(0));
    assert_eq!(sender.sent(), ["kfold data 0 len 1 to all"]);
    sender.at(999);
    assert_eq!((sender.sent().len(), sender.offer("bb")), (0, Err(OfferError::Full)));
    sender.at(1_000);
    assert_eq!(sender.sent(), ["kfold data 0 len 1 to all"]);
    let repair = Event::RepairSent { message: MessageId(0), bytes: HEADER_LEN as u32 + 1 };
    assert!(sender.events().contains(&repair), "a copy is told from the original");
    sender.at(2_000);
    assert_eq!(sender.sent(), ["kfold data 0 len 1 to all"]);
    assert_eq!((sender.offer("bb"), sender.timer()), (Ok(1), Some(3_000)));
    sender.at(2_999);
    assert_eq!(sender.sent().len(), 0, "the interval is between any two packets");
    sender.at(9_999);
    assert_eq!(sender.sent(), ["kfold data 1 len 2 to all"; 3]);
    assert_eq!(sender.timer(), None);
}

#[test]
fn without_an_interval_all_copies_go_at_once() {
    let mut sender = sender("4", "0 ms");
    assert_eq!((sender.offer("a"), sender.offer("b")), (Ok(0), Ok(1)));
    assert_eq!(sender.sent()[3..5], ["kfold data 0 len 1 to all", "kfold data 1 len 1 to all"]);
    assert_eq!(sender.timer(), None);
}

#[test]
fn the_sender_is_finished_when_the_last_copy_is_out() {
    let mut sender = sender("2", "1000 bit");
    sender.offer("a").unwrap();
    sender.finish();
    assert_eq!((sender.is_finished(), sender.offer("b")), (false, Err(OfferError::Finished)));
    sender.at(1_000);
    assert!(sender.is_finished());
}

#[test]
fn copy_is_delivered_once_and_skipped_messages_are_lost() {
    let mut receiver = receiver();
    receiver.receive(0, &data(0)).receive(0, &data(0)).receive(0, &data(3)).receive(0, &data(1));
    let told = receiver.events();
    let is_lost = |event: &&Event| matches!(event, Event::LossFinal { .. });
    let lost = |number| Event::LossFinal { source: NodeId(0), message: MessageId(number) };
    assert!(told.iter().filter(is_lost).eq(&[lost(1), lost(2)]), "{told:?}");
    let is_duplicate = |event: &&Event| matches!(event, Event::Dropped { reason: DropReason::Duplicate });
    assert_eq!(told.iter().filter(is_duplicate).count(), 2, "{told:?}");
    assert_eq!(taken(&mut receiver), [0, 3]);
}

#[test]
fn foreign_senders_and_far_numbers_are_dropped() {
    let mut receiver = receiver();
    receiver.receive(2, &data(0)).receive(0, &data(1_025)).receive(0, &data(u32::MAX));
    assert_eq!(receiver.drops(), [DropReason::NotAMember, DropReason::OutOfWindow, DropReason::OutOfWindow]);
    receiver.receive(0, &data(1_024));
    assert_eq!(taken(&mut receiver), [1_024]);
}

#[test]
fn copy_without_room_may_arrive_as_later_copy() {
    let mut receiver = receiver();
    (0..=1_024).for_each(|number| _ = receiver.receive(0, &data(number)));
    assert_eq!(receiver.drops(), [DropReason::BufferFull]);
    assert_eq!(receiver.take().map(|delivery| delivery.message.0), Some(0));
    receiver.receive(0, &data(1_024));
    assert_eq!(taken(&mut receiver), Vec::from_iter(1..=1_024));
}
