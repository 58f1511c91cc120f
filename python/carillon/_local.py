"""Runs in this process that need Python: protocols and metrics written in it."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from os import cpu_count
from typing import TypeAlias

from carillon import _carillon

Metric: TypeAlias = "Callable[[_carillon.Table], float | Iterable[float]]"


def execute(
    plan: _carillon.Plan,
    pending: list[int],
    metrics: Mapping[str, Metric],
    jobs: int | None,
    report: _carillon.Progress | None,
) -> Iterator[tuple[int, _carillon.Outcome]]:
    """Make runs on threads, and yield each with its index as it ends.

    The threads share the interpreter: only what the simulator does by itself is faster on several of them.
    """
    with ThreadPoolExecutor(jobs or cpu_count() or 1) as pool:
        waiting = iter(pending)
        running: dict[Future[_carillon.Outcome], int] = {}
        done = 0
        try:
            while True:
                # A few runs more than threads wait, so that results do not pile up.
                for index in waiting:
                    running[pool.submit(make, plan, index, metrics)] = index
                    if len(running) > 2 * (jobs or cpu_count() or 1):
                        break
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    index = running.pop(future)
                    yield index, future.result()
                    done += 1
                    if report is not None:
                        report(done, len(pending))
        finally:
            for future in running:
                future.cancel()


def make(plan: _carillon.Plan, index: int, metrics: Mapping[str, Metric]) -> _carillon.Outcome:
    """Make a run, and add the samples of the metrics."""
    if not metrics:
        return plan.run(index)
    (steps, wall, samples), trace = plan.run_traced(index)
    return steps, wall, [*samples, *((name, _packed(metric(trace)), b"") for name, metric in metrics.items())]


def _packed(samples: float | Iterable[float]) -> bytes:
    """Return samples as 64-bit floating-point numbers, little-endian."""
    values = array("d", samples if isinstance(samples, Iterable) else [samples])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
