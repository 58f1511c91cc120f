//! Topology of a routed network: nodes, links, sources and receivers.

use std::fmt::Write as _;
use std::time::Duration;

use carillon_core::{BitRate, NodeId, PortId, Probability};

/// Link between two nodes, equal in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Both ends.
    pub ends: [NodeId; 2],
    /// Propagation delay.
    pub delay: Duration,
    /// Rate; `None` is the network's rate.
    pub rate: Option<BitRate>,
    /// Maximum number of waiting packets at each end; `None` is the network's.
    pub queue: Option<u32>,
    /// Loss probability of each packet in each direction, instead of the losses of the scenario.
    pub loss: Option<Probability>,
}

impl Link {
    /// Link with this delay, and the network's rate, queue and losses.
    pub fn new(ends: [NodeId; 2], delay: Duration) -> Self {
        Link { ends, delay, rate: None, queue: None, loss: None }
    }
}

/// Graph of nodes and links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    links: Vec<Link>,
    /// Links at the ports of each node, in ascending order.
    ports: Vec<Vec<u32>>,
    /// Nodes that send.
    pub sources: Vec<NodeId>,
    /// Nodes that receive, in ascending order.
    pub receivers: Vec<NodeId>,
    /// Names of the first nodes, as far as the file gives them; an empty one is none.
    pub names: Vec<String>,
}

/// Error in a topology file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    /// Line, counted from 1; 0 is the whole file.
    pub line: usize,
    /// Problem, and the expected contents.
    pub problem: String,
}

impl std::fmt::Display for TopologyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        // The quoted text comes from the file and may contain control characters.
        self.problem.chars().try_for_each(|c| match c.is_control() {
            true => write!(f, "{}", c.escape_default()),
            false => f.write_char(c),
        })
    }
}

impl std::error::Error for TopologyError {}

/// Maximum number of nodes, so that a number in a file cannot exhaust the memory.
const MAX_NODES: u32 = 10_000_000;

impl Topology {
    /// Topology of this many nodes without links.
    pub fn new(nodes: usize) -> Self {
        Topology { ports: vec![Vec::new(); nodes], ..Topology::default() }
    }

    /// Adds a node.
    pub fn add_node(&mut self) -> NodeId {
        self.ports.push(Vec::new());
        NodeId(self.ports.len() as u32 - 1)
    }

    /// Adds a link between two different nodes of the graph.
    ///
    /// # Panics
    ///
    /// Panics if an end is no node, both are the same, or a node has 65 536 links already.
    pub fn add_link(&mut self, link: Link) {
        assert!(link.ends[0] != link.ends[1], "a link from {} to itself", link.ends[0]);
        for end in link.ends {
            let ports = &mut self.ports[end.index()];
            assert!(ports.len() <= usize::from(u16::MAX), "{end} has too many links");
            ports.push(self.links.len() as u32);
        }
        self.links.push(link);
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.ports.len()
    }

    /// Links in order of their numbers.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Ports of a node with the number and the link behind each.
    pub fn ports(&self, node: NodeId) -> impl ExactSizeIterator<Item = (PortId, u32, &Link)> {
        let links = self.ports[node.index()].iter().enumerate();
        links.map(|(port, &link)| (PortId(port as u16), link, &self.links[link as usize]))
    }

    /// Number of the link behind a port, if the node has that port.
    pub fn link_at(&self, node: NodeId, port: PortId) -> Option<u32> {
        self.ports[node.index()].get(usize::from(port.0)).copied()
    }

    /// Port of a node on a link.
    pub fn port_on(&self, node: NodeId, link: u32) -> Option<PortId> {
        // Link numbers ascend in each list of ports.
        let at = self.ports[node.index()].binary_search(&link).ok()?;
        Some(PortId(at as u16))
    }

    /// Returns true if the graph is a tree: connected and without cycles.
    pub fn is_tree(&self) -> bool {
        self.links.len() + 1 == self.nodes() && self.is_connected()
    }

    /// Returns true if the topology has neither sources nor receivers: all nodes are routers.
    pub fn has_no_hosts(&self) -> bool {
        self.receivers.is_empty() && self.sources.is_empty()
    }

    /// Returns true if every node can reach every other one.
    pub fn is_connected(&self) -> bool {
        self.nodes() == 0 || self.component(NodeId(0), &mut vec![false; self.nodes()]).len() == self.nodes()
    }

    /// Nodes that a node reaches, in ascending order. `seen` has the nodes of other components.
    fn component(&self, first: NodeId, seen: &mut [bool]) -> Vec<NodeId> {
        let (mut found, mut next) = (vec![first], 0);
        seen[first.index()] = true;
        while let Some(&node) = found.get(next) {
            next += 1;
            for (_, _, link) in self.ports(node) {
                let other = link.other(node);
                if !std::mem::replace(&mut seen[other.index()], true) {
                    found.push(other);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// Nodes of the largest component in ascending order; of equal ones, of the one with the lowest node.
    pub fn largest_component(&self) -> Vec<NodeId> {
        let mut seen = vec![false; self.nodes()];
        let mut largest = Vec::new();
        for node in (0..self.nodes() as u32).map(NodeId) {
            if !seen[node.index()] {
                let component = self.component(node, &mut seen);
                if component.len() > largest.len() {
                    largest = component;
                }
            }
        }
        largest
    }

    /// Part of the topology with these nodes only, which are in ascending order and numbered anew.
    pub fn part(&self, nodes: &[NodeId]) -> Topology {
        let number = |node: &NodeId| nodes.binary_search(node).ok().map(|at| NodeId(at as u32));
        let numbers = |list: &[NodeId]| list.iter().filter_map(number).collect();
        let mut part = Topology::new(nodes.len());
        for link in &self.links {
            if let [Some(a), Some(b)] = link.ends.each_ref().map(number) {
                part.add_link(Link { ends: [a, b], ..*link });
            }
        }
        part.sources = numbers(&self.sources);
        part.receivers = numbers(&self.receivers);
        part.names = nodes.iter().filter_map(|node| self.names.get(node.index()).cloned()).collect();
        part
    }

    /// Parses an edges file, with `node node delay_ms [rate_mbps [queue [loss]]]` in each line, and a roles file, with
    /// `nodes N`, `source NODE`, `receiver NODE` and `name NODE TEXT` in any order; `#` begins a comment.
    pub fn parse(edges: &str, roles: &str) -> Result<Self, RolesOrEdges> {
        let mut topology = Self::parse_roles(roles).map_err(RolesOrEdges::Roles)?;
        topology.parse_edges(edges).map_err(RolesOrEdges::Edges)?;
        Ok(topology)
    }

    fn parse_roles(text: &str) -> Result<Self, TopologyError> {
        let (mut nodes, mut sources, mut receivers) = (None, Vec::new(), Vec::new());
        let mut names = Vec::new();
        for (line, words) in lines(text) {
            let fail = |problem: String| TopologyError { line, problem };
            if let ["name", node, _, ..] = words[..] {
                let node = node.parse().map_err(|_| fail(format!("`{node}` is no number of a node")))?;
                names.push((line, NodeId(node), words[2..].join(" ")));
                continue;
            }
            let [role, number] = words[..] else {
                return Err(fail(
                    "expected `nodes N`, `source NODE`, `receiver NODE` or `name NODE TEXT`".into(),
                ));
            };
            let number: u32 =
                number.parse().map_err(|_| fail(format!("`{number}` is no number of a node")))?;
            match role {
                "nodes" if number == 0 || number > MAX_NODES => {
                    return Err(fail(format!("`nodes {number}`: 1 to {MAX_NODES} are possible")));
                }
                "nodes" if nodes.is_some() => return Err(fail("a second line `nodes N`".into())),
                "source" if !sources.is_empty() => {
                    return Err(fail("a second source: one is possible".into()));
                }
                "nodes" => nodes = Some(number),
                "source" => sources.push((line, NodeId(number))),
                "receiver" => receivers.push((line, NodeId(number))),
                other => return Err(fail(format!("`{other}` is none of nodes, source, receiver and name"))),
            }
        }
        let nodes = nodes.ok_or(TopologyError { line: 0, problem: "a line `nodes N` is missing".into() })?;
        let mut seen = std::collections::BTreeSet::new();
        for &(line, node) in &receivers {
            if !seen.insert(node) {
                return Err(TopologyError { line, problem: format!("node {} is a receiver twice", node.0) });
            }
            if sources.iter().any(|&(_, source)| source == node) {
                let problem = format!("node {} is the source, and no receiver", node.0);
                return Err(TopologyError { line, problem });
            }
        }
        let take = |list: Vec<(usize, NodeId)>| {
            let known = |(line, node): (usize, NodeId)| match node.0 < nodes {
                true => Ok(node),
                false => {
                    let problem = format!("node {} is none of the {nodes}, which count from 0", node.0);
                    Err(TopologyError { line, problem })
                }
            };
            list.into_iter().map(known).collect::<Result<Vec<_>, _>>()
        };
        let (sources, mut receivers) = (take(sources)?, take(receivers)?);
        // Members are numbered by their position in this list, so it must ascend.
        receivers.sort_unstable();
        let mut topology = Topology { sources, receivers, ..Topology::new(nodes as usize) };
        for (line, node, name) in names {
            take(vec![(line, node)])?;
            topology.names.resize(topology.names.len().max(node.index() + 1), String::new());
            topology.names[node.index()] = name;
        }
        Ok(topology)
    }

    fn parse_edges(&mut self, text: &str) -> Result<(), TopologyError> {
        for (line, words) in lines(text) {
            let fail = |problem: String| TopologyError { line, problem };
            let [a, b, delay, ref own @ ..] = words[..] else { return Err(fail(EDGE_FORM.into())) };
            if own.len() > 3 {
                return Err(fail(EDGE_FORM.into()));
            }
            let ends = [a, b];
            let mut nodes = [NodeId(0); 2];
            for (node, word) in nodes.iter_mut().zip(ends) {
                let number: u32 =
                    word.parse().map_err(|_| fail(format!("`{word}` is no number of a node")))?;
                if number as usize >= self.nodes() {
                    let count = self.nodes();
                    return Err(fail(format!("node {number} is none of the {count}, which count from 0")));
                }
                *node = NodeId(number);
            }
            if nodes[0] == nodes[1] {
                return Err(fail(format!("a link from node {} to itself", nodes[0].0)));
            }
            if nodes.iter().any(|node| self.ports[node.index()].len() > usize::from(u16::MAX)) {
                return Err(fail("a node has more than 65536 links".into()));
            }
            let delay = positive(delay, 1e9).ok_or_else(|| fail(format!("`{delay}` is no delay in ms")))?;
            // A dash stands for the value of the network.
            let own = |column: usize| own.get(column).copied().filter(|&word| word != "-");
            let rate = own(0).map(|word| {
                let rate = positive(word, 1e9).and_then(|mbps| BitRate::new((mbps * 1e6).round() as u64));
                rate.ok_or_else(|| fail(format!("`{word}` is no rate in Mbit/s")))
            });
            let queue = own(1).map(|word| {
                let places: Option<u32> = word.parse().ok();
                places.ok_or_else(|| fail(format!("`{word}` is no queue: expected a number of packets")))
            });
            let loss = own(2).map(|word| {
                let p = word.parse().ok().and_then(Probability::new);
                p.ok_or_else(|| fail(format!("`{word}` is no loss: expected a probability from 0 to 1")))
            });
            self.add_link(Link {
                rate: rate.transpose()?,
                queue: queue.transpose()?,
                loss: loss.transpose()?,
                ..Link::new(nodes, Duration::from_nanos((delay * 1e6).round() as u64))
            });
        }
        Ok(())
    }

    /// Contents of the edges file.
    pub fn edges(&self) -> String {
        let mut text = String::new();
        for Link { ends: [a, b], delay, rate, queue, loss } in &self.links {
            let delay = delay.as_nanos() as f64 / 1e6;
            let own = [
                rate.map(|rate| (rate.bps() as f64 / 1e6).to_string()),
                queue.map(|queue| queue.to_string()),
                loss.map(|loss| loss.value().to_string()),
            ];
            let columns = own.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            // Writing to a string does not fail.
            let _ = write!(text, "{} {} {delay}", a.0, b.0);
            for column in &own[..columns] {
                let _ = write!(text, " {}", column.as_deref().unwrap_or("-"));
            }
            text.push('\n');
        }
        text
    }

    /// Contents of the roles file.
    pub fn roles(&self) -> String {
        let mut text = format!("nodes {}\n", self.nodes());
        for (role, nodes) in [("source", &self.sources), ("receiver", &self.receivers)] {
            for node in nodes {
                let _ = writeln!(text, "{role} {}", node.0);
            }
        }
        for (node, name) in self.names.iter().enumerate() {
            // A comment, a line break or a run of blanks would not be read back.
            let words: Vec<&str> = name.split(|c: char| c.is_whitespace() || c == '#').collect();
            let name = words.join(" ");
            if !name.trim().is_empty() {
                let _ = writeln!(text, "name {node} {}", name.trim());
            }
        }
        text
    }
}

/// Error in one of the two files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolesOrEdges {
    /// Error in the roles file.
    Roles(TopologyError),
    /// Error in the edges file.
    Edges(TopologyError),
}

impl Link {
    /// End that is not `node`.
    pub fn other(&self, node: NodeId) -> NodeId {
        if self.ends[0] == node { self.ends[1] } else { self.ends[0] }
    }
}

/// Lines with contents, with their numbers and words.
fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().filter_map(|(number, line)| {
        let said = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = said.split_whitespace().collect();
        (!words.is_empty()).then_some((number + 1, words))
    })
}

/// Form of a line of an edges file.
const EDGE_FORM: &str = "expected `node node delay_ms [rate_mbps [queue_packets [loss]]]`";

/// Parses a non-negative number of at most `most`.
fn positive(word: &str, most: f64) -> Option<f64> {
    word.parse().ok().filter(|number: &f64| (0.0..=most).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: &str = "nodes 4\nsource 0\nreceiver 2 # the far one\nreceiver 3\n";

    #[test]
    fn written_files_are_read_back() {
        let edges = "0 1 10.5\n1 2 0.25 100\n\n# a comment\n1 3 2\n";
        let topology = Topology::parse(edges, ROLES).expect("a topology");
        assert_eq!(topology.nodes(), 4);
        assert_eq!(topology.sources, [NodeId(0)]);
        assert_eq!(topology.receivers, [NodeId(2), NodeId(3)]);
        assert_eq!(topology.links()[0].delay, Duration::from_micros(10_500));
        assert_eq!(topology.links()[1].rate, Some(BitRate::mbps(100)));
        assert_eq!(topology.edges(), "0 1 10.5\n1 2 0.25 100\n1 3 2\n");
        assert_eq!(topology.roles(), "nodes 4\nsource 0\nreceiver 2\nreceiver 3\n");
        assert!(topology.is_tree());
        let again = Topology::parse(&topology.edges(), &topology.roles()).expect("the same");
        assert_eq!(again.links(), topology.links());
        let ports: Vec<_> =
            topology.ports(NodeId(1)).map(|(port, _, link)| (port.0, link.other(NodeId(1)).0)).collect();
        assert_eq!(ports, [(0, 0), (1, 2), (2, 3)]);
        assert_eq!(topology.port_on(NodeId(1), 2), Some(PortId(2)));
        assert_eq!(topology.port_on(NodeId(0), 2), None);
    }

    #[test]
    fn links_have_their_own_rate_queue_and_loss() {
        let edges = "0 1 1 - 7\n1 2 1 10 - 0.25\n1 3 1 5\n";
        let topology = Topology::parse(edges, ROLES).expect("a topology");
        let [a, b, c] = topology.links() else { panic!("{topology:?}") };
        assert_eq!((a.rate, a.queue, a.loss), (None, Some(7), None));
        assert_eq!(
            (b.rate, b.queue, b.loss.map(Probability::value)),
            (Some(BitRate::mbps(10)), None, Some(0.25))
        );
        assert_eq!((c.rate, c.queue, c.loss), (Some(BitRate::mbps(5)), None, None));
        assert_eq!(topology.edges(), edges);
    }

    #[test]
    fn names_are_written_and_read_back() {
        let roles = "nodes 3\nsource 0\nreceiver 2\nname 2 San  Jose # in CA\nname 0 a\n";
        let mut topology = Topology::parse("0 1 1\n1 2 1", roles).expect("a topology");
        assert_eq!(topology.names, ["a", "", "San Jose"]);
        topology.names[1] = "two\nlines#".into();
        assert_eq!(
            topology.roles().lines().skip(3).collect::<Vec<_>>(),
            ["name 0 a", "name 1 two lines", "name 2 San Jose"]
        );
    }

    #[test]
    fn receivers_in_any_order_are_the_same_topology() {
        let edges = "0 1 10.5\n1 2 0.25\n1 3 2\n";
        let turned = "receiver 3\nreceiver 2\nsource 0\nnodes 4\n";
        assert_eq!(Topology::parse(edges, turned), Topology::parse(edges, ROLES));
    }

    #[test]
    fn cycles_and_disconnected_graphs_are_no_trees() {
        let circle = Topology::parse("0 1 1\n1 2 1\n2 3 1\n3 0 1", ROLES).expect("a topology");
        assert!(!circle.is_tree());
        let apart = Topology::parse("0 1 1\n1 2 1\n2 0 1", ROLES).expect("a topology");
        assert!(!apart.is_tree());
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        let roles = |text: &str| match Topology::parse("", text) {
            Err(RolesOrEdges::Roles(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(roles("source 0"), "a line `nodes N` is missing");
        assert_eq!(roles("nodes 2\nsink 1"), "line 2: `sink` is none of nodes, source, receiver and name");
        assert_eq!(roles("nodes 2\nreceiver 2"), "line 2: node 2 is none of the 2, which count from 0");
        assert_eq!(roles("nodes 2\nreceiver 1\nreceiver 1"), "line 3: node 1 is a receiver twice");
        assert_eq!(roles("nodes 2\nnodes 2"), "line 2: a second line `nodes N`");
        assert_eq!(roles("nodes 2\nsource 0\nsource 1"), "line 3: a second source: one is possible");
        let both = "receiver 1\nreceiver 0\nsource 0\nnodes 2";
        assert_eq!(roles(both), "line 2: node 0 is the source, and no receiver");
        assert_eq!(roles("nodes 99999999999"), "line 1: `99999999999` is no number of a node");
        assert_eq!(roles("nodes 0"), "line 1: `nodes 0`: 1 to 10000000 are possible");
        let edges = |text: &str| match Topology::parse(text, ROLES) {
            Err(RolesOrEdges::Edges(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(edges("0 1"), format!("line 1: {EDGE_FORM}"));
        assert_eq!(edges("0 1 1 - - - -"), format!("line 1: {EDGE_FORM}"));
        assert_eq!(edges("0 1 1 - 1.5"), "line 1: `1.5` is no queue: expected a number of packets");
        assert_eq!(edges("0 1 1 5 9 2"), "line 1: `2` is no loss: expected a probability from 0 to 1");
        assert_eq!(edges("0 4 1"), "line 1: node 4 is none of the 4, which count from 0");
        assert_eq!(edges("0 0 1"), "line 1: a link from node 0 to itself");
        assert_eq!(edges("0 1 -1"), "line 1: `-1` is no delay in ms");
        assert_eq!(edges("0 1 nan"), "line 1: `nan` is no delay in ms");
        assert_eq!(edges("0 1 1 0"), "line 1: `0` is no rate in Mbit/s");
    }
}
