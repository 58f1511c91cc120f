"""Scenarios, runs and their tables."""

import os
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import polars
import pytest

import carillon
from carillon import Scenario


def test_tables_reach_polars_with_their_types(lan: dict[str, Any]) -> None:
    result = carillon.sweep(lan, {"loss.p": [0.0, 0.1]}, progress=False, run__replications=3)
    summary = polars.DataFrame(result.summary)
    assert summary.schema["loss.p"] == polars.Float64
    assert summary.schema["n"] == polars.Int64
    assert set(summary["loss.p"]) == {0.0, 0.1}
    assert len(polars.DataFrame(result.runs)) == 3 * len(summary)
    # The summary is that of the samples.
    latency = polars.DataFrame(result.samples).filter(
        (polars.col("metric") == "delivery_latency_s") & (polars.col("loss.p") == 0.1)
    )
    assert len(latency) == 3 * 50 * 5
    mean = latency["value"].mean()
    assert isinstance(mean, float)
    assert result.mean("delivery_latency_s", loss__p=0.1) == pytest.approx(mean, rel=1e-12)


def test_a_missing_value_is_null(lan: dict[str, Any]) -> None:
    result = carillon.run(lan, progress=False)
    # A single run has no confidence interval.
    assert set(result.summary["ci95_low"]) == {None}
    assert polars.DataFrame(result.summary)["ci95_low"].null_count() == len(result.summary)


def test_results_do_not_depend_on_threads_or_the_way_they_are_made(lan: dict[str, Any], tmp_path: Path) -> None:
    swept = Scenario(lan).sweep({"group.receivers": [2, 5]}).replace(run__replications=4)
    folders = [tmp_path / name for name in ("one", "two", "apart")]
    carillon.run(swept, jobs=1, progress=False, out=folders[0])
    carillon.run(swept, jobs=2, progress=False, out=folders[1])
    plan = carillon._carillon.Plan(swept._inner)
    backwards = lambda pending: ((index, plan.run(index)) for index in [*reversed(pending), *pending[:2]])  # noqa: E731
    carillon._carillon.run_elsewhere(swept._inner, folders[2], backwards)
    for name in ("summary.csv", "summary.parquet", "runs.csv", "samples.parquet"):
        files = {(folder / name).read_bytes() for folder in folders}
        assert len(files) == 1, name


def test_measured_receivers_and_nodes_have_tables(lan: dict[str, Any]) -> None:
    results = [
        carillon.run(lan, jobs=jobs, progress=False, run__measure=["receivers", "nodes"], run__replications=2)
        for jobs in (1, 2)
    ]
    samples = polars.DataFrame(results[0].samples)
    assert samples.schema["receiver"] == samples.schema["node"] == polars.Int64
    latency = samples.filter(polars.col("metric") == "delivery_latency_s")
    receivers = polars.DataFrame(results[0].receivers)
    means = latency.group_by("replication", "receiver").agg(polars.col("value").mean().alias("expected"))
    joined = receivers.filter(polars.col("metric") == "delivery_latency_s").join(means, on=["replication", "receiver"])
    assert len(joined) == 2 * 5
    assert joined["mean"].to_list() == pytest.approx(joined["expected"].to_list(), rel=1e-12)
    assert set(polars.DataFrame(results[0].nodes)["node"]) == set(range(6))
    # The nodes of samples survive the way between processes.
    assert receivers.equals(polars.DataFrame(results[1].receivers))
    with pytest.raises(carillon.CarillonError, match=r"run\.measure"):
        _ = carillon.run(lan, progress=False).receivers


def test_the_seed_decides_the_losses(lan: dict[str, Any]) -> None:
    first, again, other = (carillon.run(lan, seed=seed, progress=False) for seed in (1, 1, 2))
    assert list(first.summary) == list(again.summary)
    assert list(first.summary) != list(other.summary)


def test_a_trace_has_the_events_of_the_run(lan: dict[str, Any]) -> None:
    result = carillon.run(lan, progress=False)
    trace = polars.DataFrame(result.trace())
    assert trace["time_ns"].is_sorted()
    delivered = trace.filter(polars.col("event") == "delivered")
    assert len(delivered) == 50 * 5
    assert set(delivered["message"]) == set(range(50))
    assert delivered["bytes"].null_count() == len(delivered)
    lost = trace.filter(polars.col("event") == "frame_lost")
    assert len(lost) > 0
    first = next(iter(result.trace()))
    assert first["event"] == "offered"


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_sweep_keeps_its_runs_and_resumes(lan: dict[str, Any], tmp_path: Path) -> None:
    swept = Scenario(lan).replace({"run.replications": 2000, "workload.messages": 500})
    interrupt = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        carillon.run(swept, out=tmp_path / "out", progress=False)
    interrupt.join()
    done = carillon.load(tmp_path / "out").manifest["runs_done"]
    assert 0 < done < 2000
    with pytest.raises(carillon.RunError, match="interrupted"):
        carillon.run(swept, out=tmp_path / "out", progress=False)
    pending: list[list[int]] = []

    def count(indices: list[int]) -> list[tuple[int, Any]]:
        pending.append(indices)
        return []

    with pytest.raises(carillon.Interrupted):
        carillon._carillon.run_elsewhere(swept._inner, tmp_path / "out", count, existing="resume")
    assert len(pending[0]) == 2000 - done


def test_errors_name_the_key_and_the_line(lan: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(carillon.ScenarioError, match=r"group\.receivers"):
        Scenario(lan).replace(group__receivers=0)
    with pytest.raises(carillon.ScenarioError, match="colour"):
        Scenario({**lan, "colour": "red"})
    with pytest.raises(carillon.ScenarioError, match="has no place in a scenario"):
        Scenario({**lan, "name": object()})
    file = tmp_path / "broken.toml"
    file.write_text('name = "x"\n[network]\nkind = "moon"\n')
    with pytest.raises(carillon.ScenarioError, match=r"(?s)broken\.toml.*3"):
        carillon.run(file)
    with pytest.raises(FileNotFoundError):
        carillon.run(tmp_path / "absent.toml")
    assert issubclass(carillon.ScenarioError, carillon.CarillonError)


def test_an_exception_of_the_progress_bar_ends_the_sweep(lan: dict[str, Any], tmp_path: Path) -> None:
    swept = Scenario(lan).replace({"run.replications": 200})

    def fail(done: int, runs: int) -> None:
        raise RuntimeError(f"{done} of {runs}")

    with pytest.raises(RuntimeError, match="of 200"):
        carillon._carillon.run_into(swept._inner, tmp_path / "out", progress=fail)


def test_scenarios_travel_to_other_processes(lan: dict[str, Any]) -> None:
    scenario = Scenario(lan)
    assert pickle.loads(pickle.dumps(scenario)).to_dict() == scenario.to_dict()
    assert Scenario.parse(scenario.to_toml()).to_dict() == scenario.to_dict()


def test_scenarios_take_their_files_along(lan: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "path.edges").write_text("0 1 1.0\n1 2 1.0\n")
    (tmp_path / "path.roles").write_text("nodes 3\nsource 0\nreceiver 2\n")
    document = {**lan, "network": {"kind": "graph", "topology": "path.edges"}, "group": {}}
    scenario = Scenario(document, folder=tmp_path)
    pickled = pickle.dumps(scenario)
    (tmp_path / "path.edges").unlink()
    arrived = pickle.loads(pickled)
    assert arrived.replace(workload__messages=20).to_dict()["workload"]["messages"] == 20
    assert carillon._carillon.Plan(arrived._inner).run(0)[2] == carillon._carillon.Plan(scenario._inner).run(0)[2]
    with pytest.raises(carillon.ScenarioError, match=r"cannot read .*path\.edges"):
        Scenario(document, folder=tmp_path)


def test_a_temporary_folder_goes_with_its_result(lan: dict[str, Any]) -> None:
    result = carillon.run(lan, progress=False)
    folder = result.folder
    assert folder.is_dir()
    del result
    assert not folder.exists()


def test_results_are_compared(lan: dict[str, Any]) -> None:
    more = {"run.replications": 5}
    few, many = (carillon.run(Scenario(lan).replace(more), group__receivers=n, progress=False) for n in (2, 40))
    comparison = carillon.compare(few, many)
    assert "throughput_bps" in {row["metric"] for row in comparison.apart}
    assert not carillon.compare(few, few).apart


def test_the_registry_describes_its_protocols() -> None:
    names = {protocol["name"]: protocol for protocol in carillon.protocols()}
    assert len(names) >= 23
    assert {parameter["name"] for parameter in names["pgm"]["parameters"]} > {"nak_bo_ivl"}
