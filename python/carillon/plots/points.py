"""Points of a sweep: values of a metric by horizontal position, series and panel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from carillon.result import Result

Results: TypeAlias = "Result | Mapping[str, Result]"
"""A result, or several by name; the name is the key `result` of each."""

Row: TypeAlias = dict[str, Any]

RESULT_KEY = "result"


@dataclass(frozen=True)
class Axis:
    """Horizontal axis: positions of the values of a key."""

    label: str
    categories: list[str]
    """Names at 0, 1, 2 and so on; empty for an axis of numbers."""
    values: list[Any]

    def position(self, row: Row, key: str) -> float:
        """Return the position of a row."""
        if self.categories:
            return float(self.categories.index(str(row[key])))
        number = quantity(row[key])
        assert number is not None, "an axis without names has only numbers"
        return number[0]


@dataclass(frozen=True)
class Layout:
    """Keys of a figure: horizontal axis, series and panels."""

    x: str
    axis: Axis
    series: list[str]
    facets: str | None
    rows: list[Row]

    def groups(self, rows: Iterable[Row]) -> dict[str, list[Row]]:
        """Return rows by the name of their series, in order of their position."""
        groups: dict[str, list[Row]] = {}
        for row in rows:
            groups.setdefault(self.name(row), []).append(row)
        for group in groups.values():
            group.sort(key=lambda row: self.axis.position(row, self.x))
        return groups

    def panels(self) -> list[tuple[str, list[Row]]]:
        """Return the title and the rows of each panel; a single one has no title."""
        if self.facets is None:
            return [("", self.rows)]
        values = distinct(row[self.facets] for row in self.rows)
        return [
            (
                f"{label(self.facets)} {value}",
                [row for row in self.rows if row[self.facets] == value],
            )
            for value in values
        ]

    def name(self, row: Row) -> str:
        """Return the name of the series of a row."""
        return series_name(row, self.series)


def series_name(row: Row, series: Iterable[str]) -> str:
    """Return the name of the series of a row; numbers have the name of their key before them."""
    parts = [str(row[key]) if quantity(row[key]) is None else f"{label(key)} {row[key]}" for key in series]
    return ", ".join(parts)


def varying_keys(rows: Sequence[Row], keys: Iterable[str]) -> list[str]:
    """Return the keys that have several values."""
    return [key for key in keys if len(distinct(row.get(key) for row in rows)) > 1]


def rows_of(results: Results, table: str, y: str, where: Mapping[str, Any] | None) -> tuple[list[Row], list[str]]:
    """Return rows of a table that have a metric, and the swept keys.

    Raises:
        KeyError: There is no such metric or key, or no row with these values.
    """
    named = {"": results} if isinstance(results, Result) else dict(results)
    rows: list[Row] = []
    keys: list[str] = []
    metrics: list[str] = []
    for name, result in named.items():
        keys += [key for key in result.scenario.keys if key not in keys]
        fixed = {} if isinstance(results, Result) else {RESULT_KEY: name}
        for row in getattr(result, table):
            if row["metric"] == y:
                rows.append(row | fixed)
            elif row["metric"] not in metrics:
                metrics.append(row["metric"])
    if not isinstance(results, Result):
        keys.append(RESULT_KEY)
    if not rows:
        raise KeyError(f"no metric {y!r}; there are {', '.join(metrics)}")
    for key, value in (where or {}).items():
        key = key.replace("__", ".")
        if key not in keys:
            raise KeyError(f"where: no swept key {key!r}; there are {', '.join(keys) or 'none'}")
        values = distinct(row.get(key) for row in rows)
        rows = [row for row in rows if row.get(key) == value]
        if not rows:
            raise KeyError(f"where: {key} has no value {value!r}; there are {values}")
    return rows, keys


def layout(
    rows: Sequence[Row],
    keys: Sequence[str],
    x: str | None,
    series: str | Sequence[str] | None,
    facets: str | None,
    *,
    unique: bool = True,
) -> Layout:
    """Choose the keys of a figure: of those that are not given, the key with most values is the horizontal axis.

    Args:
        rows: Rows to draw.
        keys: Swept keys.
        x: Key along the horizontal axis.
        series: Keys that tell series apart.
        facets: Key of the panels.
        unique: Each place has one point.

    Raises:
        KeyError: A given key is not swept.
        ValueError: Several points would have the same place.
    """
    given = [series] if isinstance(series, str) else list(series or [])
    for key in [*given, *(key for key in (x, facets) if key is not None)]:
        if key not in keys:
            raise KeyError(f"no swept key {key!r}; there are {', '.join(keys) or 'none'}")
    taken = [*given, facets]
    varying = [key for key in varying_keys(rows, keys) if key not in taken]
    if x is None:
        ranked = sorted(varying, key=lambda key: (_unit(rows, key) is None, -len(distinct(row[key] for row in rows))))
        x = ranked[0] if ranked else (keys[0] if keys else RESULT_KEY)
    rows = [{x: "", **row} for row in rows]
    if series is None:
        given = [key for key in varying if key != x]
    chosen = Layout(x, _axis(rows, x), given, facets, rows)
    places = [(row[x], row[facets] if facets else None, chosen.name(row)) for row in rows]
    left = [key for key in varying if key not in (x, *given)]
    if unique and left and len(distinct(places)) < len(places):
        raise ValueError(
            f"several points have the same place: give a value of {', '.join(left)} in where, "
            "or name it in series or facets"
        )
    return chosen


def _axis(rows: Sequence[Row], key: str) -> Axis:
    values = distinct(row[key] for row in rows)
    unit = _unit(rows, key)
    if unit is None:
        return Axis(label(key), [str(value) for value in values], values)
    name = label(key)
    return Axis(f"{name} ({unit})" if unit else name, [], values)


def _unit(rows: Sequence[Row], key: str) -> str | None:
    """Return the unit of a key if all its values are numbers with one unit."""
    found = [quantity(row.get(key)) for row in rows]
    units = {None if number is None else number[1] for number in found}
    return units.pop() if len(units) == 1 else None


def quantity(value: object) -> tuple[float, str] | None:
    """Return a number and its unit; None for a name."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value), ""
    number, _, unit = str(value).partition(" ")
    try:
        return float(number), unit
    except ValueError:
        return None


def label(key: str) -> str:
    """Return a key as it stands beside an axis.

    >>> label("group.receivers")
    'Receivers'
    """
    name = {"protocol.name": "protocol", "loss.p": "loss"}.get(key, key.rpartition(".")[2])
    name = name.replace("_", " ")
    return name[:1].upper() + name[1:]


def metric_label(metric: str) -> str:
    """Return a metric with its unit as it stands beside an axis.

    >>> metric_label("message_latency_s")
    'Message latency (s)'
    """
    for ending, unit in (("_s", "s"), ("_bps", "bit/s")):
        if metric.endswith(ending):
            return f"{label(metric.removesuffix(ending))} ({unit})"
    return label(metric)


def centre(row: Row, interval: str) -> tuple[float, float, float]:
    """Return the middle, the low and the high end of a row of the summary; NaN where there is no interval."""
    if interval == "quartiles":
        return _number(row["p50"]), _number(row["p25"]), _number(row["p75"])
    mean = _number(row["mean"])
    if interval == "range":
        return mean, _number(row["min"]), _number(row["max"])
    low, high = _number(row["ci95_low"]), _number(row["ci95_high"])
    if interval == "ci95" and not math.isnan(low + high):
        # The interval is that of the mean over runs, which need not be the mean over samples.
        return (low + high) / 2, low, high
    return mean, math.nan, math.nan


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return the different values in the order of their first appearance."""
    return list(dict.fromkeys(values))
