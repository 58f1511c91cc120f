#!/usr/bin/env python3
"""Compares `carillon run` with ns-2.35 and its agents: the same topology, links and messages, one message lost on the
source's own link, the same simulated time. Each run is a process and is measured from its start to its end. Prints wall
and processor seconds, peak memory, the ratios, and recoveries (as evidence that both did the same work).

    scripts/bench-ns2.py [target/release/carillon] [--topologies A,B] [--protocols A,B]
                         [--runs N] [--ns2-runs N]

A topology is one of experiments/topologies, or btree-hH for a binary tree of any height H.

Installs the Debian package ns2 when it is missing and this runs as root.
"""

import argparse
import csv
import ctypes
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
TOPOLOGIES = os.path.abspath(os.path.join(HERE, "..", "experiments", "topologies"))

# Number of the lost message, and messages per second.
LOST = 20
RATE = 10

# Simulated seconds after the loss, and settings that match Carillon's protocol to the agent of ns-2.
AFTER_LOSS = {"lms": 2.5, "pgm": 4.0, "srm": 6.0}
SETTINGS = {
    "lms": {},
    "pgm": {"nak_bo_ivl": "0 ms", "rdata_delay": "0 ms", "ne_nak_rpt_rte": "1 s", "nak_elim_ivl": "5 s"},
    "srm": {},
}


class Plan(NamedTuple):
    """Input of both simulators; `topology` is the path of its files without extensions."""

    protocol: str
    topology: str
    start: float
    messages: int
    end: float
    session: float


class Cost(NamedTuple):
    """Cost of one process."""

    wall: float
    cpu: float
    megabytes: float


class Measured(NamedTuple):
    """Median cost of the runs of one simulator, and the recoveries, equal in all runs."""

    cost: Cost
    recovered: int


def become_reaper() -> None:
    """Makes this process the parent of orphans; see `measure`."""
    set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0):
        sys.exit("bench-ns2: this system does not hand orphans to the process that asks for them")


def measure(command: list[str]) -> tuple[Cost, str]:
    """Runs a command; returns its cost and its output.

    The peak memory that the kernel gives for a process includes that of the program it was before,
    so a child of this interpreter would never need less than the interpreter. Hence the small shell
    between them. Its child waits until the shell is gone and we are the parent; then it becomes the
    command."""
    with tempfile.TemporaryDirectory() as folder:
        gate, output = (os.path.join(folder, name) for name in ("gate", "output"))
        os.mkfifo(gate)
        script = 'gate=$1; output=$2; shift 2; { read -r go <"$gate"; exec "$@" >"$output"; } >&2 & echo $!'
        shell = ["sh", "-c", script, "sh", gate, output, *command]
        pid = int(subprocess.run(shell, check=True, stdout=subprocess.PIPE, text=True).stdout)
        with open(gate, "w", encoding="utf-8") as opened:
            begin = time.perf_counter()
            opened.write("go\n")
        _, status, usage = os.wait4(pid, 0)
        wall = time.perf_counter() - begin
        with open(output, encoding="utf-8") as file:
            text = file.read()
    if status != 0:
        sys.stderr.write(text[-2000:])
        sys.exit(f"bench-ns2: failed: {' '.join(command)}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), text


def files_of(binary: str, topology: str, folder: str) -> str:
    """Path of a topology's files without extensions; creates a binary tree that is not shipped."""
    shipped = os.path.join(TOPOLOGIES, topology)
    height = re.fullmatch(r"btree-h(\d+)", topology)
    if os.path.exists(f"{shipped}.roles") or not height:
        return shipped
    made = os.path.join(folder, topology)
    command = [binary, "topology", "binary-tree", "--set", f"height={height[1]}", "--out", f"{made}.edges"]
    subprocess.run(command, check=True, capture_output=True)
    return made


def plan_of(protocol: str, topology: str) -> Plan:
    """Loss after everyone knows the way to the source or, with SRM, the distances to all members."""
    with open(f"{topology}.roles", encoding="utf-8") as roles:
        members = 1 + sum(line.startswith("receiver") for line in roles)
    # More often, the session messages of a large group would fill a link of 1.5 Mb/s.
    session = 1.0 if members <= 41 else 0.05 * members
    start = 2 + 4 * session if protocol == "srm" else 6.0
    messages = LOST + round(AFTER_LOSS[protocol] * RATE)
    return Plan(protocol, topology, start, messages, start + messages / RATE, session)


def ns2_command(plan: Plan) -> list[str]:
    script = os.path.join(HERE, "ns2", f"{plan.protocol}.tcl")
    files = [f"{plan.topology}.{kind}" for kind in ("edges", "roles")]
    numbers = [plan.start, plan.messages, plan.end, LOST]
    if plan.protocol == "srm":
        numbers.append(plan.session)
    return ["ns", script, *files, *(f"{number:g}" for number in numbers)]


def ns2_recovered(output: str) -> int:
    return sum(int(count) for count in re.findall(r"Packets recovered:\s*(\d+)", output))


def carillon_command(binary: str, plan: Plan, folder: str) -> list[str]:
    settings = dict(SETTINGS[plan.protocol])
    if plan.protocol == "srm":
        settings["session_ivl"] = f"{plan.session:g} s"
    lines = [
        f'name = "ns2-{plan.protocol}"',
        "[network]",
        'kind = "graph"',
        f'topology = "{plan.topology}.edges"',
        "[loss]",
        'drop_one = "source"',
        f"first = {LOST}",
        f'apart = "{AFTER_LOSS[plan.protocol]:g} s"',
        "[protocol]",
        f'name = "{plan.protocol}"',
        *(f'{name} = "{value}"' for name, value in settings.items()),
        "[workload]",
        "message_bytes = 1000",
        f'rate = "{RATE} packet/s"',
        f'start = "{plan.start:g} s"',
    ]
    file = os.path.join(folder, f"{plan.protocol}.toml")
    with open(file, "w", encoding="utf-8") as scenario:
        scenario.write("\n".join(lines) + "\n")
    return [binary, "run", file]


def carillon_recovered(output: str) -> int:
    means = {row["metric"]: float(row["mean"] or 0) for row in csv.DictReader(output.splitlines())}
    return round(means["recoveries_per_loss"] * means["losses"])


def medians(results: list[tuple[Cost, int]], what: str) -> Measured:
    recoveries = {recovered for _, recovered in results}
    if len(recoveries) != 1:
        sys.exit(f"bench-ns2: equal runs of {what} recovered {sorted(recoveries)} packets")
    columns = zip(*(cost for cost, _ in results))
    return Measured(Cost(*map(statistics.median, columns)), recoveries.pop())


def compare(binary: str, plan: Plan, runs: int, ns2_runs: int) -> tuple[Measured, Measured]:
    """ns-2 and Carillon by turns, so that other load on the machine affects both."""
    ns2, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        theirs_command, our_command = ns2_command(plan), carillon_command(binary, plan, folder)
        for number in range(max(runs, ns2_runs)):
            if number < ns2_runs:
                cost, output = measure(theirs_command)
                ns2.append((cost, ns2_recovered(output)))
            if number < runs:
                cost, output = measure(our_command)
                ours.append((cost, carillon_recovered(output)))
    return medians(ns2, f"ns-2's {plan.protocol}"), medians(ours, f"Carillon's {plan.protocol}")


def ns2_version() -> str | None:
    """The version of ns-2 installed here; none if `ns` is missing or another program."""
    if not shutil.which("ns"):
        return None
    with tempfile.NamedTemporaryFile("w", suffix=".tcl") as script:
        script.write("puts [ns-version]\nexit 0\n")
        script.flush()
        answer = subprocess.run(["ns", script.name], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return answer.stdout.strip() if answer.returncode == 0 and answer.stdout.strip() else None


def install_ns2() -> None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print("installing ns2", file=sys.stderr)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for command in (["update", "-qq"], ["install", "-y", "-qq", "ns2"]):
        subprocess.run(["apt-get", *command], env=environment, capture_output=True, check=False)


def bench(args: argparse.Namespace, topology: str) -> bool:
    """Prints the lines of a topology; returns true if both simulators recovered the same losses."""
    same = True
    # Share of nodes, links and routes in the memory below, before the simulation starts.
    bare, _ = measure(ns2_command(plan_of("lms", topology)._replace(end=0.02)))
    name = os.path.basename(topology)
    print(f"\n{name:<16}{'simulated s':>12}{'wall s':>10}{'CPU s':>10}{'peak MB':>9}{'recovered':>11}")
    print(f"  {'':<5}{'ns-2, set-up only':<21}{bare.wall:>10.3f}{bare.cpu:>10.3f}{bare.megabytes:>9.1f}")
    for protocol in args.protocols.split(","):
        plan = plan_of(protocol, topology)
        ns2, ours = compare(args.binary, plan, args.runs, args.ns2_runs)
        for name, (cost, recovered) in (("ns-2", ns2), ("Carillon", ours)):
            numbers = f"{cost.wall:>10.3f}{cost.cpu:>10.3f}{cost.megabytes:>9.1f}"
            print(f"  {protocol:<5}{name:<9}{plan.end:>12.1f}{numbers}{recovered:>11}")
        ratios = [theirs / mine for theirs, mine in zip(ns2.cost, ours.cost)]
        wall, cpu, memory = (f"{ratio:.3g}" if ratio < 1000 else f"{ratio:.0f}" for ratio in ratios)
        print(f"  {'':<5}{'ratio':<21}{wall:>10}{cpu:>10}{memory:>9}", flush=True)
        same = same and ns2.recovered == ours.recovered
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="target/release/carillon")
    parser.add_argument("--topologies", default="rand0-r100", help="such as btree-h5,rand0-r20")
    parser.add_argument("--protocols", default="lms,pgm,srm")
    parser.add_argument("--runs", type=int, default=5, help="runs of Carillon")
    parser.add_argument("--ns2-runs", type=int, default=2, help="runs of ns-2")
    args = parser.parse_args()
    if not ns2_version():
        install_ns2()
    version = ns2_version()
    if not version:
        print("bench-ns2: ns-2 is not here and cannot be installed (Debian package ns2); nothing compared")
        return
    become_reaper()
    print(f"ns-{version} and carillon run, one loss on the source's link, whole processes;")
    print(f"medians of {args.ns2_runs} runs of ns-2 and of {args.runs} of Carillon, by turns")
    with tempfile.TemporaryDirectory() as folder:
        topologies = [files_of(args.binary, topology, folder) for topology in args.topologies.split(",")]
        if not all([bench(args, topology) for topology in topologies]):
            sys.exit("bench-ns2: the recoveries differ, so these were not the same runs")


if __name__ == "__main__":
    main()
