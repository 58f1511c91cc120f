//! Tests of the total order and the application's progress.

use bytes::Bytes;
use carillon_core::{Config, Event};

use super::super::ENTRY;
use super::super::config::Settings;
use super::super::context::Context;
use super::super::order::Order;
use super::fixture::context;

/// Member with a history of 8 that holds the accepted messages 0, 0, 1, 1, 2, 2 of two sources, numbered 0 to 5.
fn six(purge: u64) -> (Context, Order) {
    let mut config = Config::defaults(ENTRY.parameters);
    config.set(ENTRY.parameters, "history", "8").unwrap();
    let build = context(3, false);
    let mut context = Context::new(&build);
    let mut order = Order::new(&build, &Settings::new(&build, &config));
    for place in 0..6 {
        assert!(put(&context, &mut order, place, (place as usize % 2, place / 2)));
    }
    order.update_bounds(6, 6, purge);
    order.deliver(&mut context);
    (context, order)
}

fn put(context: &Context, order: &mut Order, place: u64, of: (usize, u64)) -> bool {
    order.insert(context, place, of, Some(Bytes::from_static(b"m")))
}

/// Reads all deliverable messages. Returns their number.
fn take(context: &mut Context, order: &mut Order) -> usize {
    let taken = std::iter::from_fn(|| context.poll_delivery()).count();
    order.purge_history(context);
    taken
}

#[test]
fn history_keeps_unread_and_unacknowledged_messages() {
    let (mut context, mut order) = six(6);
    assert_eq!(take(&mut context, &mut order), 6);
    for place in 6..14 {
        assert!(put(&context, &mut order, place, (0, place)), "at {place}");
        order.update_bounds(place + 1, place + 1, place - 6);
        order.deliver(&mut context);
    }
    assert!(!order.has_room(&context, 14), "the application has taken nothing since");
    assert_eq!(take(&mut context, &mut order), 8);
    assert!(order.has_room(&context, 14));
    assert!(!order.has_room(&context, 15), "the slowest member has but seven");
    assert_eq!(order.log.base(), 6, "a history is kept, and nothing that a member lacks goes");
}

#[test]
fn message_beyond_gap_is_held_once() {
    let (context, mut order) = six(0);
    assert_eq!(order.held(), 6);
    assert!(put(&context, &mut order, 7, (0, 3)));
    assert_eq!(order.held(), 7);
}

#[test]
fn delivery_continues_after_unrecoverable_gap() {
    // The gap may be longer than a history.
    for place in [9, 60] {
        let (mut context, mut order) = six(0);
        order.skip_to(&mut context, place, vec![5, 4, 0, 0]);
        let events = std::iter::from_fn(|| context.events.pop());
        assert_eq!(events.filter(|event| matches!(event, Event::LossFound { .. })).count(), 2);
        assert_eq!(take(&mut context, &mut order), 6, "what was there stays");
        assert!(put(&context, &mut order, place, (1, 4)));
        order.update_bounds(place + 1, place + 1, 0);
        order.deliver(&mut context);
        assert_eq!(context.poll_delivery().map(|delivery| delivery.message.0), Some(4));
        assert_eq!(order.log.base(), place, "what lies before the gap cannot be given to others");
    }
}
