"""Sweeps on the worker processes of a Dask cluster."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster

import carillon
from carillon import Scenario, cluster
from carillon.protocol import register

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

from stop_and_wait import StopAndWait

pytestmark = pytest.mark.cluster

# Processes are forked from a server that has imported Dask. A batch is lost with the first worker that dies, so that
# the package has to submit it again. Attempts to reach a dead worker end soon.
CONFIG = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.scheduler.allowed-failures": 0,
    "distributed.comm.timeouts.connect": "2s",
    "distributed.admin.system-monitor.gil.enabled": False,
}

TABLES = ("summary.csv", "summary.parquet", "runs.csv", "samples.parquet", "receivers.csv", "nodes.csv")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Client of a cluster with three worker processes."""
    with (
        dask.config.set(CONFIG),
        LocalCluster(n_workers=3, threads_per_worker=1, scheduler_port=0, dashboard_address=None) as workers,
        Client(workers) as client,
    ):
        yield client


@pytest.fixture
def swept(lan: dict[str, Any]) -> Scenario:
    """A sweep with 90 runs of about 10 ms."""
    scenario = Scenario(lan).replace(run__replications=30, workload__messages=150, run__measure=["receivers", "nodes"])
    return scenario.sweep({"loss.p": [0.0, 0.05, 0.1]})


def bar_that_calls(actions: dict[int, Callable[[], object]]) -> type:
    """Return a class of progress bars that call functions after numbers of runs."""

    class Bar:
        def __init__(self, **_: object) -> None:
            self.total = self.n = 0

        def update(self, runs: int) -> None:
            self.n += runs
            actions.pop(self.n, lambda: None)()

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    return Bar


@pytest.mark.usefixtures("interruptible")
def test_tables_survive_a_killed_worker_and_an_interrupt(
    client: Client, swept: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[int] = []
    lose = cluster.Dispatch._lose

    def note(dispatch: cluster.Dispatch, indices: list[int], error: BaseException) -> None:
        lost.extend(indices)
        lose(dispatch, indices, error)

    monkeypatch.setattr(cluster.Dispatch, "_lose", note)
    victim = next(iter(client.run(os.getpid).values()))
    actions = {5: partial(os.kill, victim, signal.SIGKILL), 60: partial(os.kill, os.getpid(), signal.SIGINT)}
    monkeypatch.setattr("carillon.running.tqdm", bar_that_calls(actions))
    with pytest.raises(KeyboardInterrupt):
        carillon.run(swept, client=client, out=tmp_path / "cluster")
    assert lost
    done = carillon.load(tmp_path / "cluster").manifest["runs_done"]
    assert 60 <= done < 90
    # The bar counts the missing runs only.
    actions[90 - done] = partial(lost.append, -1)
    carillon.run(swept, client=client, out=tmp_path / "cluster", existing="resume")
    assert lost[-1] == -1
    carillon.run(swept, out=tmp_path / "here", progress=False)
    for name in TABLES:
        assert (tmp_path / "cluster" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name


def test_workers_need_no_file_of_the_scenario(client: Client, lan: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "path.edges").write_text("0 1 1.0\n1 2 1.0\n")
    (tmp_path / "path.roles").write_text("nodes 3\nsource 0\nreceiver 2\n")
    scenario = Scenario({**lan, "network": {"kind": "graph", "topology": "path.edges"}, "group": {}}, folder=tmp_path)
    (tmp_path / "path.edges").unlink()
    here = carillon.run(scenario, progress=False)
    assert list(carillon.run(scenario, client=client, progress=False).runs) == list(here.runs)


def test_protocols_and_metrics_in_python_travel_to_workers(client: Client, lan: dict[str, Any]) -> None:
    @register
    class Renamed(StopAndWait):
        name = "python-renamed"

    metrics = {"events": lambda trace: float(len(trace))}
    scenario = Scenario({**lan, "protocol": {"name": "python-renamed"}, "run": {"replications": 4}})
    here, there = (carillon.run(scenario, client=where, metrics=metrics, progress=False) for where in (None, client))
    assert "events" in here.summary["metric"]
    assert list(here.runs) == list(there.runs)

    def fails(trace: carillon.Table) -> float:
        raise LookupError("no such event")

    with pytest.raises(LookupError, match="no such event"):
        carillon.run(lan, client=client, metrics={"fails": fails}, progress=False)


def test_a_failed_run_fails_the_sweep_as_here(client: Client, swept: Scenario) -> None:
    hasty = swept.replace(run__time_limit="10 ms", run__replications=1, loss__p=0.1)
    with pytest.raises(carillon.RunError) as here:
        carillon.run(hasty, progress=False)
    with pytest.raises(carillon.RunError) as there:
        carillon.run(hasty, client=client, progress=False)
    assert str(here.value) == str(there.value)


def test_workers_with_another_version_are_named(
    client: Client, swept: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = cluster.RemotePlan("0.0.1", b"", b"")
    with pytest.raises(
        carillon.CarillonError, match=r"a worker has carillon .*, and this process has 0\.0\.1: install"
    ):
        list(cluster.Dispatch(client, plan, [0]))
    monkeypatch.setattr(cluster, "VERSION", "0.0.1")
    with pytest.raises(carillon.CarillonError, match=r"worker tcp://.* has carillon .*: install carillon 0\.0\.1"):
        carillon.run(swept, client=client, progress=False)


def test_arguments_that_exclude_each_other_are_refused(client: Client, swept: Scenario) -> None:
    with pytest.raises(ValueError, match="jobs"):
        carillon.run(swept, client=client, jobs=2, progress=False)
    with pytest.raises(TypeError, match=r"give a distributed\.Client"):
        carillon.run(swept, client=client.cluster, progress=False)


def test_a_batch_ends_by_time_by_size_and_by_a_failure() -> None:
    failure = carillon.RunError("run 5")

    class Runs:
        def run(self, index: int) -> tuple[int, float, list[tuple[str, bytes, bytes]]]:
            if index == 5:
                raise failure
            return index, 0.0, [("losses", bytes(10), b"")]

    def batch(first: int, seconds: float = 9.0, size: int = 1000) -> tuple[list[int], carillon.CarillonError | None]:
        outcomes, error = cluster.run_batch(Runs(), list(range(first, 9)), seconds, size)
        return [index for index, _ in outcomes], error

    assert batch(0, seconds=0.0) == ([0], None)
    assert batch(0, size=20) == ([0, 1], None)
    assert batch(0) == ([0, 1, 2, 3, 4], failure)
    assert batch(6) == ([6, 7, 8], None)


class Fatal:
    """Runs of which one ends the process of its worker."""

    def run(self, index: int) -> tuple[int, float, list[tuple[str, bytes, bytes]]]:
        if index == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return index, 0.0, []


def test_a_run_that_ends_its_workers_is_named(client: Client) -> None:
    done: list[int] = []
    outcomes = (done.append(index) for index, _ in cluster.Dispatch(client, Fatal(), list(range(40))))
    with pytest.raises(carillon.RunError, match="run 2 was lost 3 times with its worker"):
        list(outcomes)
    assert 2 not in done
    assert len(done) == len(set(done))
