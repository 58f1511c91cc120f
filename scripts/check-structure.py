#!/usr/bin/env python3
"""Checks the size of functions, structs and files, and that files do not import each other in a circle.

    scripts/check-structure.py             exit with 1 if a limit is exceeded
    scripts/check-structure.py --edges     also print the imports between the files of each crate
    scripts/check-structure.py --longest   also print the longest functions and files, and the largest structs

Functions and files are checked in the whole repository, circles in all crates, structs in `STRUCT_FOLDERS`. An import
counts for the file that defines the item, not for one that only passes it on with `pub use`. Code below `#[cfg(test)]`,
`tests.rs`, `*_tests.rs` and folders named `tests` take no part in structs and circles.
"""

from __future__ import annotations

import argparse
import bisect
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))

MAX_FUNCTION_LINES = 80
MAX_FILE_LINES = 600
MAX_FIELDS = 20
MAX_BOOLS = 3

# Folders with the structs that are checked.
STRUCT_FOLDERS = (
    "crates/carillon-session/src/",
    "crates/carillon-transfer/src/",
    "crates/carillon-monitor/src/",
    "crates/carillon-net/src/",
)
# Reasons for exceptions.
TABLE = "a table: an entry for each kind of packet or field"
MODEL = "a model and the structure that it is compared with, operation by operation"
STEPS = "one scenario from its beginning to its end"
# Functions that exceed the limit: their number of lines, which grows only with a format, and the reason.
EXCEPTIONS = {
    "crates/carillon-cli/tests/delivery/trouble.rs: every_protocol_serves_the_others_despite_all_faults": (92, STEPS),
    "crates/carillon-cli/tests/dissector/packets.rs: edges": (121, TABLE),
    "crates/carillon-cli/tests/dissector/packets.rs: every_session_packet": (115, TABLE),
    "crates/carillon-cli/tests/dissector/shown.rs: of_session": (138, TABLE),
    "crates/carillon-net/tests/driver/helpers.rs: a_tree_of_helpers_delivers_over_sockets_though_one_dies": (81, STEPS),
    "crates/carillon-proto/src/blocks/ack_window.rs: window_agrees_with_lists_under_random_operations": (96, MODEL),
    "crates/carillon-proto/src/blocks/request_schedule.rs: schedule_agrees_with_model_under_random_operations": (97, MODEL),
    "crates/carillon-proto/tests/strangers/attacker.rs: session_packet": (105, TABLE),
    "crates/carillon-testkit/src/fuzz/packets.rs: session": (107, TABLE),
    "crates/carillon-testkit/src/group.rs: run_world": (83, STEPS),
    "crates/carillon-wire/tests/pgm_offsets.rs: by_types": (114, TABLE),
    "crates/carillon-wire/tests/pgm_offsets.rs: every_field": (90, TABLE),
    "crates/carillon-wire/tests/sequencer.rs: golden_bytes": (81, TABLE),
    "crates/carillon-wire/tests/session/random.rs: any_packet": (97, TABLE),
}

IGNORED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|\bb?"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*"|b?'(?:\\[^\n']*?'|\\'.|[^'\\\n])(?:(?<=')|')""",
    re.S,
)
ITEM = re.compile(
    r"^(?:pub(?:\([^)]*\))?\s+)?(?:(?:const|async|unsafe|extern(?:\s+\"[^\"]*\")?|default)\s+)*"
    r"(?:struct|enum|trait|fn|const|static(?:\s+mut)?|type|union|macro_rules!)\s+(\w+)",
    re.M,
)
USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.M)
PATH = re.compile(r"(?<![\w:.])(?:\w+::)+\w+")


def without_text(source: str) -> str:
    """Blanks comments, strings and characters out, so that lines and positions stay."""
    return IGNORED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)


def block_end(code: str, start: int) -> int:
    """Returns the position after the brace that closes the one at `start`."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return found.end()
    return len(code)


def without_tests(code: str) -> str:
    """Blanks items below `#[cfg(test)]` out."""
    for found in reversed(list(re.finditer(r"#\[cfg\(test\)\]", code))):
        end = re.compile(r"[{;]").search(code, found.end())
        stop = len(code) if end is None else block_end(code, end.start()) if end.group() == "{" else end.end()
        code = code[: found.start()] + re.sub(r"[^\n]", " ", code[found.start() : stop]) + code[stop:]
    return code


def is_test(path: str) -> bool:
    name = os.path.basename(path)
    return name == "tests.rs" or name.endswith("_tests.rs") or "/tests/" in path or "/benches/" in path


@dataclass
class Unit:
    """A file that is a module of a crate."""

    path: str
    code: str
    module: tuple[str, ...]
    items: set[str] = field(default_factory=set)
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    globs: list[tuple[str, ...]] = field(default_factory=list)
    # Names that are imported for this file only.
    private: set[str] = field(default_factory=set)


def flat(tree: str, before: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str]]:
    """Splits the tree of a `use` into paths, each with the name that it binds."""
    tree = tree.strip()
    found: list[tuple[tuple[str, ...], str]] = []
    if "{" not in tree:
        path, _, alias = tree.partition(" as ")
        parts = before + tuple(part.strip() for part in path.split("::") if part.strip())
        if parts and parts[-1] == "self":
            parts = parts[:-1]
        return [(parts, alias.strip() or parts[-1])] if parts else []
    head, _, rest = tree.partition("{")
    inner = before + tuple(part.strip() for part in head.split("::") if part.strip())
    depth, piece = 0, ""
    for letter in rest[: rest.rindex("}")]:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found += flat(piece, inner)
            piece = ""
        else:
            piece += letter
    return found + (flat(piece, inner) if piece.strip() else [])


def top_level(code: str) -> str:
    """Blanks the contents of braces out, except those of `use`."""
    letters, depth, start, in_use = list(code), 0, 0, False
    for found in re.finditer(r"[{}]|\buse\b|;", code):
        sign = found.group()
        if sign == "use":
            in_use = depth == 0
        elif sign == ";":
            in_use = in_use and depth > 0
        elif in_use:
            continue
        elif sign == "{":
            depth += 1
            start = found.end() if depth == 1 else start
        elif depth > 0:
            depth -= 1
            if depth == 0:
                letters[start : found.start()] = re.sub(r"[^\n]", " ", code[start : found.start()])
    return "".join(letters)


class Crate:
    """The modules of one crate, with the names that each defines and imports."""

    def __init__(self, sources: dict[str, str], root: str) -> None:
        self.units: dict[tuple[str, ...], Unit] = {}
        for path, code in sources.items():
            parts = path[len(root) :].removesuffix(".rs").split("/")
            if parts[-1] in ("mod", "lib", "main"):
                parts.pop()
            unit = Unit(path, code, tuple(parts))
            top = top_level(code)
            unit.items = set(ITEM.findall(top))
            for found in USE.finditer(top):
                for target, name in flat(found.group(2)):
                    if target[-1] == "*":
                        unit.globs.append(target[:-1])
                    else:
                        unit.uses[name] = target
                        if not found.group(1):
                            unit.private.add(name)
            self.units[unit.module] = unit

    def resolve(self, unit: Unit, path: tuple[str, ...], seen: frozenset = frozenset()) -> Unit | None:
        """Returns the file that defines the item which `path` names in `unit`, if it is one of this crate."""
        if (unit.module, path) in seen or not path:
            return None
        seen |= {(unit.module, path)}
        first, rest = path[0], path[1:]
        here: Unit | None = None
        if first == "crate":
            here = self.units.get(())
        elif first == "super":
            here = self.units.get(unit.module[:-1]) if unit.module else None
        elif first == "self":
            here = unit
        elif (*unit.module, first) in self.units:
            here = self.units[(*unit.module, first)]
        if here is not None:
            return self.resolve(here, rest, seen) if rest else None
        if first in unit.items:
            return unit
        if first in unit.uses and unit.uses[first][0] != first:
            return self.resolve(unit, unit.uses[first] + rest, seen)
        for glob in self.local_globs(unit):
            if (found := self.resolve(unit, glob + path, seen)) is not None:
                return found
        return None

    def local_globs(self, unit: Unit) -> list[tuple[str, ...]]:
        """Returns the modules of this crate of which `unit` imports everything."""
        local = ("crate", "super", "self")
        return [glob for glob in unit.globs if glob[0] in local or (*unit.module, glob[0]) in self.units]

    def imports(self, unit: Unit) -> set[str]:
        """Returns the files that define what `unit` uses."""
        body = USE.sub("", unit.code)
        words = set(re.findall(r"\w+", body))
        paths = [unit.uses[name] for name in unit.uses if name in unit.private or name in words]
        paths += [tuple(found.split("::")) for found in PATH.findall(re.sub(r"\s*::\s*", "::", body))]
        for glob in self.local_globs(unit):
            paths += [glob + (word,) for word in words]
        found = {target.path for path in paths if (target := self.resolve(unit, path)) is not None}
        return found - {unit.path}


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Returns the groups of files that import each other (strongly connected components, Tarjan 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return found


def functions(code: str) -> list[tuple[str, int, int]]:
    """Returns the name, first line and length in lines of each function."""
    starts = [0] + [found.end() for found in re.finditer("\n", code)]
    found = []
    for start in re.finditer(r"\bfn\s+(\w+)", code):
        open_brace = re.compile(r"[{;]").search(code, start.end())
        if open_brace is None or open_brace.group() == ";":
            continue
        first = bisect.bisect_right(starts, start.start())
        last = bisect.bisect_right(starts, block_end(code, open_brace.start()) - 1)
        found.append((start.group(1), first, last - first + 1))
    return found


def structs(code: str) -> list[tuple[str, int, int, int]]:
    """Returns the name, line, number of fields and number of bools of each struct with named fields."""
    found = []
    for start in re.finditer(r"\bstruct\s+(\w+)[^;{(]*\{", code):
        body = code[start.end() : block_end(code, start.end() - 1)]
        fields = re.findall(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:r#)?\w+\s*:(?!:)\s*([^\n]+)", body, re.M)
        bools = sum(kind.strip() == "bool," for kind in fields)
        found.append((start.group(1), code.count("\n", 0, start.start()) + 1, len(fields), bools))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", action="store_true", help="also print the imports between files")
    parser.add_argument("--longest", action="store_true", help="also print what comes closest to the limits")
    args = parser.parse_args()
    listed = subprocess.run(["git", "ls-files", "-z", "*.rs", "*.py", "*.ts", "*.c", "*.sh"], cwd=ROOT, capture_output=True, check=True)
    paths = [path for path in listed.stdout.decode().split("\0") if path and os.path.exists(os.path.join(ROOT, path))]
    lengths, long, large, sources, problems = [], [], [], {}, []
    for path in paths:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        lengths.append((text.count("\n"), path))
        if not path.endswith(".rs"):
            continue
        code = without_text(text)
        long += [(lines, path, line, name) for name, line, lines in functions(code)]
        if is_test(path):
            continue
        code = sources[path] = without_tests(code)
        if path.startswith(STRUCT_FOLDERS):
            large += [(fields, bools, f"{path}:{line}: {name}") for name, line, fields, bools in structs(code)]
    problems += [f"{path}: {lines} lines, more than {MAX_FILE_LINES}" for lines, path in lengths if lines > MAX_FILE_LINES]
    for lines, path, line, name in long:
        most = EXCEPTIONS.get(f"{path}: {name}", (MAX_FUNCTION_LINES, ""))[0]
        if lines > most:
            problems.append(f"{path}:{line}: {name} has {lines} lines, more than {most}")
    problems += [f"{place} has {fields} fields, more than {MAX_FIELDS}" for fields, _, place in large if fields > MAX_FIELDS]
    problems += [f"{place} has {bools} bools, more than {MAX_BOOLS}" for _, bools, place in large if bools > MAX_BOOLS]
    found = {f"{path}: {name}" for lines, path, _, name in long if lines > MAX_FUNCTION_LINES}
    problems += [f"EXCEPTIONS has {key}, which is none any more" for key in EXCEPTIONS if key not in found]
    for root in sorted({found.group() for path in sources if (found := re.match(r"crates/[^/]+/src/", path))}):
        crate = Crate({path: code for path, code in sources.items() if path.startswith(root)}, root)
        edges = {unit.path: crate.imports(unit) for unit in crate.units.values()}
        if args.edges:
            for path, targets in sorted(edges.items()):
                for target in sorted(targets):
                    print(f"{path} -> {target}")
        for group in circles({path: {other for other in targets if other in edges} for path, targets in edges.items()}):
            problems.append(f"{len(group)} files import each other: {' '.join(group)}")
    if args.longest:
        for entries in (sorted(lengths)[-10:], sorted(long)[-10:], sorted(large)[-10:]):
            print(*(" ".join(str(part) for part in entry) for entry in entries), sep="\n", end="\n\n")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
