//! Packet cost and implosion of each parent of a tree and its children: N and I of Barcellos and Ezhilchelvan, for
//! each parent separately.

use carillon_core::{Dest, DropReason, Event, NodeId};

use crate::scenario::Scenario;

/// Counts of each parent: the source, and each helper that has children. The tree is the one at the start of the run.
#[derive(Clone, Debug, Default)]
pub struct Parents {
    source: NodeId,
    families: Vec<Family>,
    /// Family index per node: as parent (`own`) and as child (`of`); `NO_FAMILY` if none.
    own: Vec<u32>,
    of: Vec<u32>,
    /// Multicasts of the source, of which each link to a child has one.
    to_all: u64,
}

/// A parent's.
#[derive(Clone, Copy, Debug, Default)]
struct Family {
    children: u64,
    packets: u64,
    implosions: u64,
}

/// No family.
const NO_FAMILY: u32 = u32::MAX;

impl Parents {
    /// Creates empty counts. On a network without parents they stay empty.
    pub fn new(scenario: &Scenario) -> Self {
        let Some(graph) = scenario.network.graph().filter(|_| scenario.has_parents()) else {
            return Parents::default();
        };
        let (table, members) = (&scenario.helpers, scenario.members());
        let nodes = graph.topology.nodes();
        let mut parents = Parents {
            source: scenario.sender(),
            own: vec![NO_FAMILY; nodes],
            of: vec![NO_FAMILY; nodes],
            ..Parents::default()
        };
        let of_sender = (scenario.sender(), table.children_of_sender(&members));
        let of_helpers = table.helpers().iter().map(|helper| (helper.node, table.children(helper.node)));
        for (parent, mut children) in [of_sender].into_iter().chain(of_helpers) {
            // Among peers the source is a member too.
            children.retain(|&child| child != parent);
            if children.is_empty() {
                continue;
            }
            let family = parents.families.len() as u32;
            parents.own[parent.index()] = family;
            children.iter().for_each(|child| parents.of[child.index()] = family);
            parents.families.push(Family { children: children.len() as u64, ..Family::default() });
        }
        parents
    }

    #[inline]
    pub(super) fn event(&mut self, node: NodeId, event: &Event) {
        if let Event::Dropped { reason: DropReason::Implosion } = event
            && let Some(family) = self.family(self.own(node))
        {
            family.implosions += 1;
        }
    }

    pub(super) fn datagram(&mut self, from: NodeId, to: &Dest) {
        match *to {
            _ if self.families.is_empty() => {}
            Dest::Node(to) => {
                let between = [(self.own(from), self.of(to)), (self.of(from), self.own(to))];
                let mine =
                    between.into_iter().find(|(parent, child)| parent == child && *parent != NO_FAMILY);
                if let Some(family) = mine.and_then(|(family, _)| self.family(family)) {
                    family.packets += 1;
                }
            }
            // A multicast of a helper or receiver reaches its parent's family and its own children.
            Dest::Group { .. } if from != self.source => {
                for family in [self.own(from), self.of(from)] {
                    if let Some(family) = self.family(family) {
                        family.packets += family.children;
                    }
                }
            }
            Dest::Group { .. } => self.to_all += 1,
            Dest::Ports { .. } => {}
        }
    }

    fn own(&self, node: NodeId) -> u32 {
        self.own.get(node.index()).copied().unwrap_or(NO_FAMILY)
    }

    fn of(&self, node: NodeId) -> u32 {
        self.of.get(node.index()).copied().unwrap_or(NO_FAMILY)
    }

    fn family(&mut self, family: u32) -> Option<&mut Family> {
        self.families.get_mut(family as usize)
    }

    /// N of each parent: packets per message and child, for `messages` messages.
    pub(super) fn costs(&self, messages: f64) -> Vec<f64> {
        let cost = |family: &Family| {
            (family.packets + self.to_all * family.children) as f64 / (messages * family.children as f64)
        };
        self.families.iter().map(cost).collect()
    }

    /// I of each.
    pub(super) fn implosions(&self, messages: f64) -> Vec<f64> {
        let share = |family: &Family| family.implosions as f64 / (messages * family.children as f64);
        self.families.iter().map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use carillon_core::{Bytes, Observer, Time};

    use super::*;
    use crate::plan::Plan;
    use crate::run::build_world;
    use crate::scenario::ScenarioFile;

    /// Counts by parent, all frames, and all unicasts.
    struct FrameCounter(Parents, u64, u64);

    impl Observer for FrameCounter {
        fn event(&mut self, _time: Time, node: NodeId, event: &Event) {
            self.0.event(node, event);
            self.1 += u64::from(matches!(event, Event::FrameSent { .. }));
        }

        fn datagram(&mut self, _time: Time, from: NodeId, to: &Dest, _bytes: &Bytes) {
            self.0.datagram(from, to);
            self.2 += u64::from(matches!(to, Dest::Node(_)));
        }
    }

    fn counts(network: &str, group: &str, protocol: &str) -> FrameCounter {
        let text = format!(
            "name = \"test\"\n[network]\n{network}\nqueue = 1000\n[group]\n{group}\n[protocol]\nname = \"{protocol}\"\n\
             [workload]\nmessages = 20\nmessage_bytes = 500\n[loss]\nmodel = \"bernoulli\"\np = 0.05"
        );
        let plan = Plan::new(&ScenarioFile::parse("test", &text).unwrap()).unwrap();
        let run = &plan.runs[0];
        let both = FrameCounter(Parents::new(&run.scenario), 0, 0);
        let mut world = build_world(&run.scenario, &run.seeds, both).unwrap();
        world.start();
        world.run(Time::ZERO + Duration::from_secs(60), |_| false);
        world.into_observer()
    }

    #[test]
    fn on_a_star_it_is_what_goes_over_the_links() {
        for protocol in ["pf", "ff", "rra"] {
            let star = "kind = \"star\"\nlatency = \"5 ms\"";
            let FrameCounter(parents, frames, _) = counts(star, "receivers = 7", protocol);
            assert_eq!(parents.costs(20.0), [frames as f64 / 140.0], "{protocol}");
        }
    }

    #[test]
    fn tree_counts_each_frame_and_implosion_for_one_parent() {
        let tree =
            "kind = \"graph\"\ntopology = \"tree\"\nfanout = \"2 x 3 x 4\"\nlink_rate = \"100 Mbit/s\"";
        let FrameCounter(parents, _, unicasts) = counts(tree, "helpers = 8", "prmp");
        let (costs, children) = (parents.costs(20.0), [vec![2], vec![3; 2], vec![4; 6]].concat());
        assert_eq!(costs.len(), 9);
        let all: f64 = costs.iter().zip(&children).map(|(cost, &children)| cost * f64::from(children)).sum();
        assert!(
            (all * 20.0 - unicasts as f64).abs() < 1e-6 && costs.iter().all(|&cost| cost >= 1.0),
            "{costs:?}"
        );
        assert_eq!(parents.implosions(20.0), [0.0; 9]);
        let slow = format!("{tree}\nimplosion_rate = \"200 packet/s\"\nimplosion_buffer = 2");
        let FrameCounter(parents, ..) = counts(&slow, "helpers = 8", "prmp");
        assert!(parents.implosions(20.0)[3..].iter().any(|&lost| lost > 0.0), "four children answer at once");
    }
}
