"""Style for papers: column widths, embedded fonts, and series that differ in colour, dashes and marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Columns: TypeAlias = Literal[1, 2]
"""Width of a figure: one column of a two-column paper (3.5 inches) or both (7.16 inches)."""

WIDTHS = {1: 3.5, 2: 7.16}

COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f7f7f"]
"""Colours that colour-blind readers can tell apart (Okabe and Ito 2008)."""

DASHES = ["-", "--", "-.", ":"]

MARKERS = ["o", "s", "^", "D", "v", "P"]

SETTINGS: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
    # TrueType outlines: publishers refuse the Type 3 fonts that matplotlib embeds otherwise.
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    # Names of elements in SVG files come from this text instead of a random number.
    "svg.hashsalt": "carillon",
}


@contextmanager
def style(columns: Columns = 1) -> Iterator[None]:
    """Apply the settings for papers within a `with` block.

    Args:
        columns: Width of new figures: one column or two.

    >>> with style(columns=2):
    ...     figure = plt.figure()
    >>> float(figure.get_figwidth())
    7.16
    """
    if columns not in WIDTHS:
        raise ValueError(f"columns is {columns!r}: give 1 or 2")
    width = WIDTHS[columns]
    size = (width, 2.5 if columns == 1 else 3.2)
    settings: Any = {**SETTINGS, "figure.figsize": size}
    with mpl.rc_context(settings):
        yield


def save(figure: Figure, path: str | PathLike[str]) -> Path:
    """Write a figure as PDF, SVG or PNG, by the ending of the path, and return the path.

    Equal figures give equal bytes: the files have no dates. PDF files embed their fonts, SVG files keep text as text.

    Raises:
        ValueError: The path has another ending.
    """
    path = Path(path)
    dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}
    if path.suffix not in dates:
        raise ValueError(f"{path}: the ending {path.suffix!r} is not one of .pdf, .svg and .png")
    settings: Any = {name: SETTINGS[name] for name in ("pdf.fonttype", "svg.fonttype", "svg.hashsalt")}
    with mpl.rc_context(settings):
        figure.savefig(path, metadata=dates[path.suffix], dpi=SETTINGS["savefig.dpi"])
    return path


@contextmanager
def canvas(ax: Axes | None, columns: Columns, panels: int = 1) -> Iterator[list[Axes]]:
    """Yield axes to draw into: the given ones, or a row of panels in a new figure with the settings for papers."""
    with nullcontext() if ax is not None else style(columns):
        if ax is not None:
            if panels != 1:
                raise ValueError(f"{panels} panels do not fit into one ax: leave out ax or the facets")
            yield [ax]
            return
        in_row = min(panels, 2 if columns == 1 else 4)
        rows = -(-panels // in_row)
        width, height = mpl.rcParams["figure.figsize"]
        figure, grid = plt.subplots(rows, in_row, figsize=(width, height * (rows if panels > 1 else 1)), squeeze=False)
        # Notebooks show a figure that a cell returns. One that pyplot also keeps would appear twice.
        plt.close(figure)
        axes = list(grid.flat)
        for unused in axes[panels:]:
            unused.set_visible(False)
        yield axes[:panels]


def legend(axes: Sequence[Axes], ax: Axes | None) -> None:
    """Add a legend of the series of all axes that have names: below a new figure, or inside given axes."""
    entries: dict[str, Artist] = {}
    for panel in axes:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    if not entries:
        return
    if ax is not None:
        ax.legend(list(entries.values()), list(entries))
        return
    figure = figure_of(axes[0])
    longest = max(len(name) for name in entries)
    # A character is about 0.065 inches wide, the sample beside it 0.5 inches.
    fitting = max(1, int(figure.get_figwidth() / (0.065 * longest + 0.5)))
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=min(fitting, len(entries)))


def figure_of(ax: Axes) -> Figure:
    """Return the figure that has these axes."""
    figure = ax.get_figure(root=True)
    assert figure is not None, "axes that are drawn into belong to a figure"
    return figure
