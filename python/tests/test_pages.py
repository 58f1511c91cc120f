"""Python code in the documents that are marked as tested runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MARK = "<!-- tested python -->"
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if MARK in path.read_text(encoding="utf-8")]


def test_there_are_pages() -> None:
    assert "python.md" in {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {"__name__": "page"}
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # Blank lines give the code the line numbers of the page.
        lines = "\n" * text[: block.start(1)].count("\n")
        exec(compile(lines + block[1], str(page), "exec"), names)
