//! Groups in a network that is divided for a while.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::{Event, NodeId};
use carillon_sim::graph::{GraphConfig, Link, LossModel, Topology};
use carillon_testkit::{Group, Report, sampling_step};

use super::super::ENTRY;

const MS: Duration = Duration::from_millis(1);

/// Run of `nodes` members with twenty messages each, every 5 ms. Their last `far` members stand behind a link that
/// fails and returns.
fn divided(nodes: u32, far: u32, (fails, returns): (u32, u32), qos: &str) -> Report {
    let mut topology = Topology::new(nodes as usize + 2);
    let routers = [NodeId(nodes), NodeId(nodes + 1)];
    topology.add_link(Link::new(routers, MS));
    for node in 0..nodes {
        topology.add_link(Link::new([NodeId(node), routers[usize::from(node >= nodes - far)]], MS));
    }
    topology.sources = vec![NodeId(0)];
    topology.receivers = (1..nodes).map(NodeId).collect();
    let group = Group::new(&ENTRY, u64::from(fails)).receivers(nodes - 1).senders(nodes).messages(20);
    let group = group.set("qos", qos).set("retries", "5").interval(5 * MS).limit(Duration::from_secs(60));
    let group = group.link_up(0, false, fails * MS).link_up(0, true, returns * MS);
    group.run_graph(Arc::new(topology), GraphConfig::default(), LossModel::None)
}

/// A view needs a majority: neither half of four goes on, and after the division nothing is missing.
#[test]
fn halves_wait_for_each_other() {
    // Later the messages, one every 5 ms, have arrived before the link fails.
    for fails in (0..90).step_by(sampling_step(20)) {
        let report = divided(4, 2, (fails, 3000), "total");
        report.check_reliable().unwrap_or_else(|error| panic!("from {fails} ms: {error}"));
        let lost = report.count(|_, event| matches!(event, Event::MemberLost { .. }));
        assert_eq!(lost, 0, "no half forms a view");
        let last = report.events.iter().rfind(|event| matches!(event.event, Event::Delivered { .. }));
        assert!(last.is_some_and(|event| event.time.as_nanos() > 3_000_000_000), "from {fails} ms");
    }
}

/// The majority goes on, and purges slots. The others come back, report what they miss, and deliver the later messages
/// in the same order.
#[test]
fn minority_returns_after_the_majority_went_on() {
    let mut returned = 0;
    for qos in ["total", "majority", "totally-resilient"] {
        for fails in (0..120).step_by(sampling_step(29)) {
            let case = format!("{qos} from {fails} ms");
            let mut report = divided(5, 2, (fails, 3000), qos);
            assert!(report.finished.is_some(), "{case}: {}", report.progress());
            let early = report.events.iter().filter(|event| event.time.as_nanos() < 3_000_000_000);
            let lost = early.filter(|event| matches!(event.event, Event::MemberLost { .. }));
            let lost: Vec<u32> = lost.map(|event| event.node.0).collect();
            // After the last messages, nothing shows that the others are gone.
            let notices = fails >= 100 || !lost.is_empty();
            assert!(
                notices && lost.iter().all(|&node| node < 3),
                "{case}: only the majority goes on: {lost:?}"
            );
            let whole = report.receivers[0].order();
            for member in report.receivers.iter().filter(|member| member.node.0 >= 3) {
                let later = report
                    .events
                    .iter()
                    .filter(|event| event.node == member.node && event.time.as_nanos() > 3_000_000_000);
                let later: Vec<_> = later.map(|event| &event.event).collect();
                returned += usize::from(later.iter().any(|event| matches!(event, Event::Delivered { .. })));
                let own = member.order();
                let reports =
                    later.iter().any(|event| matches!(event, Event::LossFound { source: None, .. }));
                assert!(own.len() == whole.len() || reports, "{case}: a loss is reported");
                // A message that a minority has ordered survives if it had to be held by more members.
                if qos != "total" {
                    let mut rest = whole.iter();
                    assert!(own.iter().all(|message| rest.any(|other| other == message)), "{case}: {own:?}");
                }
            }
            // To the majority the others are like crashed members.
            report.receivers.retain(|member| member.node.0 < 3);
            report.events.retain(|event| event.node.0 < 3);
            report.crashed = [NodeId(3), NodeId(4)].into();
            if qos == "total" {
                let orders: Vec<_> = report.receivers.iter().map(|member| member.order()).collect();
                assert!(orders.iter().all(|order| *order == whole), "{case}: {orders:?}");
            } else {
                report.check_reliable().unwrap_or_else(|error| panic!("{case}: {error}"));
            }
        }
    }
    assert!(returned > 9, "{returned} members deliver messages of the new view");
}
