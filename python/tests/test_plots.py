"""Figures: the data that they draw, the files that they write, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

import carillon
from carillon import plots
from carillon.plots.sequence import arrows


@pytest.fixture(scope="module")
def result() -> carillon.Result:
    scenario = {
        "name": "plots",
        "network": {"kind": "lan"},
        "loss": {"model": "bernoulli", "p": 0.05},
        "group": {"receivers": 2},
        "protocol": {"name": "msaw"},
        "workload": {"messages": 20, "message_bytes": 1000},
        "run": {"replications": 3},
    }
    values = {"protocol.name": ["msaw", "mbap"], "group.receivers": [2, 4, 8]}
    return carillon.sweep(scenario, values, progress=False)


def drawn(ax: Axes) -> dict[str, np.ndarray[Any, Any]]:
    """Points of the lines of axes by the names of their series."""
    return {str(bar.get_label()): np.column_stack(bar[0].get_data()) for bar in ax.containers}


def test_lines_show_means_of_runs_with_their_intervals(result: carillon.Result) -> None:
    (ax,) = result.plot("message_latency_s").axes
    assert ax.get_xlabel() == "Receivers"
    assert ax.get_ylabel() == "Message latency (s)"
    series = drawn(ax)
    assert list(series) == ["msaw", "mbap"]
    for name, points in series.items():
        for receivers, mean in points:
            runs = [
                row["mean"]
                for row in result.runs
                if (row["metric"], row["protocol.name"], row["group.receivers"])
                == ("message_latency_s", name, receivers)
            ]
            assert len(runs) == 3
            assert mean == pytest.approx(np.mean(runs))
    row = next(row for row in result.summary if row["metric"] == "message_latency_s")
    segment = ax.containers[0][2][0].get_segments()[0]
    assert segment[:, 1] == pytest.approx([row["ci95_low"], row["ci95_high"]])


def test_panels_share_their_axes_and_values_are_chosen(result: carillon.Result) -> None:
    figure = plots.lines(result, "message_latency_s", facets="protocol.name")
    first, second = figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert [ax.get_title() for ax in figure.axes] == ["Protocol msaw", "Protocol mbap"]
    (ax,) = plots.lines(result, "message_latency_s", where={"group.receivers": 4}).axes
    assert [text.get_text() for text in ax.get_xticklabels()] == ["msaw", "mbap"]
    with pytest.raises(ValueError, match=r"protocol\.name"):
        plots.lines(result, "message_latency_s", x="group.receivers", series=[])
    with pytest.raises(KeyError, match="message_latency_s"):
        plots.lines(result, "latency")
    with pytest.raises(KeyError, match=r"group\.receivers"):
        plots.lines(result, "message_latency_s", x="receivers")
    with pytest.raises(KeyError, match="no value 5"):
        plots.lines(result, "message_latency_s", where={"group.receivers": 5})


def test_results_by_name_are_series(result: carillon.Result) -> None:
    (ax,) = plots.lines({"one": result, "other": result}, "message_latency_s", where={"protocol.name": "msaw"}).axes
    series = drawn(ax)
    assert list(series) == ["one", "other"]
    assert (series["one"] == series["other"]).all()


def test_bars_and_boxes_have_the_heights_of_the_summary(result: carillon.Result) -> None:
    (ax,) = plots.bars(result, "wire_bytes_per_useful_byte", interval="none").axes
    heights = [patch.get_height() for patch in ax.patches if isinstance(patch, Rectangle)]
    means = [row["mean"] for row in result.summary if row["metric"] == "wire_bytes_per_useful_byte"]
    assert heights == pytest.approx(means)
    (ax,) = plots.boxes(result, "delivery_latency_s", series="protocol.name").axes
    medians = [row["p50"] for row in result.summary if row["metric"] == "delivery_latency_s"]
    levels = [line.get_ydata()[0] for line in ax.get_lines()]
    assert set(medians) <= set(levels)
    assert len(ax.figure.legends[0].get_texts()) == 2


def test_scatter_has_a_point_for_each_run(result: carillon.Result) -> None:
    (ax,) = plots.scatter(result, "delivery_latency_s", x="group.receivers").axes
    points = sorted(value for line in ax.get_lines() for value in line.get_ydata())
    assert points == sorted(row["mean"] for row in result.runs if row["metric"] == "delivery_latency_s")


def test_distribution_ends_at_one_and_passes_the_median(result: carillon.Result) -> None:
    where = {"group.receivers": 8, "protocol.name": "msaw"}
    (ax,) = plots.distribution(result, "delivery_latency_s", where=where).axes
    (line,) = ax.get_lines()
    values, shares = line.get_data()
    assert len(values) == 3 * 20 * 8
    assert shares[-1] == 1
    (row,) = [
        row
        for row in result.summary
        if row["metric"] == "delivery_latency_s" and all(row[key] == value for key, value in where.items())
    ]
    assert np.median(values) == pytest.approx(row["p50"])
    (tail,) = plots.distribution(result, "delivery_latency_s", where=where, tail=True).axes
    assert tail.get_yscale() == "log"


def test_tables_stand_beside_their_published_numbers() -> None:
    def cell(label: str, value: float, published: float | None) -> dict[str, Any]:
        return {"label": label, "value": value, "published": None if published is None else {"value": published}}

    data = {
        "keys": ["receivers"],
        "rows": [
            {"keys": [str(receivers)], "cells": [cell("relative throughput", receivers / 3, receivers / 2.9)]}
            for receivers in (5, 10, 15)
        ],
    }
    for row in data["rows"]:
        row["cells"].append(cell("message latency", 7.0, None))
    experiment = carillon.Experiment("table", "table", True, "", data)
    figure = experiment.plot(columns=2)
    assert len(figure.axes) == 2
    simulated, published = (line.get_data() for line in figure.axes[0].get_lines())
    rows = [row for row in experiment.rows() if row["quantity"] == "relative throughput"]
    assert list(simulated[1]) == [row["value"] for row in rows]
    assert list(published[1]) == [row["published"] for row in rows]
    assert list(published[0]) == [float(row["receivers"]) for row in rows]
    with pytest.raises(KeyError, match="relative throughput"):
        experiment.plot("throughput")
    figure = carillon.reproduce("segovia-fig-4.1", progress=False).plot()
    assert figure.axes[0].get_xscale() == "log"


def test_descriptions_of_all_marks_are_drawn() -> None:
    box = {"x": 1, "min": 0, "p25": 1, "p50": 2, "p75": 3, "max": 4}
    marks: list[dict[str, Any]] = [
        {"kind": "line", "points": [[1, 2], [2, 3]], "dash": "dash-dot", "marker": None},
        {"kind": "points", "points": [[1, 2]], "marker": "open-square"},
        {"kind": "band", "points": [[1, 0, 2], [2, 1, 3]]},
        {"kind": "whiskers", "points": [[1, 0, 2]]},
        {"kind": "hi-lo-mean", "points": [{"x": 1, "low": 0, "mean": 1, "high": 2}]},
        {"kind": "boxes", "points": [box, box | {"x": 2}]},
    ]
    axis = {"label": "X", "unit": None, "log": False}
    description = {
        "title": "All",
        "x": axis,
        "y": axis,
        "series": [{"name": mark["kind"], "colour": at, **mark} for at, mark in enumerate(marks)],
    }
    figure = plots.described(json.dumps(description))
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(names) == sorted(mark["kind"] for mark in marks)
    description["series"] = [{"name": "", "colour": 0, "kind": "pie", "points": [1]}]
    with pytest.raises(ValueError, match="pie"):
        plots.described(description)


def test_sequence_has_an_arrow_for_each_received_packet(lan: dict[str, Any]) -> None:
    trace = carillon.run(lan, progress=False, protocol__name="msaw", workload__messages=3).trace()
    found = arrows(trace)
    assert len(found) == sum(row["event"] == "received" for row in trace)
    assert {arrow.kind for arrow in found} >= {"data", "control"}
    assert all(arrow.sent_ns <= arrow.received_ns and arrow.source != arrow.target for arrow in found)
    figure = plots.sequence(trace, nodes=[0, 1], names={0: "source"})
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["source", "node 1"]
    with pytest.raises(ValueError, match="no packet"):
        plots.sequence(trace, start=1e6)


def test_trees_have_their_source_at_the_top() -> None:
    scenario = {
        "name": "tree",
        "network": {"kind": "graph", "topology": "binary-tree", "height": 3},
        "protocol": {"name": "lms"},
        "workload": {"messages": 5, "message_bytes": 1000, "rate": "10 packet/s"},
    }
    figure = plots.topology(scenario)
    links, *nodes = figure.axes[0].collections
    names = {str(group.get_label()): np.asarray(group.get_offsets()) for group in nodes}
    assert names["source"][0, 1] == max(places[:, 1].max() for places in names.values())
    count = sum(len(places) for places in names.values())
    assert len(links.get_paths()) == count - 1
    ring = (["source", *["receiver"] * 5], [(at, (at + 1) % 6) for at in range(6)])
    places = np.concatenate([np.asarray(group.get_offsets()) for group in plots.topology(ring).axes[0].collections[1:]])
    # All nodes of a ring lie on a circle.
    radii = np.hypot(*(places - places.mean(axis=0)).T)
    assert radii == pytest.approx(radii.mean(), rel=0.05)
    read = carillon.Topology.read("rand0-r20")
    _, *nodes = plots.topology(read).axes[0].collections
    assert sum(len(group.get_offsets()) for group in nodes) == read.nodes
    with pytest.raises(ValueError, match="switch"):
        plots.topology((["switch"], []))
    with pytest.raises(ValueError, match="no node"):
        plots.topology((["source"], [(0, 1)]))


@pytest.mark.parametrize("ending", ["pdf", "svg", "png"])
def test_files_are_reproducible(result: carillon.Result, tmp_path: Path, ending: str) -> None:
    paths = [plots.save(result.plot("message_latency_s"), tmp_path / f"{number}.{ending}") for number in range(2)]
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert first.startswith({"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}[ending])
    if ending == "pdf":
        # TrueType fonts, no date.
        assert b"/Type3" not in first
        assert b"CreationDate" not in first
    with pytest.raises(ValueError, match=r"\.gif"):
        plots.save(result.plot("message_latency_s"), tmp_path / "figure.gif")


def test_given_axes_are_drawn_into(result: carillon.Result) -> None:
    figure, axes = plt.subplots(1, 2)
    assert plots.lines(result, "message_latency_s", ax=axes[0]) is figure
    assert len(axes[0].containers) == 2
    assert len(axes[1].containers) == 0
    with pytest.raises(ValueError, match="2 panels"):
        plots.lines(result, "message_latency_s", facets="protocol.name", ax=axes[1])
    plt.close(figure)
