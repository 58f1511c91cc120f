"""The numbers of Python are those of the command line, for the question of the notebook about four protocols."""

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest

import carillon

NOTEBOOKS = Path(__file__).parent.parent.parent / "docs" / "notebooks"
# A part of the receivers, messages and runs is enough to compare.
SMALLER = {
    '"receivers": 500': '"receivers": 30',
    '"messages": 100': '"messages": 10',
    '"replications": 5': '"replications": 2',
}


def question(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Runs the notebook up to its result."""
    monkeypatch.chdir(NOTEBOOKS)
    cells = json.loads((NOTEBOOKS / "isp-map.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    for cell in code[:2]:
        for text, part in SMALLER.items():
            cell = cell.replace(text, part)
        exec(cell, names)
    assert all(any(text in cell for cell in code[:2]) for text in SMALLER)
    return names


@pytest.mark.skipif("CARILLON_COMMAND" not in os.environ, reason="CARILLON_COMMAND names no command")
def test_the_notebook_has_the_numbers_of_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = question(monkeypatch)
    result = names["result"]
    assert isinstance(result, carillon.Result)
    result.scenario.write(tmp_path / "question.toml")
    command = [os.environ["CARILLON_COMMAND"], "run", "question.toml", "--out", "out"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with (tmp_path / "out" / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(list(result.summary)) > 40
    for printed, row in zip(rows, result.summary, strict=True):
        assert printed["protocol.name"] == row["protocol.name"]
        assert printed["metric"] == row["metric"]
        for column in ["mean", "ci95_low", "ci95_high", "p95", "max"]:
            written = row[column]
            assert (float(printed[column]) if printed[column] else None) == written, (printed, row)
