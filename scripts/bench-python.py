#!/usr/bin/env python3
"""Measures the Python package: a sweep on one thread, on two threads, with the command line, and on a Dask cluster of
two worker processes; the memory of a sweep by its number of samples; and the time in which a trace becomes a table.
Prints times and ratios; asserts nothing. Needs an interpreter with the package, and a release build of the command.

    pip install ".[distributed]" && scripts/bench-python.py [target/release/carillon] [--runs N] [--events N] [--rounds N]
"""

import argparse
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCENARIO: dict[str, Any] = {
    "name": "bench",
    "network": {"kind": "graph", "topology": "rand0-r20"},
    "loss": {"model": "bernoulli", "p": 0.01},
    "protocol": {"name": "srm"},
    "workload": {"messages": 50, "message_bytes": 1000, "rate": "10 packet/s"},
}


def median(rounds: int, work: Callable[[Path], object]) -> float:
    """Median of the seconds that `work` takes with a fresh folder."""
    seconds = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            work(Path(folder) / "out")
            seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def report(what: str, seconds: float, base: float | None = None) -> None:
    ratio = "" if base is None else f"{seconds / base:8.2f} times the first"
    print(f"{what:44} {seconds:8.2f} s{ratio}", flush=True)


def bench_sweeps(binary: str, runs: int, rounds: int) -> None:
    import carillon
    import distributed

    points = {"loss.p": [0.0, 0.005, 0.01, 0.02]}
    scenario = carillon.Scenario(SCENARIO).replace({"run.replications": -(-runs // 4)}).sweep(points)
    print(f"a sweep of {scenario.runs} runs")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.toml"
        file.write_text(scenario.to_toml())

        def here(jobs: int) -> Callable[[Path], object]:
            return lambda out: carillon.run(scenario, jobs=jobs, out=out, progress=False)

        def command(jobs: int) -> Callable[[Path], object]:
            arguments = [binary, "run", str(file), "--jobs", str(jobs), "--out"]
            return lambda out: subprocess.run([*arguments, str(out)], check=True, capture_output=True)

        one = median(rounds, here(1))
        report("Python, 1 thread", one)
        report("Python, 2 threads", median(rounds, here(2)), one)
        report("command line, 1 thread", median(rounds, command(1)), one)
        report("command line, 2 threads", median(rounds, command(2)), one)
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            # Workers import the package at their first batch.
            carillon.run(SCENARIO, client=client, progress=False)
            remote = median(rounds, lambda out: carillon.run(scenario, client=client, out=out, progress=False))
            report("Dask, 2 worker processes with 1 thread", remote, one)


def sweep_memory(messages: int, runs: int) -> None:
    """Print the peak of the memory of a sweep, in a process of its own."""
    import carillon

    workload = {**SCENARIO["workload"], "messages": messages, "rate": "1000 packet/s"}
    scenario = carillon.Scenario({**SCENARIO, "workload": workload, "run": {"replications": runs}})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = carillon.run(scenario, jobs=1, progress=False)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = (result.folder / "samples.parquet").stat().st_size
    grown = (after - before) / 1024
    print(f"{runs:6} runs of {messages:6} messages {size / 2**20:8.1f} MiB of samples.parquet {grown:8.1f} MiB of memory")


def bench_memory() -> None:
    print("memory of a sweep")
    for messages, runs in ((50, 100), (50, 2000), (2000, 100)):
        process = multiprocessing.get_context("spawn").Process(target=sweep_memory, args=(messages, runs))
        process.start()
        process.join()


def bench_trace(events: int) -> None:
    import carillon

    network = {"kind": "lan"}
    workload = {"messages": events // 155, "message_bytes": 1000}
    group, protocol = {"receivers": 50}, {"name": "carillon"}
    scenario = {**SCENARIO, "network": network, "workload": workload, "group": group, "protocol": protocol}
    plan = carillon._carillon.Plan(carillon.Scenario(scenario)._inner)
    begin = time.perf_counter()
    plan.run(0)
    run = time.perf_counter()
    trace = plan.trace(0)
    end = time.perf_counter()
    columns = len(trace.column_names)
    print(f"a trace of {len(trace)} events in {columns} columns")
    report("run without a trace", run - begin)
    report("run with its trace as a table", end - run, run - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory: {peak:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="target/release/carillon", help="the release build of the command")
    parser.add_argument("--runs", type=int, default=2000, help="runs of the sweep")
    parser.add_argument("--events", type=int, default=10_000_000, help="events of the trace, about")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of a sweep; the median is printed")
    parser.add_argument("--only", choices=["sweeps", "memory", "trace"], help="only one of the measurements")
    options = parser.parse_args()
    if options.only in (None, "sweeps"):
        bench_sweeps(options.binary, options.runs, options.rounds)
    if options.only in (None, "memory"):
        bench_memory()
    if options.only in (None, "trace"):
        bench_trace(options.events)


if __name__ == "__main__":
    sys.exit(main())
