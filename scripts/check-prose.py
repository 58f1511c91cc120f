#!/usr/bin/env python3
"""Checks the language of comments, names, documents and commit subjects against the rules in CONTRIBUTING.md.

    scripts/check-prose.py             check everything; exit with 1 if a rule is broken
    scripts/check-prose.py PATH...     print every finding in these files, known or not
    scripts/check-prose.py --figures   print the figures of the whole tree
    scripts/check-prose.py --update    record fewer findings in scripts/prose-baseline.json; never more
    scripts/check-prose.py --subject FILE
                                       check the first line of a commit message (see scripts/commit-msg)

The baseline lists known findings as a count for each rule and file. A count may only shrink.
"""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
from typing import Iterator, NamedTuple

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
BASELINE = os.path.join(ROOT, "scripts", "prose-baseline.json")
GLOSSARY = os.path.join(ROOT, "docs", "glossary.md")

# A doc comment starts with a noun or with a verb in the third person, not with one of these.
FIRST_WORDS = re.compile(
    r"^(What|Whether|How|Who|Whom|Whose|Where|When|Those|That|It|So|One|Of|Likewise|Nobody|Somebody|Nothing|As|The same|If"
    r"|By|For|From|In|Not|None|Whoever|Whatever|Wherever|With|Without|A moment|More|Less|Most|Least|All|Each)\b"
)
# Phrases of earlier versions, beside the replaced words of the glossary.
BANNED = [
    "as ever", "as good as", "by turns", "has come", "have come", "in vain", "is told", "are told", "is owed", "likewise",
    "not any more", "nobody", "of those", "of what", "of whom", "so many", "somebody", "that of whom", "those of whom",
    "whereabouts", "whither", "who", "whom", "whose", "tidings",
]
# A constant says what it bounds; these words alone do not.
QUANTIFIERS = set(
    "ABOUT AGAIN AHEAD ALL ALWAYS ANY APART AROUND ASLEEP AT_ONCE AWAKE AWAY AWHILE A_MOMENT BESIDE BOTH DURING EACH EARLY ENOUGH"
    " EVERY FAR FEW FOREVER FURTHEST LATE LEAST LITTLE LITTLE_MORE LONG LONGER LONGEST MANY MORE MOST MOSTLY MUCH MUCH_LONGER NEAR NEARLY"
    " NOBODY NONE NOTHING NOW OFTEN ONCE OTHER OVER PART PAST QUICK SEVERAL SHORT SHORTER SHORTEST SOME SOME_TIME SOON SPARE TOGETHER"
    .split()
)
QUANTIFIER_PREFIXES = ("MOST_", "LEAST_", "FEWEST_")
MAX_SENTENCE_WORDS = 40
MAX_MEAN_WORDS = 20
MAX_COMMENT_WIDTH = 120
MAX_TEST_NAME = 60
MAX_SUBJECT = 72
MAX_README_WORDS = 900
MAX_PAGE_BYTES = 12 * 1024
SUBJECT = re.compile(r"^(Merge |Revert |[a-z0-9][a-z0-9/_.-]*(, [a-z0-9/_.-]+)*: [a-z0-9`-])")
# History and machine-made text are not prose of today.
UNCHECKED = ("CHANGELOG.md", "docs/glossary.md")


class Finding(NamedTuple):
    """A broken rule at one line of one file."""

    rule: str
    path: str
    line: int
    text: str


class Comment(NamedTuple):
    """Consecutive comment lines of one kind."""

    kind: str
    line: int
    text: str


def sources(suffix: str, *folders: str) -> Iterator[str]:
    """Yields the files with this suffix, relative to the root, in a fixed order."""
    for folder in folders:
        for directory, below, files in os.walk(os.path.join(ROOT, folder)):
            below[:] = sorted(name for name in below if name not in ("target", ".git", "node_modules", ".venv"))
            for name in sorted(files):
                if name.endswith(suffix):
                    yield os.path.relpath(os.path.join(directory, name), ROOT)


def read(path: str) -> list[str]:
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def comments(lines: list[str]) -> Iterator[Comment]:
    """Yields the comments of a Rust file, each with all its lines."""
    kind, start, text = "", 0, []
    for number, line in enumerate([*lines, ""], 1):
        found = re.match(r"\s*(//[/!]?)(?!/) ?(.*)$", line)
        if found and found[1] == kind:
            text.append(found[2])
            continue
        if text:
            yield Comment(kind, start, "\n".join(text))
        kind, start, text = (found[1], number, [found[2]]) if found else ("", 0, [])


def replaced_words() -> list[str]:
    """Reads the last column of the glossary."""
    words = []
    for line in read("docs/glossary.md"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[0] not in ("term", "---"):
            words += [word.strip() for word in cells[3].split(",") if word.strip()]
    return words


def terms() -> list[str]:
    lines = [line for line in read("docs/glossary.md") if line.startswith("|")]
    names = [line.strip("| ").split("|")[0].strip() for line in lines]
    return [name for name in names if name not in ("term", "") and not name.startswith("-")]


def banned_pattern() -> re.Pattern[str]:
    phrases = BANNED + [word for word in replaced_words() if not word.startswith("`")]
    return re.compile(r"\b(" + "|".join(sorted(map(re.escape, phrases), key=len, reverse=True)) + r")\b", re.IGNORECASE)


def sentences(text: str) -> Iterator[str]:
    """Yields the sentences of plain text. Code in backticks counts as one word."""
    plain = re.sub(r"`[^`]*`", "code", text)
    plain = re.sub(r"\]\([^)]*\)", "]", plain)
    for sentence in re.split(r"(?<=[.!?])\s+", plain):
        if sentence.strip():
            yield sentence


def rust_findings(path: str, banned: re.Pattern[str]) -> Iterator[Finding]:
    """Yields what comments and names of a Rust file break."""
    lines = read(path)
    for comment in comments(lines):
        if comment.kind == "///" and FIRST_WORDS.match(comment.text):
            yield Finding("first-word", path, comment.line, comment.text[:80])
        text = re.sub(r"`[^`]*`", "code", re.sub(r"(?s)```.*?(```|$)", "", comment.text))
        for match in banned.finditer(text.replace("\n", " ")):
            yield Finding("banned-phrase", path, comment.line, match[0])
        for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.))", text):
            for sentence in sentences(paragraph.replace("\n", " ")):
                if len(sentence.split()) > MAX_SENTENCE_WORDS:
                    yield Finding("long-sentence", path, comment.line, f"{len(sentence.split())} words: {sentence[:60]}…")
    expects_test = False
    for number, line in enumerate(lines, 1):
        code = line.strip()
        if code.startswith("//") and len(line) > MAX_COMMENT_WIDTH:
            yield Finding("wide-comment", path, number, f"{len(line)} characters")
        if found := re.search(r"\b(?:const|static) ([A-Z][A-Z0-9_]*)\s*:", code):
            if found[1] in QUANTIFIERS or found[1].startswith(QUANTIFIER_PREFIXES):
                yield Finding("quantifier-constant", path, number, found[1])
        if code.startswith("#["):
            expects_test |= bool(re.match(r"#\[(?:\w+::)?test\b", code))
        elif found := re.search(r"\bfn (\w+)", code):
            if expects_test and len(found[1]) > MAX_TEST_NAME:
                yield Finding("long-test-name", path, number, found[1])
            expects_test = False


def prose(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yields the paragraphs and list items of a Markdown page with their first line. Code, tables and comments are left out."""
    fenced, start, text = False, 0, []
    for number, line in enumerate([*lines, ""], 1):
        fence = line.lstrip().startswith("```")
        skipped = fenced or fence or line.startswith(("|", "#", "<", "    ")) or not line.strip()
        item = re.match(r"\s*(?:[-*]|\d+\.) (.*)", line)
        if text and (skipped or item):
            yield start, " ".join(text)
            start, text = 0, []
        if fence:
            fenced = not fenced
        if not skipped:
            start = start or number
            text.append(item[1] if item else line.strip())
    if text:
        yield start, " ".join(text)


def page_findings(path: str, banned: re.Pattern[str]) -> Iterator[Finding]:
    """Yields what a Markdown page breaks."""
    lines = read(path)
    lengths = []
    for number, paragraph in prose(lines):
        for match in banned.finditer(re.sub(r"`[^`]*`", "code", paragraph)):
            yield Finding("banned-phrase", path, number, match[0])
        for sentence in sentences(paragraph):
            lengths.append(len(sentence.split()))
            if lengths[-1] > MAX_SENTENCE_WORDS:
                yield Finding("long-sentence", path, number, f"{lengths[-1]} words: {sentence[:60]}…")
    if lengths and sum(lengths) > MAX_MEAN_WORDS * len(lengths):
        yield Finding("mean-sentence", path, 1, f"{sum(lengths) / len(lengths):.1f} words on average")
    size = os.path.getsize(os.path.join(ROOT, path))
    if path.startswith(("docs/tutorials/", "docs/how-to/")) and size > MAX_PAGE_BYTES:
        yield Finding("long-page", path, 1, f"{size} bytes")
    if path == "README.md" and (count := len(re.findall(r"\S+", "\n".join(lines)))) > MAX_README_WORDS:
        yield Finding("long-page", path, 1, f"{count} words")


def pages() -> list[str]:
    top = [name for name in ("README.md", "CONTRIBUTING.md") if os.path.exists(os.path.join(ROOT, name))]
    return [path for path in [*top, *sources(".md", "docs", "experiments")] if path not in UNCHECKED]


def glossary_findings(texts: str) -> Iterator[Finding]:
    """Yields terms of the glossary that nothing uses, and replaced names that something still uses."""
    plain = texts.lower()
    for term in terms():
        if term.lower() not in plain and term.lower().replace(" ", "_") not in plain and term.lower().replace(" ", "") not in plain:
            yield Finding("unused-term", "docs/glossary.md", 1, term)
    for word in replaced_words():
        if word.startswith("`") and (count := len(re.findall(rf"\b{re.escape(word.strip('`'))}\b", texts))):
            yield Finding("replaced-name", "docs/glossary.md", 1, f"{word}: {count} uses")


def code_only(lines: list[str]) -> str:
    return "\n".join(line for line in lines if not line.strip().startswith("//"))


def subject_problem(subject: str) -> str | None:
    """Says what is wrong with the subject of a commit, if anything."""
    if len(subject) > MAX_SUBJECT:
        return f"{len(subject)} characters, {MAX_SUBJECT} are allowed"
    if not SUBJECT.match(subject):
        return "expected `area: imperative`"
    return None


def commit_findings(since: str | None) -> Iterator[Finding]:
    """Yields commits behind `since` with a subject against the rules."""
    if not since:
        return
    log = subprocess.run(["git", "log", "--format=%h %s", f"{since}..HEAD"], cwd=ROOT, capture_output=True, text=True)
    if log.returncode:
        print(f"commit subjects: not checked, since git said: {log.stderr.strip()}")
        return
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if problem := subject_problem(subject):
            yield Finding("commit-subject", commit, 0, f"{problem}: {subject}")


def all_findings(since: str | None) -> list[Finding]:
    banned = banned_pattern()
    rust = list(sources(".rs", "crates", "fuzz"))
    found = [finding for path in rust for finding in rust_findings(path, banned)]
    found += [finding for path in pages() for finding in page_findings(path, banned)]
    texts = "\n".join(code_only(read(path)) for path in rust) + "\n".join("\n".join(read(path)) for path in pages())
    found += glossary_findings(texts + "\n".join(comment.text for path in rust for comment in comments(read(path))))
    return found + list(commit_findings(since))


def figures() -> None:
    """Prints the figures that decide how the comments of the whole tree read."""
    items = first = slashes = code = words = 0
    people: collections.Counter[str] = collections.Counter()
    for path in sources(".rs", "crates"):
        lines = read(path)
        for comment in comments(lines):
            items += comment.kind == "///"
            first += comment.kind == "///" and bool(FIRST_WORDS.match(comment.text))
            slashes += comment.kind == "//" and len(comment.text.splitlines())
            words += len(comment.text.split())
            people.update(re.findall(r"\b(?:who|whom|whose|nobody|somebody|so many)\b", comment.text.lower()))
        code += sum(1 for line in lines if line.strip() and not line.strip().startswith("//"))
    print(f"{items} doc comments, {100 * first / items:.1f} % start with a pronoun, relative, quantifier or preposition")
    print(f"{10_000 * sum(people.values()) / words:.1f} of 10 000 words are {', '.join(sorted(people)) or 'who, nobody or the like'}")
    print(f"{1000 * slashes / code:.0f} `//` lines to 1000 lines of code")


def compare(counts: collections.Counter[str], known: dict[str, int], found: list[Finding]) -> int:
    """Prints each count above the baseline, and counts that could be recorded as smaller. Returns the exit code."""
    worse = [key for key in counts if counts[key] > known.get(key, 0)]
    for key in sorted(worse):
        rule, _, path = key.partition(" ")
        print(f"{path}: {counts[key]} × {rule}, {known.get(key, 0)} known")
        shown = [finding for finding in found if (finding.rule, finding.path) == (rule, path)]
        for finding in shown[:8]:
            print(f"  {finding.path}:{finding.line}: {finding.text}")
    better = sum(1 for key in known if counts[key] < known[key])
    if better and not worse:
        print(f"{better} counts of the baseline are too high now: scripts/check-prose.py --update")
    return 1 if worse or better else 0


def main() -> int:
    arguments = sys.argv[1:]
    if arguments in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    if arguments == ["--figures"]:
        figures()
        return 0
    if arguments[:1] == ["--subject"]:
        with open(arguments[1], encoding="utf-8") as file:
            subject = file.readline().rstrip("\n")
        if problem := subject_problem(subject):
            print(f"commit subject: {problem}: {subject}", file=sys.stderr)
            return 1
        return 0
    update = arguments == ["--update"]
    if arguments and not update:
        banned = banned_pattern()
        for path in (os.path.relpath(os.path.abspath(name), ROOT) for name in arguments):
            check = rust_findings if path.endswith(".rs") else page_findings
            for finding in check(path, banned):
                print(f"{finding.path}:{finding.line}: {finding.rule}: {finding.text}")
        return 0
    with open(BASELINE, encoding="utf-8") as file:
        baseline = json.load(file)
    known: dict[str, int] = baseline["known"]
    found = all_findings(baseline["commits_since"])
    counts = collections.Counter(f"{finding.rule} {finding.path}" for finding in found)
    if not update:
        return compare(counts, known, found)
    if worse := [key for key in counts if counts[key] > known.get(key, 0)]:
        print("not recorded, since these grew: " + ", ".join(sorted(worse)))
        return 1
    baseline["known"] = dict(sorted((key, counts[key]) for key in known if counts[key]))
    with open(BASELINE, "w", encoding="utf-8") as file:
        json.dump(baseline, file, indent=1)
        file.write("\n")
    print(f"{sum(baseline['known'].values())} known findings in {len(baseline['known'])} counts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
