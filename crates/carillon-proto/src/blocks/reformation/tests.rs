//! A group of nodes with nothing but a `Reformation` and the length of a log.

use std::time::Duration;

use carillon_core::{Rng, Seeds, Time};
use carillon_testkit::is_long_tier;
use carillon_wire::reformation::{Packet, Ranks};

use super::{Reformation, Step, Terms, To};

const TERMS: Terms = Terms {
    interval: Duration::from_millis(10),
    tries: 20,
    resilience: 1,
    min_members: 0,
    admits_in_order: false,
};

#[derive(Debug)]
struct Node {
    block: Reformation,
    /// Log: the view that ordered each message.
    log: Vec<u32>,
    alive: bool,
    installed: Vec<u32>,
    /// Times at which ballots failed for lack of votes, with the number of votes.
    short: Vec<(Time, usize)>,
}

#[derive(Debug)]
struct Net {
    nodes: Vec<Node>,
    now: Time,
    rng: Rng,
    loss: f64,
    /// First node with packets that take 5 ms longer than others.
    far: usize,
    /// Packets in flight: arrival time, source, destination, type and bytes.
    flying: Vec<(Time, usize, usize, u8, Vec<u8>)>,
}

impl Net {
    fn new(count: usize, resilience: usize, seed: u64) -> Self {
        let terms = Terms { resilience, ..TERMS };
        let node = |rank| {
            let rng = Seeds::new(seed).part(&format!("node {rank}")).stream("reformation");
            let block = Reformation::new(rank, count, terms, rng, false).unwrap();
            Node { block, log: Vec::new(), alive: true, installed: Vec::new(), short: Vec::new() }
        };
        let rng = Seeds::new(seed).stream("net");
        let (nodes, far, flying) = ((0..count).map(node).collect(), count, Vec::new());
        Net { nodes, now: Time::ZERO, rng, loss: 0.0, far, flying }
    }

    fn restart(&mut self, rank: usize) {
        let terms = self.nodes[rank].block.clock.terms;
        let rng = Seeds::new(rank as u64).stream("again");
        let block = Reformation::new(rank, self.nodes.len(), terms, rng, true).unwrap();
        self.nodes[rank] =
            Node { block, log: Vec::new(), alive: true, installed: Vec::new(), short: Vec::new() };
        self.nodes[rank].block.clock.at = Some(self.now + Duration::from_millis(1));
    }

    fn drain(&mut self, rank: usize) {
        if !self.nodes[rank].alive {
            return;
        }
        while let Some(step) = self.nodes[rank].block.poll_step() {
            match step {
                Step::Leave => {}
                Step::Short { votes } => self.nodes[rank].short.push((self.now, votes)),
                Step::Install => {
                    let number = self.nodes[rank].block.view().number();
                    self.nodes[rank].installed.push(number);
                }
                Step::Fetch { from, length, .. } => {
                    // Copy the log at once, if the source is alive.
                    if self.nodes[from].alive && self.nodes[from].log.len() as u64 >= length {
                        let log = self.nodes[from].log[..length as usize].to_vec();
                        self.nodes[rank].log = log;
                        self.nodes[rank].block.fetched(self.now, vec![rank as u8]);
                    }
                }
            }
        }
        loop {
            let node = &mut self.nodes[rank];
            let length = node.log.len() as u64;
            let Some((to, packet)) = node.block.poll_transmit(length) else { break };
            let (kind, mut bytes) = (packet.packet_type(), Vec::new());
            packet.emit(&mut bytes);
            let all = 0..self.nodes.len();
            for other in all.filter(|&other| other != rank && (to == To::Group || to == To::Rank(other))) {
                if !self.rng.chance(self.loss) {
                    let way = if rank >= self.far { 5000 } else { 0 };
                    let at = self.now + Duration::from_micros(100 + way + self.rng.below(1000));
                    self.flying.push((at, rank, other, kind, bytes.clone()));
                }
            }
        }
    }

    /// Advances the time. Returns true if nothing is left to happen.
    fn run(&mut self, span: Duration) -> bool {
        let end = self.now + span;
        loop {
            (0..self.nodes.len()).for_each(|rank| self.drain(rank));
            let alive = self.nodes.iter().enumerate().filter(|(_, node)| node.alive);
            let timer = alive.filter_map(|(rank, node)| Some((node.block.poll_timeout()?, rank))).min();
            let flight = self.flying.iter().map(|flying| flying.0).min();
            let Some(at) = timer.map(|timer| timer.0).into_iter().chain(flight).min() else { return true };
            if at > end {
                self.now = end;
                return false;
            }
            self.now = self.now.max(at);
            if let Some(i) = self.flying.iter().position(|flying| flying.0 == at) {
                let (_, from, to, kind, bytes) = self.flying.swap_remove(i);
                let node = &mut self.nodes[to];
                if node.alive {
                    let packet = Packet::parse(kind, &bytes).unwrap();
                    node.block.handle(self.now, from, &packet);
                }
            } else if let Some((_, rank)) = timer {
                let length = self.nodes[rank].log.len() as u64;
                self.nodes[rank].block.handle_timeout(self.now, length);
            }
        }
    }

    /// Describes the nodes, one per line.
    fn shown(&self) -> String {
        let line = |node: &Node| {
            let Reformation { promised, accepted, .. } = &node.block;
            let (number, members) = (accepted.number(), accepted.members);
            let (alive, state) = (node.alive, node.block.state().state);
            format!("\n{alive} {state}, promised {promised}, view {number} {members}")
        };
        self.nodes.iter().map(line).collect()
    }

    fn members(&self, rank: usize) -> Vec<usize> {
        self.nodes[rank].block.view().members.iter().collect()
    }
}

#[test]
fn live_nodes_form_view_without_crashed_one() {
    let mut net = Net::new(4, 1, 1);
    net.nodes[0].alive = false;
    net.nodes[2].block.begin(net.now);
    assert!(net.run(Duration::from_secs(5)), "the exchange ends");
    for rank in 1..4 {
        assert!(net.nodes[rank].block.takes_part());
        assert_eq!(net.members(rank), [1, 2, 3]);
        assert_eq!(net.nodes[rank].block.view().leader(), 2);
    }
}

#[test]
fn minority_forms_no_view() {
    let mut net = Net::new(4, 1, 1);
    net.nodes[0].alive = false;
    net.nodes[1].alive = false;
    net.nodes[2].block.begin(net.now);
    net.run(Duration::from_secs(30));
    assert!(net.nodes.iter().all(|node| node.installed.is_empty()));
}

#[test]
fn longest_log_of_last_view_continues() {
    let mut net = Net::new(3, 1, 1);
    net.nodes[0].alive = false;
    net.nodes[2].log = vec![0, 0, 0];
    net.nodes[1].log = vec![0];
    net.nodes[1].block.begin(net.now);
    net.run(Duration::from_secs(5));
    assert_eq!(net.nodes[1].log.len(), 3);
    assert_eq!(net.members(1), [1, 2]);
}

#[test]
fn node_without_state_joins_and_does_not_vote() {
    let mut net = Net::new(3, 1, 1);
    net.nodes[0].log = vec![0, 0];
    net.nodes[1].log = vec![0, 0];
    net.restart(2);
    assert!(net.run(Duration::from_secs(5)));
    for rank in 0..3 {
        let view = net.nodes[rank].block.view();
        assert!(net.nodes[rank].block.takes_part());
        assert_eq!((view.members, view.joiners), (Ranks::below(3), [2].into_iter().collect()));
    }
    assert_eq!(net.nodes[2].log.len(), 2);
}

#[test]
fn restarted_leader_rejoins() {
    let mut net = Net::new(3, 1, 1);
    net.restart(0);
    assert!(net.run(Duration::from_secs(5)));
    assert!((0..3).all(|rank| net.nodes[rank].block.takes_part() && net.members(rank) == [0, 1, 2]));
    assert_ne!(net.nodes[0].block.view().leader(), 0);
}

/// A coordinator that decided as soon as the present members had voted would form one view after another without them.
#[test]
fn returning_nodes_far_away_are_admitted() {
    let mut net = Net::new(5, 2, 1);
    [3, 4].iter().for_each(|&rank| net.nodes[rank].alive = false);
    net.nodes[0].block.begin(net.now);
    assert!(net.run(Duration::from_secs(2)));
    assert_eq!(net.members(0), [0, 1, 2]);
    [3, 4].iter().for_each(|&rank| net.nodes[rank].alive = true);
    net.far = 3;
    net.nodes[3].block.begin(net.now);
    net.nodes[4].block.begin(net.now);
    assert!(net.run(Duration::from_secs(2)), "{}", net.shown());
    assert!((0..5).all(|rank| net.members(rank) == [0, 1, 2, 3, 4]), "{}", net.shown());
    assert!(net.nodes[0].installed.len() < 6, "{:?}", net.nodes[0].installed);
}

#[test]
fn half_without_state_leaves_no_majority() {
    let mut net = Net::new(4, 1, 1);
    net.restart(0);
    net.restart(1);
    net.run(Duration::from_secs(20));
    assert!(net.nodes.iter().all(|node| node.installed.is_empty()), "two votes of four are no majority");
}

/// Crashes these nodes and notifies the others at once.
fn expel(net: &mut Net, gone: &[usize]) {
    gone.iter().for_each(|&rank| net.nodes[rank].alive = false);
    for node in net.nodes.iter_mut().filter(|node| node.alive) {
        gone.iter().for_each(|&rank| node.block.expel(net.now, rank));
    }
}

#[test]
fn expelled_nodes_are_neither_awaited_nor_counted() {
    for seed in 0..if is_long_tier() { 50 } else { 3 } {
        let mut net = Net::new(5, 1, seed);
        expel(&mut net, &[0, 3]);
        assert!(net.run(Duration::from_secs(2)), "the exchange ends");
        for rank in [1, 2, 4] {
            assert!(net.nodes[rank].block.takes_part(), "seed {seed}: {}", net.shown());
            assert_eq!(net.members(rank), [1, 2, 4]);
            assert!(net.nodes[rank].short.is_empty(), "nobody waited for them");
        }
        // After one more crash there is no majority of the five.
        expel(&mut net, &[2]);
        net.run(Duration::from_secs(30));
        assert!([1, 4].iter().all(|&rank| !net.nodes[rank].block.takes_part()));
    }
}

#[test]
fn expelled_live_node_is_not_readmitted() {
    let mut net = Net::new(4, 1, 1);
    for rank in 0..3 {
        net.nodes[rank].block.expel(net.now, 3);
    }
    net.run(Duration::from_secs(20));
    assert!((0..3).all(|rank| net.members(rank) == [0, 1, 2] && net.nodes[rank].block.takes_part()));
    // No node counts its ballot, and the silence of all others is not enough for a view.
    net.nodes[3].block.begin(net.now);
    net.run(Duration::from_secs(20));
    assert!(net.nodes[3].installed.is_empty());
    assert!((0..3).all(|rank| net.members(rank) == [0, 1, 2]));
}

#[test]
fn node_expelled_during_ballot_is_not_awaited() {
    for (seed, after) in (0..40).map(|seed| (seed, Duration::from_micros(300 * seed))) {
        let mut net = Net::new(5, 1, seed);
        expel(&mut net, &[0]);
        net.run(after);
        let coordinator = (1..5).map(|rank| net.nodes[rank].block.promised()).max().unwrap().coordinator;
        let second = if seed % 2 == 0 && coordinator > 0 { coordinator.into() } else { 4 };
        expel(&mut net, &[second]);
        // With TERMS a silent coordinator would delay a view by 210 ms, and missing votes by 200 ms.
        net.run(Duration::from_millis(150));
        for rank in (1..5).filter(|&rank| rank != second) {
            assert!(net.nodes[rank].block.takes_part(), "seed {seed}: {}", net.shown());
            assert_eq!(net.members(rank).len(), 3, "seed {seed}");
        }
    }
}

/// Crashed nodes may come back, however long it takes.
#[test]
fn ballots_continue_without_majority_at_bounded_waits() {
    let mut net = Net::new(5, 2, 7);
    (0..3).for_each(|rank| net.nodes[rank].alive = false);
    net.nodes[3].block.begin(net.now);
    let time = Duration::from_secs(if is_long_tier() { 1800 } else { 120 });
    assert!(!net.run(time), "it never ends");
    let nodes = net.nodes[3..].iter();
    assert!(nodes.clone().all(|node| node.short.iter().all(|&(_, votes)| votes <= 2)));
    let mut short: Vec<Time> = nodes.flat_map(|node| &node.short).map(|&(at, _)| at).collect();
    short.sort_unstable();
    let waits: Vec<Duration> = short.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // A ballot takes 20 intervals and the wait before it up to 64. A ballot that fails because two nodes made one at
    // a time is not counted.
    let (most, mean) = (*waits.iter().max().unwrap(), time / short.len() as u32);
    assert!(most < TERMS.interval * 3 * (20 + 64), "{most:?}");
    assert!((TERMS.interval * 20..TERMS.interval * (20 + 64)).contains(&mean), "{mean:?}");
    let distinct: std::collections::BTreeSet<_> = waits.iter().collect();
    assert!(distinct.len() > waits.len() * 9 / 10, "at random");
    // The others come back with their state: soon there is a view.
    (0..2).for_each(|rank| net.nodes[rank].alive = true);
    assert!(net.run(Duration::from_secs(5)));
    assert!([0, 1, 3, 4].iter().all(|&rank| net.nodes[rank].block.takes_part()), "{}", net.shown());
}

/// Under random crashes, restarts, suspicions and losses, all nodes in a view agree on its members, and no two views
/// have the same number.
#[test]
fn views_with_one_number_are_equal() {
    for seed in 0..if is_long_tier() { 300 } else { 15 } {
        let mut rng = Seeds::new(seed).stream("plan");
        let count = 2 + rng.below(6) as usize;
        let resilience = count.div_ceil(2) - 1;
        let mut net = Net::new(count, resilience, seed);
        net.loss = rng.unit() * 0.3;
        let mut crashes = rng.below(resilience as u64 + 1);
        let mut views = std::collections::BTreeMap::new();
        for round in 0..40 {
            let rank = rng.below(count as u64) as usize;
            let now = net.now;
            match rng.below(6) {
                0 if crashes > 0 && net.nodes[rank].alive => {
                    net.nodes[rank].alive = false;
                    crashes -= 1;
                }
                1 if !net.nodes[rank].alive => net.restart(rank),
                2 | 3 => net.nodes[rank].block.begin(now),
                _ => {}
            }
            if round == 39 {
                net.nodes[rank].block.begin(now);
            }
            net.run(Duration::from_millis(rng.below(300)));
            for node in net.nodes.iter().filter(|node| node.alive && node.block.takes_part()) {
                let view = *node.block.view();
                let known = views.entry(view.number()).or_insert(view);
                assert_eq!(*known, view, "seed {seed}");
            }
        }
        let ended = net.run(Duration::from_secs(120));
        assert!(ended, "seed {seed}: the exchange ends: {}", net.shown());
        let living: Vec<_> = net.nodes.iter().filter(|node| node.alive).collect();
        let last =
            living.iter().filter(|node| node.block.takes_part()).map(|node| node.block.view().number());
        let last = last.max().unwrap_or_default();
        let in_it =
            living.iter().filter(|node| node.block.takes_part() && node.block.view().number() == last);
        assert!(in_it.count() > count / 2 || last == 0, "seed {seed}: a majority is in the last view");
    }
}
