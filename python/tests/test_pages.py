"""Python code in the documents that are marked as tested runs as it stands, and prints the text behind it."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MARK = "<!-- tested python -->"
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if MARK in path.read_text(encoding="utf-8")]


def test_there_are_pages() -> None:
    assert "python.md" in {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {"__name__": "page"}
    text = page.read_text(encoding="utf-8")
    written, end = [], 0
    for block in re.finditer(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.MULTILINE | re.DOTALL):
        # Blank lines give the code the line numbers of the page.
        lines = "\n" * text[: block.start(1)].count("\n")
        capsys.readouterr()
        exec(compile(lines + block[1], str(page), "exec"), names)
        printed = capsys.readouterr().out
        if block[2] is not None:
            written += [text[end : block.start(2)], printed]
            end = block.end(2)
    fresh = "".join([*written, text[end:]])
    if os.environ.get("CARILLON_BLESS"):
        page.write_text(fresh, encoding="utf-8")
    # CARILLON_BLESS=1 writes what the code prints now.
    assert written
    assert fresh == page.read_text(encoding="utf-8")
