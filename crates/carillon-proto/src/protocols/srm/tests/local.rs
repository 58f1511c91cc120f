//! Tests of local recovery: the scope of requests and repairs.

use carillon_core::{DropReason, Event, TraceEvent};

use super::group::{count, is_repair, latencies, run};

/// Source and member 3 at one end of a row of four routers, members 1 and 2 at the other.
const ROW: &[[u32; 3]] =
    &[[0, 4, 10], [4, 5, 10], [5, 6, 10], [6, 7, 10], [7, 1, 10], [7, 2, 10], [4, 3, 10]];

fn with(local: &str, lossy: usize) -> Vec<TraceEvent> {
    run(ROW, 4, lossy, &[("local_recovery", local), ("local_scope", "2")])
}

/// Numbers of requests and duplicate repairs that reached members 0 and 3.
fn far_away(events: &[TraceEvent]) -> (usize, usize) {
    let heard = |node, event: &Event| {
        [0, 3].contains(&node) && matches!(event, Event::Received { packet: "request", .. })
    };
    let duplicate = |node, event: &Event| {
        [0, 3].contains(&node) && matches!(event, Event::Dropped { reason: DropReason::Duplicate })
    };
    (count(events, heard), count(events, duplicate))
}

#[test]
fn global_recovery_reaches_all_members() {
    let events = with("off", 4);
    let (requests, repairs) = far_away(&events);
    assert_eq!(requests, 2);
    assert!(repairs >= 2, "{repairs}");
}

#[test]
fn one_step_repair_stays_local() {
    let events = with("one-step", 4);
    assert_eq!(latencies(&events).len(), 1);
    // d = 50 ms to the source, 20 ms to the neighbour.
    assert!((latencies(&events)[0].1 - 160.0).abs() < 0.02, "{:?}", latencies(&events));
    assert_eq!(far_away(&events), (0, 0));
    assert_eq!(count(&events, |_, event| is_repair(event)), 1);
}

#[test]
fn two_step_repair_is_repeated_by_requester() {
    let events = with("two-step", 4);
    assert!((latencies(&events)[0].1 - 160.0).abs() < 0.02, "{:?}", latencies(&events));
    assert_eq!(far_away(&events), (0, 0));
    let repairing: Vec<u32> =
        events.iter().filter(|event| is_repair(&event.event)).map(|event| event.node.0).collect();
    assert_eq!(repairing, [2, 1]);
}

#[test]
fn local_request_without_answer_goes_to_the_group() {
    for local in ["one-step", "two-step"] {
        // Both far members miss the message.
        let events = with(local, 1);
        let found = latencies(&events);
        assert_eq!(found.len(), 2, "{local}");
        // 100 ms without an answer, and 200 ms more; then 40 ms to member 3 or 50 ms to the source, and back.
        assert!(found.iter().all(|(_, ms)| *ms > 300.0 && *ms < 480.0), "{local}: {found:?}");
        let (requests, _) = far_away(&events);
        assert!(requests >= 2, "{local}");
    }
}
