"""Comparison of two results, cell by cell."""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from typing import Any

from carillon import _carillon
from carillon.result import Result


@dataclass(frozen=True)
class FolderComparison:
    """Two results side by side: a row for each point and metric that either of them has."""

    keys: list[str]
    """Swept keys."""
    rows: list[dict[str, Any]]
    """Rows: the swept keys, `metric`, `a` and `b` (each with `mean`, `low`, `high`, `n`), and `difference`.

    The difference is `"equal"`, `"within-intervals"`, `"apart"`, `"one-run"`, `"unknown"` or `"missing"`.
    """

    @property
    def apart(self) -> list[dict[str, Any]]:
        """Rows with confidence intervals that do not overlap."""
        return [row for row in self.rows if row["difference"] == "apart"]


def compare(a: Result | str | PathLike[str], b: Result | str | PathLike[str]) -> FolderComparison:
    """Compare two results of the same swept keys by the 95 % confidence intervals of their means.

    Args:
        a: A result or a result folder.
        b: Another one.

    Raises:
        RunError: A folder has no summary, or the swept keys differ.
    """
    folders = [other.folder if isinstance(other, Result) else other for other in (a, b)]
    found = json.loads(_carillon.compare(folders[0], folders[1]))
    rows = [dict(zip(found["keys"], row.pop("point"), strict=True)) | row for row in found["rows"]]
    return FolderComparison(found["keys"], rows)
