"""Runs and sweeps."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tqdm.auto import tqdm

from carillon import _carillon
from carillon._local import Metric, execute
from carillon.loss import is_custom
from carillon.protocol import python_protocols
from carillon.result import Result
from carillon.scenario import Scenario, ScenarioLike, as_scenario

if TYPE_CHECKING:
    from distributed import Client

Existing: TypeAlias = Literal["keep", "replace", "resume"]


def run(
    scenario: ScenarioLike,
    *,
    seed: int | None = None,
    jobs: int | None = None,
    progress: bool = True,
    out: str | PathLike[str] | None = None,
    existing: Existing = "keep",
    samples: bool = True,
    metrics: Mapping[str, Metric] | None = None,
    client: Client | None = None,
    **overrides: Any,
) -> Result:
    """Run a scenario in the simulator and return its results.

    The same scenario and seed give the same tables as `carillon run`, for any number of threads. Ctrl-C ends the sweep;
    the finished runs stay in `out`, and `existing="resume"` continues from them.

    Args:
        scenario: A `Scenario`, its document, or the path of its file.
        seed: Seed in place of that of the scenario.
        jobs: Number of threads; one for each processor if not given.
        progress: Show a progress bar.
        out: Folder for the results; a temporary one if not given.
        existing: What to do with results that `out` has: `"keep"` them and fail, `"replace"` them, or `"resume"`.
        samples: Keep every sample, not only their statistics.
        metrics: Metrics of your own by name: functions that take the trace of a run and return a number or several.
        client: Client of a Dask cluster. Its workers make the runs, in place of the threads of this process.
        overrides: Values of keys, with two underscores for the dot, such as `group__receivers=20`.

    Raises:
        ScenarioError: A key or a value is wrong.
        RunError: A run failed, or the results could not be written.

    >>> scenario = {
    ...     "name": "example",
    ...     "network": {"kind": "lan"},
    ...     "group": {"receivers": 4},
    ...     "protocol": {"name": "msaw"},
    ...     "workload": {"messages": 10, "message_bytes": 500},
    ... }
    >>> run(scenario, progress=False, group__receivers=8).mean("undelivered_share")
    0.0
    """
    chosen = as_scenario(scenario, overrides if seed is None else {**overrides, "run.seed": seed})
    own = metrics or {}
    if client is not None:
        if jobs is not None:
            raise ValueError("jobs: the workers of the client make the runs; their threads are counted there")
        if is_custom(chosen.to_dict()):
            raise ValueError("client: workers do not have the loss models of this process; run without a client")
        # The package works without Dask.
        from carillon import cluster

        dask = client

        def work(folder: Path, report: _carillon.Progress | None) -> None:
            cluster.run_into(chosen, folder, dask, own, samples=samples, existing=existing, progress=report)

    elif own or is_custom(chosen.to_dict()) or chosen.protocols & set(python_protocols()):

        def work(folder: Path, report: _carillon.Progress | None) -> None:
            plan = _carillon.Plan(chosen._inner)
            _carillon.run_elsewhere(
                chosen._inner,
                folder,
                lambda pending: execute(plan, pending, own, jobs, report),
                samples=samples,
                existing=existing,
                metrics=list(own),
            )

    else:

        def work(folder: Path, report: _carillon.Progress | None) -> None:
            _carillon.run_into(chosen._inner, folder, samples=samples, existing=existing, jobs=jobs, progress=report)

    return _into_folder(chosen, out, progress, work)


def sweep(
    scenario: ScenarioLike,
    values: Mapping[str, Any],
    *,
    seed: int | None = None,
    jobs: int | None = None,
    progress: bool = True,
    out: str | PathLike[str] | None = None,
    existing: Existing = "keep",
    samples: bool = True,
    metrics: Mapping[str, Metric] | None = None,
    client: Client | None = None,
    **overrides: Any,
) -> Result:
    """Run a scenario at each point of the cross product of some values.

    Args:
        scenario: A `Scenario`, its document, or the path of its file.
        values: For each key a list of values, or a range such as `{"from": 5, "to": 60, "step": 5}`.
        seed: As for `run`, like the arguments that follow it.
        jobs: See `run`.
        progress: See `run`.
        out: See `run`.
        existing: See `run`.
        samples: See `run`.
        metrics: See `run`.
        client: See `run`.
        overrides: See `run`.

    >>> scenario = {
    ...     "name": "example",
    ...     "network": {"kind": "lan"},
    ...     "loss": {"model": "bernoulli"},
    ...     "group": {"receivers": 4},
    ...     "protocol": {"name": "msaw"},
    ...     "workload": {"messages": 10, "message_bytes": 500},
    ... }
    >>> result = sweep(scenario, {"loss.p": [0.0, 0.1]}, progress=False)
    >>> result.mean("message_latency_s", loss__p=0.0) < result.mean("message_latency_s", loss__p=0.1)
    True
    """
    swept = as_scenario(scenario, overrides, values)
    return run(
        swept,
        seed=seed,
        jobs=jobs,
        progress=progress,
        out=out,
        existing=existing,
        samples=samples,
        metrics=metrics,
        client=client,
    )


def _into_folder(
    scenario: Scenario,
    out: str | PathLike[str] | None,
    progress: bool,
    work: Callable[[Path, _carillon.Progress | None], None],
) -> Result:
    """Let `work` write the results of a scenario into a folder, below a progress bar."""
    folder = Path(tempfile.mkdtemp(prefix="carillon-run-") if out is None else out)
    result = Result(folder, scenario, temporary=out is None)
    if not progress:
        work(folder, None)
        return result
    with tqdm(total=scenario.runs, desc=scenario.name, unit="run") as bar:

        def report(done: int, all_runs: int) -> None:
            bar.total = all_runs
            bar.update(done - bar.n)

        work(folder, report)
    return result
