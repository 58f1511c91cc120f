"""Topologies of routed networks: files in many formats, networkx graphs, and the networks of scenarios."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carillon import _carillon

if TYPE_CHECKING:
    import networkx

DEFAULT_DELAY_S = 0.01
"""Delay of a link in seconds if neither a delay nor positions are known."""


@dataclass(frozen=True)
class Link:
    """Link between two nodes, equal in both directions."""

    a: int
    """Number of one node."""
    b: int
    """Number of the other node."""
    delay_s: float
    """Propagation delay in seconds."""
    rate_bps: int | None = None
    """Rate in bit/s; `None` is the rate of the network."""
    queue: int | None = None
    """Packets that may wait at each end; `None` is the queue of the network."""
    loss: float | None = None
    """Probability of loss in each direction; `None` is the loss of the scenario."""


@dataclass(frozen=True)
class Topology:
    """Nodes, numbered from 0, and the links between them.

    A topology without a source and receivers has routers only; a scenario then places as many hosts on it as
    `group.receivers` says. The value of `network.topology` in a scenario may be a topology.

    >>> ring = Topology(4, [Link(node, (node + 1) % 4, 0.002) for node in range(4)])
    >>> scenario = {
    ...     "name": "ring",
    ...     "network": {"kind": "graph", "topology": ring},
    ...     "group": {"receivers": 6},
    ...     "protocol": {"name": "pgm"},
    ...     "workload": {"messages": 10, "message_bytes": 500, "rate": "100 packet/s"},
    ... }
    >>> import carillon
    >>> carillon.run(scenario, progress=False).mean("undelivered_share")
    0.0
    """

    nodes: int
    """Number of nodes."""
    links: list[Link] = field(default_factory=list)
    """Links in the order of their numbers."""
    sources: list[int] = field(default_factory=list)
    """Nodes that send."""
    receivers: list[int] = field(default_factory=list)
    """Nodes that receive."""
    names: list[str] = field(default_factory=list)
    """Names of the first nodes; an empty one is none."""

    @classmethod
    def read(cls, path: str | PathLike[str], *, default_delay_s: float = DEFAULT_DELAY_S) -> Topology:
        """Read a file: `.edges` with `.roles`, GraphML, GML, BRITE, Rocketfuel or GT-ITM; or a shipped topology.

        Args:
            path: Path of the file, or the name of a shipped topology such as `"rand0-r20"`.
            default_delay_s: Delay of links for which the file has neither a delay nor positions.

        Raises:
            ScenarioError: The file cannot be read; the message has the line and the reason.
        """
        parts = _carillon.read_topology(str(path), ".", round(default_delay_s * 1e9))
        nodes, links, sources, receivers, names = parts
        known = [Link(a, b, delay / 1e9, rate, queue, loss) for a, b, delay, rate, queue, loss in links]
        return cls(nodes, known, sources, receivers, names)

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph[Any],
        *,
        delay: str = "delay_s",
        rate: str = "rate_bps",
        default_delay_s: float = DEFAULT_DELAY_S,
        source: Hashable | None = None,
        receivers: Iterable[Hashable] = (),
    ) -> Topology:
        """Convert a networkx graph. Its nodes are numbered in their order; the two directions of a link become one.

        Args:
            graph: Graph of any class; edges from a node to itself are left out.
            delay: Edge attribute with the delay in seconds.
            rate: Edge attribute with the rate in bit/s.
            default_delay_s: Delay of edges without that attribute.
            source: Node that sends.
            receivers: Nodes that receive.

        >>> import networkx
        >>> Topology.from_networkx(networkx.path_graph(3), default_delay_s=0.001).links[1]
        Link(a=1, b=2, delay_s=0.001, rate_bps=None, queue=None, loss=None)
        """
        number = {node: at for at, node in enumerate(graph.nodes)}
        links: dict[tuple[int, int], Link] = {}
        for a, b, attributes in graph.edges(data=True):
            low, high = sorted((number[a], number[b]))
            rate_bps = attributes.get(rate)
            delay_s = float(attributes.get(delay, default_delay_s))
            rate_bps = None if rate_bps is None else int(rate_bps)
            link = Link(low, high, delay_s, rate_bps, attributes.get("queue"), attributes.get("loss"))
            if link.a != link.b:
                links.setdefault((link.a, link.b), link)
        names = [str(graph.nodes[node].get("name", node)) for node in graph.nodes]
        sources = [] if source is None else [number[source]]
        return cls(len(number), list(links.values()), sources, sorted(number[node] for node in receivers), names)

    def to_networkx(self) -> networkx.Graph[int]:
        """Return a networkx graph: nodes with `name` and `role`, edges with the properties of links.

        >>> Topology.read("rand0-r20").to_networkx().number_of_edges() == len(Topology.read("rand0-r20").links)
        True
        """
        import networkx

        graph: networkx.Graph[int] = networkx.Graph()
        for node in range(self.nodes):
            role = "source" if node in self.sources else "receiver" if node in self.receivers else "router"
            graph.add_node(node, name=self.names[node] if node < len(self.names) else "", role=role)
        for link in self.links:
            own = {"rate_bps": link.rate_bps, "queue": link.queue, "loss": link.loss}
            known = {key: value for key, value in own.items() if value is not None}
            graph.add_edge(link.a, link.b, delay_s=link.delay_s, **known)
        return graph

    def write(self, path: str | PathLike[str]) -> Path:
        """Write an `.edges` file and the `.roles` file beside it; return the path of the first.

        Raises:
            ValueError: The name does not end in `.edges`, or a link has a node that does not exist.
        """
        path = Path(path)
        if path.suffix != ".edges":
            raise ValueError(f"{path}: the name of a topology file ends in .edges")
        edges, roles = self._files()
        path.write_text(edges, encoding="utf-8")
        path.with_suffix(".roles").write_text(roles, encoding="utf-8")
        return path

    def _files(self) -> tuple[str, str]:
        links = [
            (link.a, link.b, round(link.delay_s * 1e9), link.rate_bps, link.queue, link.loss) for link in self.links
        ]
        return _carillon.topology_files((self.nodes, links, self.sources, self.receivers, self.names))


def named_topology(document: Mapping[str, Any], files: dict[str, bytes]) -> dict[str, Any]:
    """Replace a topology in a document by the name of a file, and add its contents to the files."""
    network = document.get("network")
    topology = network.get("topology") if isinstance(network, Mapping) else None
    if not isinstance(topology, Topology):
        return dict(document)
    edges, roles = (text.encode() for text in topology._files())
    # Equal topologies have equal names, so that a resumed sweep is the same sweep.
    name = "topology-" + hashlib.blake2b(edges + roles, digest_size=8).hexdigest()
    files |= {f"{name}.edges": edges, f"{name}.roles": roles}
    return {**document, "network": {**document["network"], "topology": f"{name}.edges"}}
