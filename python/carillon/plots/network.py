"""Drawings of topologies."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carillon.plots.style import COLOURS, Columns, canvas, figure_of
from carillon.scenario import Scenario, ScenarioLike, as_scenario
from carillon.topology import Topology

ROLES: dict[str, dict[str, Any]] = {
    "router": {"marker": "o", "facecolor": "white", "edgecolor": "#7f7f7f", "s": 14},
    "helper": {"marker": "D", "facecolor": COLOURS[3], "edgecolor": "black", "s": 22},
    "receiver": {"marker": "s", "facecolor": COLOURS[1], "edgecolor": COLOURS[1], "s": 12},
    "source": {"marker": "*", "facecolor": COLOURS[2], "edgecolor": "black", "s": 90},
}
"""Marks of nodes, which differ in shape, size and colour."""

Positions = Mapping[int, tuple[float, float]]


def topology(
    network: Topology | ScenarioLike | tuple[Sequence[str], Sequence[tuple[int, int]]],
    *,
    positions: Positions | None = None,
    names: bool = False,
    ax: Axes | None = None,
    columns: Columns = 1,
) -> Figure:
    """Draw the nodes and links of a network: source, receivers, routers and helpers.

    Trees have the source at the top. Other graphs are laid out so that distances on paper follow the number of links
    between nodes. Equal networks give equal drawings.

    Args:
        network: A topology, a scenario, of which the first point is drawn, or the role of each node and the ends of
            each link.
        positions: Position of each node, such as its coordinates.
        names: Write the number of each node beside it.
        ax: Axes to draw into.
        columns: Width of a new figure: one column of a paper or two.

    >>> figure = topology((["source", "router", "receiver", "receiver"], [(0, 1), (1, 2), (1, 3)]))
    >>> [collection.get_label() for collection in figure.axes[0].collections[1:]]
    ['router', 'receiver (2)', 'source']
    """
    roles, links = _nodes_and_links(network)
    where = positions or _tree(roles, links) or _stress(len(roles), links)
    with canvas(ax, columns) as (panel,):
        segments = [(where[a], where[b]) for a, b in links]
        _links(panel, segments)
        for role, look in ROLES.items():
            own = [node for node, name in enumerate(roles) if name == role]
            if own:
                places = np.array([where[node] for node in own])
                label = role if len(own) == 1 else f"{role} ({len(own)})"
                panel.scatter(places[:, 0], places[:, 1], linewidths=0.6, zorder=3, label=label, **look)
        if names:
            for node, (x, y) in where.items():
                panel.annotate(str(node), (x, y), (3, 3), textcoords="offset points", fontsize=6)
        panel.set_axis_off()
        panel.margins(0.05)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=4, handletextpad=0.2, columnspacing=1)
        return figure_of(panel)


def _nodes_and_links(network: Any) -> tuple[list[str], list[tuple[int, int]]]:
    if isinstance(network, tuple):
        roles, links = list(network[0]), [(a, b) for a, b in network[1]]
    elif isinstance(network, Topology):
        roles = ["router"] * network.nodes
        for nodes, role in ((network.receivers, "receiver"), (network.sources, "source")):
            for node in nodes:
                roles[node] = role
        links = [(link.a, link.b) for link in network.links]
    else:
        scenario = network if isinstance(network, Scenario) else as_scenario(network)
        roles, links = scenario._inner.network()
    for role in roles:
        if role not in ROLES:
            raise ValueError(f"{role!r} is no role of a node; there are {', '.join(ROLES)}")
    for ends in links:
        if not all(0 <= end < len(roles) for end in ends):
            raise ValueError(f"the link {ends} has an end that is no node: there are {len(roles)} nodes")
    return roles, links


def _links(panel: Axes, segments: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    from matplotlib.collections import LineCollection

    panel.add_collection(LineCollection(segments, colors="#7f7f7f", linewidths=0.6, zorder=1))


def _neighbours(count: int, links: Sequence[tuple[int, int]]) -> list[list[int]]:
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for a, b in links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    return neighbours


def _tree(roles: Sequence[str], links: Sequence[tuple[int, int]]) -> Positions | None:
    """Return positions with each parent above the middle of its children; None if the network is no tree."""
    count = len(roles)
    if len(links) != count - 1 or "source" not in roles:
        return None
    neighbours = _neighbours(count, links)
    root = roles.index("source")
    depth, parent, order = {root: 0}, {root: root}, [root]
    for node in order:
        for other in neighbours[node]:
            if other not in depth:
                depth[other], parent[other] = depth[node] + 1, node
                order.append(other)
    if len(order) < count:
        return None
    children: dict[int, list[int]] = {}
    for node in order[1:]:
        children.setdefault(parent[node], []).append(node)
    across: dict[int, float] = {}
    leaves = 0
    # Depth first without recursion: a chain of routers may be longer than the stack.
    pending = [(root, False)]
    while pending:
        node, is_placed = pending.pop()
        below = children.get(node, [])
        if is_placed:
            across[node] = (across[below[0]] + across[below[-1]]) / 2
        elif below:
            pending.append((node, True))
            pending.extend((child, False) for child in reversed(below))
        else:
            across[node] = float(leaves)
            leaves += 1
    return {node: (across[node], -float(depth[node])) for node in range(count)}


def _stress(count: int, links: Sequence[tuple[int, int]]) -> Positions:
    """Return positions whose distances follow the number of links between nodes.

    Stress majorization (Gansner, Koren and North 2004), from a circle.
    """
    distances = _distances(count, links)
    angles = 2 * np.pi * np.arange(count) / max(count, 1)
    places = np.column_stack([np.cos(angles), np.sin(angles)]) * max(distances.max(), 1.0) / 2
    with np.errstate(divide="ignore"):
        weights = np.where(distances > 0, distances**-2.0, 0.0)
    totals = np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
    for _ in range(ROUNDS if count <= MAX_LAID_OUT_NODES else 0):
        offsets = places[:, None, :] - places[None, :, :]
        lengths = np.sqrt((offsets**2).sum(axis=2))
        np.fill_diagonal(lengths, 1.0)
        pull = np.where(lengths > 0, distances / lengths, 0.0)[:, :, None] * offsets
        places = (weights[:, :, None] * (places[None, :, :] + pull)).sum(axis=1) / totals
    return {node: (float(x), float(y)) for node, (x, y) in enumerate(places)}


def _distances(count: int, links: Sequence[tuple[int, int]]) -> np.ndarray[Any, Any]:
    """Return the number of links between all pairs of nodes; parts that are not connected are far apart."""
    neighbours = _neighbours(count, links)
    distances = np.full((count, count), float(count) ** 0.5 + 1)
    for start in range(count):
        distances[start, start] = 0
        seen, queue = {start}, deque([start])
        while queue:
            node = queue.popleft()
            for other in neighbours[node]:
                if other not in seen:
                    seen.add(other)
                    distances[start, other] = distances[start, node] + 1
                    queue.append(other)
    return distances


ROUNDS = 150

MAX_LAID_OUT_NODES = 1500
