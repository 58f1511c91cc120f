"""Figures of the results of sweeps: lines, bars, boxes, scatter plots and distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carillon.plots.points import (
    Layout,
    Results,
    centre,
    layout,
    metric_label,
    rows_of,
    series_name,
    varying_keys,
)
from carillon.plots.style import COLOURS, DASHES, MARKERS, Columns, canvas, figure_of, legend

Interval: TypeAlias = Literal["ci95", "quartiles", "range", "none"]
"""Bars at a point: the 95 % confidence interval of the mean over runs, the quartiles around the median, the range of
all samples, or none."""

HATCHES = ["", "///", "...", "xxx", "\\\\\\", "+++"]


def lines(
    result: Results,
    y: str,
    *,
    x: str | None = None,
    series: str | Sequence[str] | None = None,
    facets: str | None = None,
    where: Mapping[str, Any] | None = None,
    interval: Interval = "ci95",
    log_x: bool = False,
    log_y: bool = False,
    ax: Axes | None = None,
    columns: Columns = 1,
) -> Figure:
    """Draw a metric over a swept key: a line for each series, a bar for the interval at each point.

    Points are joined by lines only if the key has numbers.

    Args:
        result: A result, or several by name.
        y: Name of the metric.
        x: Key along the horizontal axis; the one with most values if not given.
        series: Key or keys that tell series apart; all other keys that vary if not given.
        facets: Key with a panel for each of its values; all panels have the same axes.
        where: Values of swept keys to draw.
        interval: Meaning of the bars.
        log_x: Use a logarithmic horizontal axis.
        log_y: Use a logarithmic vertical axis.
        ax: Axes to draw into.
        columns: Width of a new figure: one column of a paper or two.

    Raises:
        KeyError: There is no such metric or key.
        ValueError: Several points would have the same place.
    """
    chosen = _layout(result, "summary", y, x, series, facets, where)
    panels = chosen.panels()
    names = list(chosen.groups(chosen.rows))
    with canvas(ax, columns, len(panels)) as axes:
        for panel, (title, rows) in zip(axes, panels, strict=True):
            # Scales come first: setting one removes the names of an axis.
            panel.set_xscale("log" if log_x else "linear")
            panel.set_yscale("log" if log_y else "linear")
            for name, group in chosen.groups(rows).items():
                at = names.index(name)
                points = np.array([(chosen.axis.position(row, chosen.x), *centre(row, interval)) for row in group])
                panel.errorbar(
                    points[:, 0],
                    points[:, 1],
                    yerr=_lengths(points) if np.isfinite(points[:, 2]).any() else None,
                    label=name or None,
                    color=COLOURS[at % len(COLOURS)],
                    linestyle="none" if chosen.axis.categories else DASHES[at % len(DASHES)],
                    marker=MARKERS[at % len(MARKERS)],
                    capsize=2,
                    elinewidth=0.8,
                )
            _finish(panel, chosen, y, title)
        _share(axes)
        if not log_y and all(panel.get_ylim()[0] >= 0 or _is_not_negative(panel) for panel in axes):
            for panel in axes:
                panel.set_ylim(bottom=0)
        legend(axes, ax)
        return figure_of(axes[0])


def bars(
    result: Results,
    y: str,
    *,
    x: str | None = None,
    series: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    interval: Interval = "ci95",
    ax: Axes | None = None,
    columns: Columns = 1,
) -> Figure:
    """Draw a metric as bars: a group for each value of a key, a bar for each series.

    The arguments are those of `lines`. Series differ in colour and hatching.
    """
    chosen = _layout(result, "summary", y, x, series, None, where)
    groups = chosen.groups(chosen.rows)
    places = [str(value) for value in chosen.axis.values]
    width = 0.8 / len(groups)
    with canvas(ax, columns) as (panel,):
        for at, (name, group) in enumerate(groups.items()):
            points = np.array([(places.index(str(row[chosen.x])), *centre(row, interval)) for row in group])
            panel.bar(
                points[:, 0] + (at - (len(groups) - 1) / 2) * width,
                points[:, 1],
                width,
                yerr=_lengths(points) if np.isfinite(points[:, 2]).any() else None,
                label=name or None,
                facecolor=_tint(COLOURS[(at + 1) % len(COLOURS)]),
                edgecolor="black",
                linewidth=0.6,
                hatch=HATCHES[at % len(HATCHES)],
                error_kw={"capsize": 2, "elinewidth": 0.8},
            )
        panel.set_xticks(range(len(places)), places)
        panel.grid(visible=False, axis="x")
        panel.set_xlabel(chosen.axis.label)
        panel.set_ylabel(metric_label(y))
        legend([panel], ax)
        return figure_of(panel)


def boxes(
    result: Results,
    y: str,
    *,
    x: str | None = None,
    series: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
    columns: Columns = 1,
) -> Figure:
    """Draw the distribution of a metric at each point.

    A box covers the middle half of the samples, a line marks the median, and bars reach to the extremes.

    The arguments are those of `lines`.
    """
    chosen = _layout(result, "summary", y, x, series, None, where)
    groups = chosen.groups(chosen.rows)
    places = [str(value) for value in chosen.axis.values]
    width = 0.7 / len(groups)
    with canvas(ax, columns) as (panel,):
        for at, (name, group) in enumerate(groups.items()):
            drawn = [row for row in group if row["n"]]
            positions = [places.index(str(row[chosen.x])) + (at - (len(groups) - 1) / 2) * width for row in drawn]
            names = {"whislo": "min", "q1": "p25", "med": "p50", "q3": "p75", "whishi": "max"}
            drawn_boxes = panel.bxp(
                [{part: row[column] for part, column in names.items()} for row in drawn],
                positions=positions,
                widths=width * 0.8,
                showfliers=False,
                patch_artist=True,
                manage_ticks=False,
                boxprops={
                    "facecolor": _tint(COLOURS[(at + 1) % len(COLOURS)]),
                    "hatch": HATCHES[at % len(HATCHES)],
                    "linewidth": 0.6,
                },
                medianprops={"color": "black", "linewidth": 1.2},
                whiskerprops={"linewidth": 0.6},
                capprops={"linewidth": 0.6},
            )
            if name:
                drawn_boxes["boxes"][0].set_label(name)
        panel.set_xticks(range(len(places)), places)
        panel.set_xlim(-0.6, len(places) - 0.4)
        panel.grid(visible=False, axis="x")
        panel.set_xlabel(chosen.axis.label)
        panel.set_ylabel(metric_label(y))
        legend([panel], ax)
        return figure_of(panel)


def scatter(
    result: Results,
    y: str,
    *,
    x: str | None = None,
    series: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
    columns: Columns = 1,
) -> Figure:
    """Draw the mean of every run as a point, such as over the topologies of a sweep.

    The arguments are those of `lines`. Runs of one point stand in one column, each series beside the other.
    """
    rows, keys = rows_of(result, "runs", y, where)
    rows = [row for row in rows if row["mean"] is not None]
    chosen = layout(rows, keys, x, series, None, unique=False)
    groups = chosen.groups(chosen.rows)
    step = 0.0 if not chosen.axis.categories else 0.6 / len(groups)
    with canvas(ax, columns) as (panel,):
        for at, (name, group) in enumerate(groups.items()):
            shift = (at - (len(groups) - 1) / 2) * step
            panel.plot(
                [chosen.axis.position(row, chosen.x) + shift for row in group],
                [row["mean"] for row in group],
                linestyle="none",
                marker=MARKERS[at % len(MARKERS)],
                markerfacecolor="none",
                markeredgecolor=COLOURS[at % len(COLOURS)],
                markeredgewidth=0.8,
                label=name or None,
            )
        _finish(panel, chosen, y, "")
        legend([panel], ax)
        return figure_of(panel)


def distribution(
    result: Results,
    y: str,
    *,
    series: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    tail: bool = False,
    log_x: bool = False,
    ax: Axes | None = None,
    columns: Columns = 1,
) -> Figure:
    """Draw the cumulative distribution of all samples of a metric: the share of samples at or below each value.

    Args:
        result: A result, or several by name; their samples must have been kept (`samples=True`).
        y: Name of the metric.
        series: Key or keys with a curve for each of their values; all that vary if not given.
        where: Values of swept keys to draw.
        tail: Draw the share above each value instead, on a logarithmic axis, to show rare large values.
        log_x: Use a logarithmic horizontal axis.
        ax: Axes to draw into.
        columns: Width of a new figure: one column of a paper or two.
    """
    rows, keys = rows_of(result, "samples", y, where)
    names = [series] if isinstance(series, str) else list(varying_keys(rows, keys) if series is None else series)
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["value"] is not None:
            found.setdefault(series_name(row, names), []).append(row["value"])
    with canvas(ax, columns) as (panel,):
        for at, (name, values) in enumerate(found.items()):
            ordered = np.sort(np.array(values))
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            panel.step(
                ordered,
                1 - share if tail else share,
                where="post",
                color=COLOURS[at % len(COLOURS)],
                linestyle=DASHES[at % len(DASHES)],
                label=name or None,
            )
        panel.set_xscale("log" if log_x else "linear")
        if tail:
            panel.set_yscale("log")
        else:
            panel.set_ylim(0, 1)
        panel.set_xlabel(metric_label(y))
        panel.set_ylabel("Share of samples above" if tail else "Share of samples")
        legend([panel], ax)
        return figure_of(panel)


def _layout(
    result: Results,
    table: str,
    y: str,
    x: str | None,
    series: str | Sequence[str] | None,
    facets: str | None,
    where: Mapping[str, Any] | None,
) -> Layout:
    rows, keys = rows_of(result, table, y, where)
    rows = [row for row in rows if row["n"]]
    if not rows:
        raise KeyError(f"{y} has no samples in what is to be drawn")
    return layout(rows, keys, x, series, facets)


def _lengths(points: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Return the lengths of the bars below and above each point; 0 where there is no bar."""
    ends = (points[:, 1] - points[:, 2], points[:, 3] - points[:, 1])
    return [np.nan_to_num(length).clip(min=0) for length in ends]


def _is_not_negative(panel: Axes) -> bool:
    return all(np.nanmin(np.asarray(line.get_ydata(), dtype=float)) >= 0 for line in panel.get_lines())


def _finish(panel: Axes, chosen: Layout, y: str, title: str) -> None:
    if chosen.axis.categories:
        names = chosen.axis.categories
        is_long = sum(len(name) for name in names) > 40
        panel.set_xticks(range(len(names)), names, rotation=30 if is_long else 0, ha="right" if is_long else "center")
        panel.set_xlim(-0.5, len(names) - 0.5)
    panel.set_xlabel(chosen.axis.label)
    panel.set_ylabel(metric_label(y))
    if title:
        panel.set_title(title)


def _share(axes: Sequence[Axes]) -> None:
    if len(axes) < 2:
        return
    lows, highs = zip(*(panel.get_ylim() for panel in axes), strict=True)
    for panel in axes:
        panel.set_ylim(min(lows), max(highs))


def _tint(colour: str) -> tuple[float, float, float]:
    """Return a lighter colour, on which hatching is visible."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.5 + red / 2, 0.5 + green / 2, 0.5 + blue / 2
