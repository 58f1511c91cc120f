"""Published tables, figures and studies, repeated."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from tqdm.auto import tqdm

from carillon import _carillon

if TYPE_CHECKING:
    # Importing matplotlib takes a second, which experiments without figures do not need.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Experiment:
    """A repeated experiment beside its published numbers."""

    id: str
    """Identifier, such as `"segovia-4.1"`."""
    kind: Literal["table", "figure", "study"]
    """Form of the outcome."""
    holds: bool
    """True if every compared number and claim lies within its bounds or is a known deviation."""
    text: str
    """Report as plain text: the table beside the published numbers."""
    data: dict[str, Any]
    """Numbers: `keys` and `rows` of a table, `series` of a figure, or `sheets`, `checks` and `figures` of a study."""

    @property
    def title(self) -> str:
        """Title of the experiment."""
        return str(self.data["title"])

    def rows(self) -> list[dict[str, Any]]:
        """Return the numbers of a table: a row for each compared quantity at each point.

        Each row has the values of the keys, `quantity`, `value` (simulated), `published`, `difference` (relative), and
        `verdict`. Quantities without a published number have `None` there.
        """
        if self.kind != "table":
            raise ValueError(f"{self.id} is a {self.kind}, not a table")
        rows = []
        for row in self.data["rows"]:
            keys = dict(zip(self.data["keys"], row["keys"], strict=True))
            for cell in row["cells"]:
                published = cell["published"] or {}
                rows.append(
                    {
                        **keys,
                        "quantity": cell["label"],
                        "value": cell["value"],
                        "published": published.get("value"),
                        "difference": published.get("difference"),
                        "verdict": published.get("verdict"),
                    }
                )
        return rows

    def plot(
        self, quantities: str | Sequence[str] | None = None, *, ax: Axes | None = None, columns: Literal[1, 2] = 1
    ) -> Figure:
        """Draw the experiment: a table as simulated means beside published ones, or the figures of a figure or study.

        Args:
            quantities: Label or labels of the quantities of a table; all if not given.
            ax: Axes to draw into; for a single panel.
            columns: Width of a new figure: one column of a paper or two.

        Raises:
            KeyError: The table has no such quantity.
            ValueError: A study has no figure.
        """
        from carillon import plots

        if self.kind == "table":
            chosen = [quantities] if isinstance(quantities, str) else quantities
            return plots.published(self.data, chosen, ax=ax, columns=columns)
        return plots.described(self.data if self.kind == "figure" else self.data["figures"], ax=ax, columns=columns)

    def __str__(self) -> str:
        return self.text


def experiments() -> dict[str, str]:
    """Return the titles of all shipped experiments by their identifiers.

    >>> experiments()["segovia-4.1"]
    'MSAW, relative throughput and message latency (Segovia 1996, Table 4.1)'
    """
    return dict(_carillon.experiments())


def reproduce(
    id: str,
    *,
    seed: int | None = None,
    jobs: int | None = None,
    progress: bool = True,
    out: str | PathLike[str] | None = None,
) -> Experiment | list[Experiment]:
    """Repeat a published table, figure or study, or all of a source.

    Args:
        id: Identifier of an experiment (`experiments()` lists them), or of a source, such as `"segovia"`.
        seed: Seed in place of that of the experiment.
        jobs: Number of threads; one for each processor if not given.
        progress: Show a progress bar.
        out: Folder for the result folders; a temporary one if not given. Complete results in it are used again.

    Returns:
        The experiment, or the list of all experiments of a source.

    Raises:
        KeyError: There is no such experiment.
    """
    with tempfile.TemporaryDirectory(prefix="carillon-run-") as temporary:
        folder = Path(temporary if out is None else out)
        with tqdm(desc=id, unit="run", disable=not progress) as bar:

            def report(done: int, _: int) -> None:
                bar.update(done - bar.n)

            found = _carillon.reproduce(id, folder, seed=seed, jobs=jobs, progress=report)
    outcomes = [
        Experiment(name, cast("Literal['table', 'figure', 'study']", kind), holds, text, json.loads(data))
        for name, kind, holds, text, data in found
    ]
    return outcomes[0] if len(outcomes) == 1 and outcomes[0].id == id else outcomes
