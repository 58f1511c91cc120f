#!/usr/bin/env python3
"""Runs every benchmark of another revision and of this one alternately, and prints the ratios of their speeds: above 1 this
one is faster. Builds the other revision in its own checkout below target/bench-against. Asserts nothing.

    scripts/bench-against.py 9993156                    all
    scripts/bench-against.py HEAD~20 --only queue,lan   some: queue, deliveries, lan, routed, loopback, goodput
    scripts/bench-against.py main --rounds 9

In each round both revisions run one after the other. A ratio is the median over the rounds, and `low` and `high` bound its
95 % confidence interval (by ranks, without assuming a distribution; with fewer than six rounds the minimum and maximum). A
row is slower if its whole interval is below 1. `best` is the ratio of the best rounds of both, as other load on a machine
only slows down. Short benchmarks have more rounds: ten times as many for loopback and simulated delivery, four times as
many for the queue and the LAN. The speed of the event queue is relative to the standard heap, measured beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Callable, Iterator

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
# What a line of a benchmark's output means: how many words of it name the row, which column is measured, whether more of it is
# better, and the column that it is a multiple of: the standard heap, measured by turns in the same process, meets the same moods
# of the machine, which are a third of the speed.
BENCHES = {
    "queue": ("carillon-sim", 2, 2, True, 3),
    "deliveries": ("carillon-lab", 1, 1, False, None),
    "lan": ("carillon-lab", 1, 1, True, None),
}
# Messages of a run on a routed network: about a second each.
ROUTED = {"lms": 6000, "srm": 300, "pgm": 6000}

# How many rounds for one of the others: these are short, and a single one says little.
ROUNDS = {"queue": 4, "deliveries": 10, "lan": 4, "loopback": 10}


class Edition:
    """A revision: where its sources are, and what was built of them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.target = os.path.join(folder, "target")
        self.binary = os.path.join(self.target, "release", "carillon")

    def build(self) -> None:
        self.cargo("build", "--release", "--bin", "carillon")

    def cargo(self, *arguments: str) -> str:
        command = ["cargo", *arguments, "--quiet", "--target-dir", self.target]
        return subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True).stdout

    def bench(self, crate: str, name: str) -> str:
        """The executable of a benchmark."""
        lines = self.cargo("bench", "-p", crate, "--bench", name, "--no-run", "--message-format", "json")
        built = (json.loads(line) for line in lines.splitlines())
        return [one["executable"] for one in built if one.get("executable")][-1]


# Of each row, its speed.
Rows = dict[str, float]


@contextlib.contextmanager
def copied(executable: str) -> Iterator[str]:
    """A copy of an executable, for one run. Where its pages lie in memory makes up to a third of its speed, and they lie worst
    as a linker leaves them: that is no matter of what it does, so each run draws anew."""
    with tempfile.TemporaryDirectory() as folder:
        yield shutil.copy(executable, folder)


def output_of(executable: str, cwd: str) -> str:
    """What a benchmark prints."""
    with copied(executable) as program:
        command = [program, "--bench", "--quick"]
        return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def table(executable: str, cwd: str, name: str) -> Rows:
    """The rows of a benchmark that prints a table."""
    _, names, column, more, unit = BENCHES[name]
    rows = {}
    for line in output_of(executable, cwd).splitlines():
        words = line.split()
        try:
            value = float(words[column]) / (float(words[unit]) if unit else 1)
            float(words[names - 1])
        except (IndexError, ValueError):
            continue
        rows[" ".join(words[:names])] = value if more else 1 / value
    return rows


def routed(edition: Edition, folder: str) -> Rows:
    """Processor time of runs on a routed network."""
    rows = {}
    for name, messages in ROUTED.items():
        scenario = os.path.join(folder, f"{name}.toml")
        with open(scenario, "w") as out:
            out.write(
                f'name = "{name}"\n[network]\nkind = "graph"\ntopology = "binary-tree"\nheight = 8\n'
                f'[protocol]\nname = "{name}"\n[loss]\nmodel = "bernoulli"\np = 0.001\n'
                f'[workload]\nmessages = {messages}\nmessage_bytes = 1000\nrate = "10 packet/s"\n'
            )
        with copied(edition.binary) as program:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [program, "run", scenario, "--out", os.path.join(folder, "out")]
            ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"bench-against: {' '.join(command)}: {ran.stderr.strip()}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows[name] = 1 / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        subprocess.run(["rm", "-rf", os.path.join(folder, "out")], check=True)
    return rows


def loopback(executable: str, cwd: str) -> Rows:
    """Datagrams a second on loopback, the costs of sending and of receiving apart."""
    rows = {}
    for line in output_of(executable, cwd).splitlines():
        parts = [part.split() for part in line.split("|")]
        if len(parts) == 4 and parts[0][:1] and parts[0][0].isdigit():
            size, offload, receivers = parts[0][:3]
            rows[f"{size} {offload} {receivers} send"] = 1 / float(parts[1][0])
            rows[f"{size} {offload} {receivers} receive"] = 1 / float(parts[2][0])
    return rows


def goodput(edition: Edition, folder: str) -> Rows:
    """MB/s of a file to receivers on loopback, as the sender reports them."""
    with copied(edition.binary) as program:
        command = [sys.executable, os.path.join(ROOT, "scripts", "bench-goodput.py"), program, "--rounds", "1"]
        output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    rows = {}
    for line in output.stdout.splitlines():
        words = line.split()
        if len(words) == 6 and words[0].isdigit():
            rows[f"{words[0]} stored"], rows[f"{words[0]} thrown away"] = float(words[1]), float(words[3])
    return rows


def compare(name: str, rounds: int, old: Callable[[], Rows], new: Callable[[], Rows]) -> None:
    """Runs both by turns and prints a line for each row."""
    found: list[tuple[Rows, Rows]] = []
    for number in range(rounds):
        # Who goes first changes, so that what drifts meets both.
        first, second = (old, new) if number % 2 == 0 else (new, old)
        a, b = first(), second()
        found.append((a, b) if number % 2 == 0 else (b, a))
    for row in found[0][1]:
        pairs = [(a[row], b[row]) for a, b in found if row in a and row in b]
        if not pairs:
            continue
        best = max(b for _, b in pairs) / max(a for a, _ in pairs)
        single = sorted(b / a for a, b in pairs)
        # What a machine does for a minute meets both of a round: it is in medians of all rounds, and not in these.
        ratio = statistics.median(single)
        low, high = interval(single)
        print(f"{name:<11} {row:<28} {ratio:>6.2f} {low:>6.2f} {high:>6.2f} {best:>6.2f}", flush=True)


def interval(ordered: list[float]) -> tuple[float, float]:
    """Between which two of these, in order, their median lies in 95 of 100 cases."""
    count, left_out, below = len(ordered), 0, 0.0
    # So many of them below the median, if each is with chance one half.
    while (below := below + math.comb(count, left_out) / 2**count) <= 0.025:
        left_out += 1
    at = max(left_out - 1, 0)
    return ordered[at], ordered[count - 1 - at]


def checkout(revision: str) -> str:
    """A checkout of the revision."""
    commit = subprocess.run(
        ["git", "rev-parse", "--verify", f"{revision}^{{commit}}"], cwd=ROOT, capture_output=True, text=True
    )
    if commit.returncode:
        sys.exit(f"bench-against: {revision!r} is no revision of this repository")
    name = commit.stdout.strip()
    folder = os.path.join(ROOT, "target", "bench-against", name)
    if not os.path.isdir(folder):
        subprocess.run(["git", "worktree", "add", "--detach", "--force", folder, name], cwd=ROOT, check=True)
    return folder


def parts(old: Edition, new: Edition, only: list[str], folder: str) -> Iterator[tuple[str, Callable, Callable]]:
    for name, (crate, *_) in BENCHES.items():
        if name in only:
            a, b = old.bench(crate, name), new.bench(crate, name)
            yield name, lambda: table(a, old.folder, name), lambda: table(b, new.folder, name)
    if "routed" in only:
        yield "routed", lambda: routed(old, folder), lambda: routed(new, folder)
    if "loopback" in only:
        # Both are measured in the same way, that of this revision.
        source = os.path.join("crates", "carillon-net", "benches", "loopback.rs")
        shutil.copyfile(os.path.join(new.folder, source), os.path.join(old.folder, source))
        a, b = old.bench("carillon-net", "loopback"), new.bench("carillon-net", "loopback")
        yield "loopback", lambda: loopback(a, old.folder), lambda: loopback(b, new.folder)
    if "goodput" in only:
        yield "goodput", lambda: goodput(old, folder), lambda: goodput(new, folder)


def main() -> None:
    every = [*BENCHES, "routed", "loopback", "goodput"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("--only", default=",".join(every), help="names with commas between them")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    only = args.only.split(",")
    if wrong := [name for name in only if name not in every]:
        sys.exit(f"bench-against: no benchmark {wrong[0]!r}; there are {', '.join(every)}")
    if args.rounds < 1:
        sys.exit("bench-against: --rounds: at least 1")
    old, new = Edition(checkout(args.revision)), Edition(ROOT)
    for edition in (old, new):
        edition.build()
    print(f"{'benchmark':<11} {'row':<28} {'ratio':>6} {'low':>6} {'high':>6} {'best':>6}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, a, b in parts(old, new, only, folder):
            compare(name, args.rounds * ROUNDS.get(name, 1), a, b)


if __name__ == "__main__":
    main()
