"""Time-sequence diagrams from traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carillon.plots.style import COLOURS, Columns, canvas, figure_of

KINDS = {"sent": "data", "repair_sent": "repair", "control_sent": "control"}

LOOKS: dict[str, tuple[str, Any]] = {
    "data": (COLOURS[0], "-"),
    "repair": (COLOURS[2], "--"),
    "control": (COLOURS[1], ":"),
}


@dataclass(frozen=True)
class Arrow:
    """A packet from one node to another."""

    kind: str
    """`"data"`, `"repair"` or `"control"`."""
    source: int
    target: int
    sent_ns: int
    received_ns: int
    text: str


def sequence(
    trace: Iterable[Mapping[str, Any]],
    *,
    nodes: Sequence[int] | None = None,
    start: float = 0.0,
    end: float | None = None,
    names: Mapping[int, str] | None = None,
    ax: Axes | None = None,
    columns: Columns = 1,
) -> Figure:
    """Draw a time-sequence diagram: time runs down, each node has a vertical line, each packet is an arrow.

    Original packets are solid, repairs dashed, control packets dotted. A dot marks a delivery to the application, a
    cross a frame that its receiver lost. A trace names the receiver of a packet but not its sender; the arrow comes
    from the last node that sent such a packet.

    Args:
        trace: Events, such as `Result.trace()`.
        nodes: Nodes to draw, from left to right; all that send or receive if not given.
        start: Begin of the drawn time in seconds.
        end: End of the drawn time in seconds; the last event if not given.
        names: Names of nodes in place of their numbers.
        ax: Axes to draw into.
        columns: Width of a new figure: one column of a paper or two.

    Raises:
        ValueError: No packet is sent or received in this time.
    """
    events = [row for row in trace if row["time_ns"] >= start * 1e9 and (end is None or row["time_ns"] <= end * 1e9)]
    found = arrows(events)
    if nodes is None:
        nodes = sorted({node for arrow in found for node in (arrow.source, arrow.target)})
    shown = [arrow for arrow in found if arrow.source in nodes and arrow.target in nodes]
    if not shown:
        raise ValueError(f"no packet goes from one of these nodes to another between {start} s and {end or 'the end'}")
    place = {node: at for at, node in enumerate(nodes)}
    first = min(arrow.sent_ns for arrow in shown)
    last = max(row["time_ns"] for row in events)
    unit, scale = ("s", 1e9) if last - first > 2e9 else ("ms", 1e6)
    with canvas(ax, columns) as (panel,):
        if ax is None:
            width = figure_of(panel).get_figwidth()
            figure_of(panel).set_size_inches(width, min(9.0, max(width, 0.16 * len(shown) + 1)))
        for arrow in shown:
            colour, dash = LOOKS[arrow.kind]
            panel.annotate(
                "",
                (place[arrow.target], arrow.received_ns / scale),
                (place[arrow.source], arrow.sent_ns / scale),
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": colour,
                    "linestyle": dash,
                    "linewidth": 0.8,
                    "shrinkA": 0,
                    "shrinkB": 0,
                    "mutation_scale": 6,
                },
            )
        _texts(panel, shown, place, scale)
        for row in events:
            if row["event"] == "delivered" and row["node"] in place:
                panel.plot(place[row["node"]], row["time_ns"] / scale, "o", color="black", markersize=3)
            if row["event"] == "frame_lost" and row.get("receiver") in place:
                panel.plot(place[row["receiver"]], row["time_ns"] / scale, "x", color="black", markersize=5)
        panel.set_ylim(last / scale, first / scale)
        panel.margins(y=0.02)
        panel.set_xlim(-0.3, len(nodes) - 0.7)
        panel.grid(visible=False)
        for at in range(len(nodes)):
            panel.axvline(at, color="#7f7f7f", linewidth=0.6, zorder=0)
        panel.set_xticks(range(len(nodes)), [(names or {}).get(node, f"node {node}") for node in nodes])
        panel.xaxis.tick_top()
        panel.spines[["bottom", "right", "top"]].set_visible(False)
        panel.set_ylabel(f"Time ({unit})")
        handles = [Line2D([], [], color=LOOKS[kind][0], linestyle=LOOKS[kind][1], label=kind) for kind in LOOKS]
        panel.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3)
        return figure_of(panel)


def arrows(events: Iterable[Mapping[str, Any]]) -> list[Arrow]:
    """Return the packets of a trace, each from the last node that sent such a packet to the node that received it."""
    sent: dict[tuple[object, object], list[Mapping[str, Any]]] = {}
    found = []
    for row in events:
        kind = KINDS.get(row["event"])
        if kind is not None:
            packet = row.get("packet") if kind == "control" else "data"
            sent.setdefault((packet, row.get("message")), []).append(row)
        elif row["event"] == "received":
            packet, message = row.get("packet"), row.get("message")
            name = "data" if packet in ("data", "repair") else packet
            origins = [one for one in sent.get((name, message), []) if one["node"] != row["node"]]
            if origins:
                origin = origins[-1]
                text = packet if message is None else f"{packet} {message}"
                arrow = Arrow(
                    KINDS[origin["event"]], origin["node"], row["node"], origin["time_ns"], row["time_ns"], str(text)
                )
                found.append(arrow)
    return found


def _texts(panel: Axes, shown: Sequence[Arrow], place: Mapping[int, int], scale: float) -> None:
    """Label the first arrow of each packet, where there are few enough to read."""
    if len(shown) > MAX_LABELLED_ARROWS:
        return
    labelled = set()
    for arrow in shown:
        if (arrow.source, arrow.sent_ns, arrow.text) in labelled:
            continue
        labelled.add((arrow.source, arrow.sent_ns, arrow.text))
        panel.text(
            (place[arrow.source] + place[arrow.target]) / 2,
            (arrow.sent_ns + arrow.received_ns) / 2 / scale,
            arrow.text,
            fontsize=plt.rcParams["xtick.labelsize"],
            ha="center",
            va="bottom",
        )


MAX_LABELLED_ARROWS = 60
