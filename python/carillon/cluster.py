"""Runs of a sweep on the workers of a Dask cluster.

The runs are submitted in batches, of which a few for each thread of the cluster are outstanding. A worker ends a batch
early after some time or some megabytes of samples, and the rest is submitted again. Neither the scheduler nor this
process therefore holds many results.

Runs that are lost with their worker are submitted again, each as a batch of its own. Of the runs that were lost twice,
one is outstanding at a time, so that a run that ends its workers is told from its neighbours.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import cloudpickle  # type: ignore[import-untyped]
import distributed

from carillon import _carillon
from carillon._carillon import VERSION, CarillonError, RunError
from carillon._local import Metric, make
from carillon.protocol import python_protocols, register
from carillon.scenario import Scenario

if TYPE_CHECKING:
    from carillon._carillon import Outcome

BATCH_SECONDS = 1.0
"""Time after which a worker ends a batch. A worker that is lost loses no more than this, or one run."""

BATCH_BYTES = 16 << 20
"""Size of the samples with which a worker ends a batch."""

MAX_BATCH_RUNS = 1000
"""Greatest number of runs in a batch."""

BATCHES_PER_THREAD = 8
"""Outstanding batches for each thread. A cluster that adapts its size wants five seconds of work for each of them."""

MIN_OUTSTANDING = 8
"""Outstanding batches without workers. A cluster that adapts its size starts workers for them."""

THREAD_COUNT_INTERVAL = 2.0
"""Seconds between two looks at the number of threads of the cluster."""

MAX_LOSSES = 3
"""Number of times that a run may be lost before the sweep fails. Dask itself tries four workers each time."""

LOST = (distributed.KilledWorker, asyncio.CancelledError, concurrent.futures.CancelledError)
"""Exceptions of batches that were lost with their workers, or with the scheduler."""


class Runs(Protocol):
    """Runs of a scenario, by their indices."""

    def run(self, index: int) -> Outcome:
        """Make a run."""


class RemotePlan:
    """Plan of a scenario on a worker, which resolves it at its first run and keeps it for the sweep."""

    def __init__(self, version: str, protocols: bytes, plan: bytes) -> None:
        self._version = version
        self._pickled = protocols, plan
        self._lock = Lock()

    @classmethod
    def of(cls, scenario: Scenario, metrics: Mapping[str, Metric]) -> RemotePlan:
        """Pickle a scenario with the protocols and the metrics that are written in Python."""
        own = python_protocols()
        protocols = [own[name] for name in sorted(scenario.protocols & set(own))]
        return cls(VERSION, cloudpickle.dumps(protocols), cloudpickle.dumps((scenario, dict(metrics))))

    @cached_property
    def _plan(self) -> tuple[_carillon.Plan, Mapping[str, Metric]]:
        # Another version may misunderstand the scenario, or give other results.
        if self._version != VERSION:
            raise CarillonError(_other_version(f"a worker has carillon {VERSION}", self._version))
        protocols, plan = self._pickled
        # The scenario is checked as it arrives, and may name them.
        for protocol in cloudpickle.loads(protocols):
            register(protocol)
        scenario, metrics = cloudpickle.loads(plan)
        return _carillon.Plan(scenario._inner), metrics

    def run(self, index: int) -> Outcome:
        """Make a run."""
        # The threads of a worker share one plan.
        with self._lock:
            plan, metrics = self._plan
        return make(plan, index, metrics)

    def __reduce__(self) -> tuple[object, tuple[str, bytes, bytes]]:
        return RemotePlan, (self._version, *self._pickled)


def _received(runs: Runs) -> Runs:
    """Keep runs on a worker as the result of a task, from which other workers copy them."""
    return runs


def run_batch(
    runs: Runs, indices: list[int], seconds: float, size: int
) -> tuple[list[tuple[int, Outcome]], CarillonError | None]:
    """Make some runs on a worker, until `seconds` have passed, the samples have `size` bytes, or a run fails.

    Returns:
        Outcomes of the finished runs, and the error of the run that failed.
    """
    end = time.monotonic() + seconds
    outcomes: list[tuple[int, Outcome]] = []
    for index in indices:
        try:
            outcome = runs.run(index)
        except CarillonError as error:
            return outcomes, error
        outcomes.append((index, outcome))
        size -= sum(len(values) + len(nodes) for _, values, nodes in outcome[2])
        if size <= 0 or time.monotonic() >= end:
            break
    return outcomes, None


class Dispatch:
    """Iterable of the outcomes of runs on a cluster, in the order in which they end."""

    def __init__(self, client: distributed.Client, runs: Runs, indices: list[int]) -> None:
        """Prepare the runs with these indices.

        Args:
            client: Client of the cluster.
            runs: Runs, which are pickled.
            indices: Indices of the runs.
        """
        self._client: Any = client
        self._source = runs
        self._waiting = deque(indices)
        self._lost_once: deque[int] = deque()
        self._lost_again: deque[int] = deque()
        self._losses: Counter[int] = Counter()
        self._outstanding: dict[Any, list[int]] = {}
        self._completed: Any = distributed.as_completed(loop=self._client.loop)  # type: ignore[no-untyped-call]
        self._threads = 0
        self._counted = -THREAD_COUNT_INTERVAL
        # Dask sends it once to each worker that takes a batch.
        self._runs = self._build()

    def __iter__(self) -> Iterator[tuple[int, Outcome]]:
        try:
            self._submit()
            while self._outstanding:
                future = next(self._completed)
                outcomes, error = self._collect(future, self._outstanding.pop(future))
                if error is None:
                    # Workers have their next batches before the results of this one are written.
                    self._submit()
                yield from outcomes
                if error is not None:
                    raise error
        finally:
            if self._outstanding and self._client.status == "running":
                self._client.cancel(list(self._outstanding))
            self._outstanding.clear()

    def _build(self) -> Any:
        return self._client.submit(_received, self._source, pure=False)

    def _submit(self) -> None:
        limit = max(MIN_OUTSTANDING, BATCHES_PER_THREAD * self._count_threads())
        while len(self._outstanding) < limit and (indices := self._next_batch()):
            future = self._client.submit(run_batch, self._runs, indices, BATCH_SECONDS, BATCH_BYTES, pure=False)
            self._outstanding[future] = indices
            self._completed.add(future)

    def _next_batch(self) -> list[int]:
        """Return the indices of the next batch; none if there is none to submit now."""
        if self._lost_again and not any(self._losses[batch[0]] > 1 for batch in self._outstanding.values()):
            return [self._lost_again.popleft()]
        if self._lost_once:
            return [self._lost_once.popleft()]
        # Batches become smaller towards the end, so that all workers end together.
        number = min(MAX_BATCH_RUNS, -(-len(self._waiting) // max(MIN_OUTSTANDING, 2 * self._threads)))
        return [self._waiting.popleft() for _ in range(number)]

    def _count_threads(self) -> int:
        if time.monotonic() >= self._counted + THREAD_COUNT_INTERVAL:
            self._threads = sum(self._client.nthreads().values())
            self._counted = time.monotonic()
        return self._threads

    def _collect(self, future: Any, indices: list[int]) -> tuple[list[tuple[int, Outcome]], CarillonError | None]:
        outcomes: list[tuple[int, Outcome]]
        error: CarillonError | None
        try:
            outcomes, error = future.result()
        except LOST as lost:
            self._lose(indices, lost)
            return [], None
        except Exception:
            # A worker without the package, or with an old version, fails in ways of its own.
            check_versions(self._client)
            raise
        self._waiting.extendleft(reversed(indices[len(outcomes) :]))
        return outcomes, error

    def _lose(self, indices: list[int], error: BaseException) -> None:
        if self._client.status != "running":
            raise RunError("the connection to the Dask scheduler was lost; the finished runs are kept") from error
        self._losses.update(indices)
        for index in indices:
            if self._losses[index] >= MAX_LOSSES:
                raise RunError(
                    f"run {index} was lost {MAX_LOSSES} times with its worker, perhaps for want of memory: {error}"
                ) from error
            (self._lost_once if self._losses[index] == 1 else self._lost_again).append(index)
        if self._runs.status in ("error", "cancelled"):
            self._runs = self._build()


def run_into(
    scenario: Scenario,
    folder: Path,
    client: distributed.Client,
    metrics: Mapping[str, Metric],
    *,
    samples: bool,
    existing: str,
    progress: _carillon.Progress | None,
) -> None:
    """Make the missing runs of a scenario on a cluster and write their results into a folder."""
    if not isinstance(client, distributed.Client):
        raise TypeError(f"client={client!r}: give a distributed.Client, such as Client(cluster)")
    if client.asynchronous:
        raise ValueError("the client is asynchronous: give a Client without asynchronous=True")
    check_versions(client)

    def execute(pending: list[int]) -> Iterator[tuple[int, Outcome]]:
        for done, outcome in enumerate(Dispatch(client, RemotePlan.of(scenario, metrics), pending), 1):
            yield outcome
            if progress is not None:
                progress(done, len(pending))

    _carillon.run_elsewhere(scenario._inner, folder, execute, samples=samples, existing=existing, metrics=list(metrics))


def check_versions(client: distributed.Client) -> None:
    """Check that each worker has this version of the package.

    Raises:
        CarillonError: A worker has none, or another one.
    """

    # Defined here, so that it is sent as code. A worker without the package cannot find functions of the package.
    def version() -> str | None:
        try:
            import carillon
        except ModuleNotFoundError:
            return None
        return carillon.__version__

    versions: dict[str, str | None] = client.run(version, on_error="ignore")
    for worker, found in versions.items():
        if found != VERSION:
            has = "no package carillon" if found is None else f"carillon {found}"
            raise CarillonError(_other_version(f"worker {worker} has {has}", VERSION))


def _other_version(found: str, own: str) -> str:
    return f"{found}, and this process has {own}: install carillon {own} on the workers, and start them again"
