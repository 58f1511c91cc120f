//! Small test network with a scripted link in each direction between every pair of nodes.
//!
//! The network has unlimited rate: a datagram of any size takes the link's delay. Nothing collides or queues, so only
//! scripted faults occur.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::{Bytes, Dest, Event, NodeId, Observer, Probability, Rng, Seeds, Time, Transmit};
use carillon_sim::{Arrival, EventQueue, Network, Precedence};

/// Properties of one direction between two nodes.
#[derive(Clone, Debug)]
pub struct Link {
    /// Delay of every datagram.
    pub delay: Duration,
    /// Maximum additional random delay, by which datagrams overtake each other; zero keeps their order.
    pub jitter: Duration,
    /// Loss probability.
    pub loss: Probability,
    /// Probability of duplication.
    pub duplication: Probability,
    /// Datagrams that are always lost; 0 is the first one on the link.
    pub drops: BTreeSet<u64>,
}

impl Default for Link {
    /// Link with a delay of a millisecond and no faults.
    fn default() -> Self {
        Link {
            delay: Duration::from_millis(1),
            jitter: Duration::ZERO,
            loss: Probability::ZERO,
            duplication: Probability::ZERO,
            drops: BTreeSet::new(),
        }
    }
}

impl Link {
    /// Link that loses these datagrams, counted from 0.
    pub fn dropping(drops: impl IntoIterator<Item = u64>) -> Self {
        Link { drops: drops.into_iter().collect(), ..Link::default() }
    }

    /// Link that loses datagrams at random.
    ///
    /// # Panics
    ///
    /// Unless `p` is a probability.
    pub fn losing(p: f64) -> Self {
        Link { loss: Probability::new(p).expect("a probability lies in 0..=1"), ..Link::default() }
    }

    /// Returns true if the link neither reorders nor duplicates datagrams.
    pub fn is_fifo(&self) -> bool {
        self.jitter.is_zero() && self.duplication == Probability::ZERO
    }
}

/// Star network, in which every node is a member of the group.
#[derive(Debug)]
pub struct Star {
    nodes: u32,
    default: Link,
    links: BTreeMap<(NodeId, NodeId), LinkState>,
    seeds: Seeds,
    /// Time until which the interface of each node holds datagrams.
    held_until: Vec<Time>,
    events: EventQueue<Step>,
}

#[derive(Debug)]
struct LinkState {
    link: Link,
    rng: Rng,
    /// Number of datagrams so far.
    count: u64,
}

#[derive(Debug)]
enum Step {
    Depart { from: NodeId, dest: Dest, bytes: Bytes },
    Arrive { from: NodeId, to: NodeId, dest: Dest, bytes: Bytes },
}

impl Star {
    /// Network of this many nodes with equal links.
    pub fn new(nodes: u32, default: Link, seeds: &Seeds) -> Self {
        Star {
            nodes,
            default,
            links: BTreeMap::new(),
            seeds: seeds.part("star"),
            held_until: vec![Time::ZERO; nodes as usize],
            events: EventQueue::new(),
        }
    }

    /// Sets the properties of one link.
    pub fn set_link(&mut self, from: NodeId, to: NodeId, link: Link) {
        self.state(from, to).link = link;
    }

    fn state(&mut self, from: NodeId, to: NodeId) -> &mut LinkState {
        let (seeds, default) = (&self.seeds, &self.default);
        self.links.entry((from, to)).or_insert_with(|| LinkState {
            link: default.clone(),
            rng: seeds.part(&format!("{from} to {to}")).stream("link"),
            count: 0,
        })
    }

    fn depart(&mut self, now: Time, from: NodeId, dest: Dest, bytes: Bytes, observer: &mut dyn Observer) {
        let length = bytes.len() as u32;
        observer.event(now, from, &Event::FrameSent { bytes: length });
        observer.datagram(now, from, &dest, &bytes);
        let receivers = match dest {
            Dest::Node(node) => vec![node],
            Dest::Group { .. } => (0..self.nodes).map(NodeId).collect(),
            Dest::Ports { .. } => Vec::new(),
        };
        for to in receivers {
            if to == from || to.0 >= self.nodes {
                continue;
            }
            let LinkState { link, rng, count } = self.state(from, to);
            // All draws are made for each datagram, so that a change of one probability leaves the others as they
            // are.
            let lost = rng.chance(link.loss.value()) | link.drops.contains(count);
            let copies = 1 + u64::from(rng.chance(link.duplication.value()));
            *count += 1;
            if lost {
                let event = Event::FrameLost { receiver: Some(to), original: false };
                observer.event(now, from, &event);
                continue;
            }
            for _ in 0..copies {
                let LinkState { link, rng, .. } = self.state(from, to);
                let jitter = rng.below(link.jitter.as_nanos() as u64 + 1);
                // Each copy has a jitter of its own and may overtake others.
                let at = now + link.delay + Duration::from_nanos(jitter);
                let step = Step::Arrive { from, to, dest: dest.clone(), bytes: bytes.clone() };
                self.events.push(at, step);
            }
        }
    }
}

impl Network for Star {
    fn transmit(
        &mut self,
        now: Time,
        from: NodeId,
        transmit: Transmit,
        bytes: Bytes,
        observer: &mut dyn Observer,
    ) {
        // First in, first out: a datagram behind a held one is held too.
        let held = &mut self.held_until[from.index()];
        let at = transmit.departure.unwrap_or(now).max(*held).max(now);
        if at > now {
            *held = at;
            self.events.push(at, Step::Depart { from, dest: transmit.dest, bytes });
        } else {
            self.depart(now, from, transmit.dest, bytes, observer);
        }
    }

    fn next_time(&self) -> Option<(Time, Precedence)> {
        Some((self.events.next_time()?, Precedence::NetworkFirst))
    }

    fn advance(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        match self.events.pop() {
            None => false,
            Some((_, Step::Depart { from, dest, bytes })) => {
                self.depart(now, from, dest, bytes, observer);
                false
            }
            Some((_, Step::Arrive { from, to, dest, bytes })) => {
                *arrival = Arrival { source: from, dest, bytes, receivers: vec![to], ..Arrival::default() };
                true
            }
        }
    }
}
