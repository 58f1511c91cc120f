"""Results of a sweep."""

from __future__ import annotations

import json
import math
import shutil
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carillon import _carillon
from carillon._carillon import Table
from carillon.scenario import Scenario

if TYPE_CHECKING:
    # Importing matplotlib takes a second, which runs without figures do not need.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Result:
    """Results of a sweep: tables of a result folder, as the command line writes them.

    Polars, pandas, pyarrow and DuckDB read the tables as they are, for example `polars.DataFrame(result.summary)`.
    """

    def __init__(self, folder: Path, scenario: Scenario, *, temporary: bool = False) -> None:
        self.folder = folder
        """Folder with the files of the result. A temporary one is removed with this object."""
        self.scenario = scenario
        """Scenario that was run."""
        if temporary:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @cached_property
    def summary(self) -> Table:
        """Statistics over all samples: a row for each point and metric (`docs/reference/metrics.md`)."""
        return _carillon.read_table(self.folder, "summary")

    @cached_property
    def runs(self) -> Table:
        """Means of the runs: a row for each run and metric."""
        return _carillon.read_table(self.folder, "runs")

    @cached_property
    def samples(self) -> Table:
        """All samples: a row for each sample of each metric.

        With `run.measure = ["receivers"]` the column `receiver` has the number of the receiver, or `None`.
        """
        return _carillon.read_table(self.folder, "samples")

    @cached_property
    def receivers(self) -> Table:
        """Means of the receivers: a row for each run, receiver and metric.

        Raises:
            CarillonError: The scenario does not measure receivers (`run.measure = ["receivers"]`).
        """
        return _carillon.read_table(self.folder, "receivers")

    @cached_property
    def nodes(self) -> Table:
        """Packets and stored messages of the nodes: a row for each run, node and metric.

        Raises:
            CarillonError: The scenario does not measure nodes (`run.measure = ["nodes"]`).
        """
        return _carillon.read_table(self.folder, "nodes")

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Scenario, version, seed, steps and times of the runs."""
        manifest: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        return manifest

    def trace(self, run: int = 0) -> Table:
        """Return the events of a run: a row for each event, a column for each field.

        The run is made again. It has the same events, since scenario and seed determine it.

        Args:
            run: Index of the run: all replications of the first point, then those of the second one, and so on.
        """
        return self._plan.trace(run)

    @cached_property
    def _plan(self) -> _carillon.Plan:
        return _carillon.Plan(self.scenario._inner)

    def mean(self, metric: str, **point: Any) -> float:
        """Return the mean of a metric at one point of the sweep.

        Args:
            metric: Name of the metric.
            point: Values of the swept keys, with two underscores for the dot, such as `loss__p=0.01`.

        Raises:
            KeyError: The table has no such row, or more than one.
        """
        wanted = {"metric": metric} | {key.replace("__", "."): value for key, value in point.items()}
        rows = [row for row in self.summary if all(row.get(key) == value for key, value in wanted.items())]
        if len(rows) != 1:
            raise KeyError(
                f"{len(rows)} rows of the summary have {wanted}: give a value for each of {self.scenario.keys}"
            )
        mean = rows[0]["mean"]
        return math.nan if mean is None else float(mean)

    def plot(
        self,
        y: str,
        *,
        x: str | None = None,
        series: str | Sequence[str] | None = None,
        facets: str | None = None,
        where: Mapping[str, Any] | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Draw a metric over a swept key with 95 % confidence intervals; `carillon.plots` has more kinds of figures.

        Args:
            y: Name of the metric.
            x: Key along the horizontal axis; the one with most values if not given.
            series: Key or keys that tell series apart; all other keys that vary if not given.
            facets: Key with a panel for each of its values.
            where: Values of swept keys to draw.
            ax: Axes to draw into.
        """
        from carillon import plots

        return plots.lines(self, y, x=x, series=series, facets=facets, where=where, ax=ax)

    def save(self, folder: str | PathLike[str]) -> Path:
        """Copy the files of the result into a new folder, for `carillon plot` and `carillon compare`."""
        return Path(shutil.copytree(self.folder, folder))

    def __repr__(self) -> str:
        return (
            f"Result({self.scenario.name!r}, {self.scenario.points} points, {self.scenario.replications} replications)"
        )


def load(folder: str | PathLike[str]) -> Result:
    """Read the results in a folder that `carillon run --out` or `carillon.run(out=…)` has written.

    Raises:
        OSError: The folder has no manifest.
    """
    folder = Path(folder)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return Result(folder, Scenario(manifest["scenario"], origin=str(folder)))
