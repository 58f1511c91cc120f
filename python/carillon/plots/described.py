"""Figures of the laboratory from their descriptions, and tables beside their published numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carillon.plots.points import distinct, quantity
from carillon.plots.style import COLOURS, DASHES, MARKERS, Columns, canvas, figure_of, legend

LINESTYLES = {"solid": "-", "dashed": "--", "dotted": ":", "dash-dot": "-."}

FILLED = {"circle": "o", "disc": "o", "square": "s", "triangle": "^", "diamond": "D"}

OUTLINES = {"circle": "o", "open-square": "s", "open-triangle": "^", "open-diamond": "D"}


def described(
    figure: Mapping[str, Any] | str | Sequence[Mapping[str, Any]], *, ax: Axes | None = None, columns: Columns = 1
) -> Figure:
    """Draw a figure, or several as panels, from descriptions as `carillon plot --json` and `carillon reproduce` write.

    Args:
        figure: A description (`docs/reference/experiments.md`), its JSON, or a list of descriptions.
        ax: Axes to draw into.
        columns: Width of a new figure: one column of a paper or two.

    >>> figure = described({
    ...     "title": "Two points",
    ...     "x": {"label": "Receivers", "unit": None, "log": False},
    ...     "y": {"label": "Latency", "unit": "ms", "log": False},
    ...     "series": [
    ...         {"name": "msaw", "colour": 0, "kind": "points", "points": [[1, 2], [2, 3]], "marker": "disc"}
    ...     ],
    ... })
    >>> figure.axes[0].get_ylabel()
    'Latency (ms)'
    """
    given: Any = json.loads(figure) if isinstance(figure, str) else figure
    figures: list[Mapping[str, Any]] = [given] if isinstance(given, Mapping) else list(given)
    if not figures:
        raise ValueError("there is no figure to draw")
    with canvas(ax, columns, len(figures)) as axes:
        for panel, one in zip(axes, figures, strict=True):
            _draw(panel, one)
            if len(figures) > 1:
                legend([panel], panel)
        if len(figures) == 1:
            legend(axes, ax)
        return figure_of(axes[0])


def published(
    table: Mapping[str, Any],
    quantities: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    columns: Columns = 1,
) -> Figure:
    """Draw a reproduced table with a panel for each quantity.

    Simulated means are lines, and published means outlines around them.

    Args:
        table: Numbers of a reproduced table (`Experiment.data`).
        quantities: Labels of the quantities to draw; all if not given.
        ax: Axes to draw into; for one quantity.
        columns: Width of a new figure: one column of a paper or two.

    Raises:
        KeyError: The table has no such quantity.
    """
    labels = [cell["label"] for cell in table["rows"][0]["cells"]]
    for wanted in quantities or []:
        if wanted not in labels:
            raise KeyError(f"the table has no {wanted!r}; there are {', '.join(labels)}")
    chosen = [labels.index(name) for name in (quantities or labels)]
    keys = table["keys"]
    # The key with most values is the horizontal axis, the others tell series apart.
    counts = [len(distinct(row["keys"][at] for row in table["rows"])) for at in range(len(keys))]
    x = counts.index(max(counts))
    with canvas(ax, columns, len(chosen)) as axes:
        for panel, quantity_at in zip(axes, chosen, strict=True):
            _compare(panel, table["rows"], keys, x, quantity_at)
            panel.set_xlabel(keys[x][:1].upper() + keys[x][1:])
            panel.set_ylabel(labels[quantity_at][:1].upper() + labels[quantity_at][1:])
            panel.set_ylim(bottom=min(0, panel.get_ylim()[0]))
        legend(axes, ax)
        return figure_of(axes[0])


def _compare(panel: Axes, rows: Sequence[Mapping[str, Any]], keys: Sequence[str], x: int, at: int) -> None:
    others = [key for key in range(len(keys)) if key != x and len(distinct(row["keys"][key] for row in rows)) > 1]
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        name = ", ".join(f"{keys[key]} {row['keys'][key]}" for key in others)
        cell = row["cells"][at]
        number = quantity(row["keys"][x])
        place = float(len(groups.get(name, []))) if number is None else number[0]
        printed = (cell["published"] or {}).get("value")
        value = np.nan if cell["value"] is None else cell["value"]
        groups.setdefault(name, []).append((place, value, np.nan if printed is None else printed))
    has_published = False
    for number_of, (name, points) in enumerate(groups.items()):
        colour, marker = COLOURS[number_of % len(COLOURS)], MARKERS[number_of % len(MARKERS)]
        places, simulated, printed = np.array(points).T
        panel.plot(
            places,
            simulated,
            color=colour,
            linestyle=DASHES[number_of % len(DASHES)],
            marker=marker,
            label=name or "simulated",
        )
        if np.isfinite(printed).any():
            panel.plot(
                places,
                printed,
                linestyle="none",
                marker=marker,
                markersize=6.5,
                markerfacecolor="none",
                markeredgecolor=colour,
                label="" if has_published else "published" if not name else "published (outlines)",
            )
            has_published = True


def _draw(panel: Axes, figure: Mapping[str, Any]) -> None:
    for order, series in enumerate(figure["series"]):
        _marks(panel, series, COLOURS[series["colour"] % len(COLOURS)], 2 + order / 100)
    for name in ("x", "y"):
        axis = figure[name]
        caption = f"{axis['label']} ({axis['unit']})" if axis.get("unit") else axis["label"]
        panel.set(**{f"{name}label": caption, f"{name}scale": "log" if axis["log"] else "linear"})
    names = figure["x"].get("categories") or []
    if names:
        is_long = sum(len(name) for name in names) > 40
        panel.set_xticks(range(len(names)), names, rotation=30 if is_long else 0, ha="right" if is_long else "center")
    if not figure["y"]["log"] and panel.get_ylim()[0] > 0:
        panel.set_ylim(bottom=0)
    panel.set_title(figure["title"], wrap=True)


def _marks(panel: Axes, series: Mapping[str, Any], colour: str, zorder: float) -> None:
    name, points = series["name"] or None, series["points"]
    if not points:
        return
    match series["kind"]:
        case "line":
            places, values = np.array(points, dtype=float).T
            marker = series["marker"]
            panel.plot(
                places,
                values,
                color=colour,
                linestyle=LINESTYLES[series["dash"]],
                marker=FILLED.get(marker, "o") if marker else None,
                label=name,
                zorder=zorder,
            )
        case "points":
            places, values = np.array(points, dtype=float).T
            marker = series["marker"]
            panel.plot(
                places,
                values,
                linestyle="none",
                marker=OUTLINES.get(marker) or FILLED[marker],
                markersize=6.5 if marker in OUTLINES else None,
                markerfacecolor="none" if marker in OUTLINES else colour,
                markeredgecolor=colour,
                label=name,
                zorder=zorder,
            )
        case "band":
            places, lows, highs = np.array(points, dtype=float).T
            panel.fill_between(
                places, lows, highs, facecolor=colour, alpha=0.2, edgecolor=colour, linewidth=0.4, label=name
            )
        case "whiskers":
            places, lows, highs = np.array(points, dtype=float).T
            _ranges(panel, places, lows, highs, colour, name, zorder)
        case "hi-lo-mean":
            places, lows, means, highs = np.array(
                [[point[k] for k in ("x", "low", "mean", "high")] for point in points]
            ).T
            _ranges(panel, places, lows, highs, colour, None, zorder)
            panel.plot(places, means, color=colour, marker="o", label=name, zorder=zorder)
        case "boxes":
            columns = {"whislo": "min", "q1": "p25", "med": "p50", "q3": "p75", "whishi": "max"}
            drawn = panel.bxp(
                [{part: point[column] for part, column in columns.items()} for point in points],
                positions=[point["x"] for point in points],
                widths=_box_width([point["x"] for point in points]),
                showfliers=False,
                patch_artist=True,
                manage_ticks=False,
                zorder=zorder,
                boxprops={"facecolor": "#d9d9d9", "edgecolor": colour, "linewidth": 0.6},
                medianprops={"color": colour},
                whiskerprops={"color": colour, "linewidth": 0.6},
                capprops={"color": colour, "linewidth": 0.6},
            )
            if name:
                drawn["boxes"][0].set_label(name)
        case other:
            raise ValueError(f"{other!r} is no kind of series")


def _ranges(panel: Axes, places: Any, lows: Any, highs: Any, colour: str, name: str | None, zorder: float) -> None:
    middle = (lows + highs) / 2
    panel.errorbar(
        places,
        middle,
        yerr=(highs - lows) / 2,
        linestyle="none",
        color=colour,
        elinewidth=0.8,
        capsize=2,
        label=name,
        zorder=zorder,
    )


def _box_width(places: Sequence[float]) -> float:
    gaps = np.diff(sorted(places))
    return 0.4 * float(gaps.min()) if len(gaps) else 0.4
