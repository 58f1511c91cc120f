"""Loss models that are written in Python."""

from typing import Any

import polars
import pytest

import carillon
from carillon import LossQuery, loss_model

STAR: dict[str, Any] = {
    "name": "loss",
    "network": {"kind": "star", "latency": "1 ms"},
    "group": {"receivers": 4},
    "protocol": {"name": "kfold", "copies": 1},
    "workload": {"messages": 400, "message_bytes": 100, "rate": "1000 packet/s"},
}


def test_a_function_decides_by_time_place_and_message() -> None:
    places: set[str] = set()

    @loss_model
    def odd_messages_of_one_receiver(packet: LossQuery) -> float:
        places.add(packet.place)
        assert packet.time_ns >= 0
        return float(packet.place == "0>2" and packet.message is not None and packet.message % 2 == 1)

    loss = [{"model": "custom", "function": "odd_messages_of_one_receiver"}]
    result = carillon.run({**STAR, "loss": loss}, progress=False)
    assert result.mean("undelivered_share") == pytest.approx(0.5 / 4)
    assert {"0>1", "0>2", "0>3", "0>4"} <= places
    delivered = polars.DataFrame(result.trace()).filter(
        (polars.col("event") == "delivered") & (polars.col("node") == 2)
    )
    assert set(delivered["message"]) == set(range(0, 400, 2))


def test_probabilities_are_drawn_from_the_seed_of_the_run() -> None:
    @loss_model
    def a_third(packet: LossQuery) -> float:
        return 1 / 3

    scenario = {**STAR, "loss": {"model": "custom", "function": "a_third"}}
    first, again, other = (
        carillon.run(scenario, seed=seed, progress=False).mean("undelivered_share") for seed in (1, 1, 2)
    )
    assert first == again != other
    # 1600 packets: the standard error is 0.012.
    assert first == pytest.approx(1 / 3, abs=0.05)


def test_an_array_has_a_row_for_each_packet() -> None:
    fates = [[packet % 4 == receiver for receiver in range(4)] for packet in range(400)]
    result = carillon.run({**STAR, "loss": {"model": "file", "file": fates}}, progress=False)
    assert result.mean("undelivered_share") == pytest.approx(0.25)


def test_mistakes_of_a_function_reach_the_caller() -> None:
    @loss_model
    def too_much(packet: LossQuery) -> float:
        return 2.0

    @loss_model
    def mistaken(packet: LossQuery) -> float:
        raise KeyError("a mistake")

    with pytest.raises(ValueError, match="returned 2"):
        carillon.run({**STAR, "loss": {"model": "custom", "function": "too_much"}}, progress=False)
    with pytest.raises(KeyError, match="a mistake"):
        carillon.run({**STAR, "loss": {"model": "custom", "function": "mistaken"}}, progress=False)
    with pytest.raises(carillon.ScenarioError, match="registered are"):
        carillon.run({**STAR, "loss": {"model": "custom", "function": "absent"}}, progress=False)
