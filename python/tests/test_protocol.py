"""Protocols and metrics that are written in Python."""

import itertools
import sys
from pathlib import Path
from typing import Any

import polars
import pytest

import carillon
from carillon.protocol import MS, Packet, Protocol, SenderMachine, check, register

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

from stop_and_wait import Receiver, Sender, StopAndWait


def star(of: type[Protocol], **keys: Any) -> dict[str, Any]:
    return {
        "name": "python",
        "network": {"kind": "star", "latency": "1 ms"},
        "loss": {"model": "bernoulli", "p": 0.05},
        "group": {"receivers": 10},
        "protocol": {"name": of.name},
        "workload": {"messages": 100, "message_bytes": 1000},
        **keys,
    }


def test_a_megabyte_reaches_ten_receivers() -> None:
    result = carillon.run(star(StopAndWait, workload={"messages": 1000, "message_bytes": 1000}), progress=False)
    assert result.mean("undelivered_share") == 0
    delivered = polars.DataFrame(result.trace()).filter(polars.col("event") == "delivered")
    assert len(delivered) == 10_000
    # Of ten receivers each loses 5 % of the data and 5 % of the acknowledgments.
    assert 0.4 < result.mean("retransmissions_per_message") < 2.0


def test_the_example_keeps_its_guarantee() -> None:
    check(StopAndWait, runs=10)


def test_parameters_reach_the_machines_and_are_swept() -> None:
    result = carillon.sweep(star(StopAndWait), {"protocol.timeout": ["5 ms", "80 ms"]}, progress=False)
    short, long = (result.mean("message_latency_s", protocol__timeout=time) for time in ("5 ms", "80 ms"))
    assert long > 2 * short
    with pytest.raises(carillon.ScenarioError, match="timeout"):
        carillon.run(star(StopAndWait, protocol={"name": StopAndWait.name, "timeout": "soon"}))


def test_equal_seeds_give_equal_runs() -> None:
    one, again = (carillon.run(star(StopAndWait), progress=False, jobs=jobs, seed=4) for jobs in (1, 2))
    assert list(one.trace()) == list(again.trace())


class Forgetful(Receiver):
    """Acknowledges a message without delivering it, at times."""

    def handle_datagram(self, now: int, source: int, data: bytes) -> None:
        super().handle_datagram(now, source, data)
        if self.ready and self.ready[-1][0] % 7 == 6:
            self.ready.pop()


@register
class Broken(Protocol):
    name = "python-broken"
    parameters = StopAndWait.parameters
    header_bytes = StopAndWait.header_bytes
    Sender = Sender
    Receiver = Forgetful


def test_a_protocol_that_loses_messages_is_caught() -> None:
    with pytest.raises(AssertionError, match="python-broken, seed 1"):
        check(Broken, runs=1)


class Raising(Receiver):
    def handle_datagram(self, now: int, source: int, data: bytes) -> None:
        if now > 20 * MS:
            raise KeyError("a mistake")
        super().handle_datagram(now, source, data)


@register
class Mistaken(Protocol):
    name = "python-mistaken"
    parameters = StopAndWait.parameters
    header_bytes = StopAndWait.header_bytes
    Sender = Sender
    Receiver = Raising


def test_an_exception_of_a_machine_reaches_the_caller() -> None:
    with pytest.raises(KeyError, match="a mistake") as caught:
        carillon.run(star(Mistaken), progress=False)
    assert any(entry.name == "handle_datagram" for entry in caught.traceback)
    with pytest.raises(KeyError, match="a mistake"):
        check(Mistaken, runs=1)


def test_a_class_can_be_replaced_and_a_registered_name_cannot() -> None:
    @register
    class First(Protocol):
        name = "python-replaced"
        parameters = {"timeout": "20 ms", "max_attempts": 3, "expels": True}
        Sender = Sender
        Receiver = Raising

    @register
    class Second(First):
        Receiver = Receiver
        header_bytes = StopAndWait.header_bytes

    assert First.name == Second.name
    assert carillon.run(star(Second), progress=False).mean("undelivered_share") < 0.1
    with pytest.raises(ValueError, match="pgm"):

        @register
        class Pgm(Protocol):
            name = "pgm"
            Sender = Sender
            Receiver = Receiver

    with pytest.raises(ValueError, match="wait"):

        @register
        class Odd(Protocol):
            name = "python-odd"
            parameters = {"wait": {}}  # type: ignore[dict-item]
            Sender = Sender
            Receiver = Receiver


def test_a_wrong_packet_is_an_error_of_the_machine() -> None:
    class Mute(SenderMachine):
        def offer(self, now: int, payload: bytes) -> int | None:
            return 0

        def poll_transmit(self, now: int) -> Packet | None:
            return Packet(None, b"x", None, False, None)

        def handle_datagram(self, now: int, source: int, data: bytes) -> None: ...

        def finish(self, now: int) -> None: ...

        def is_finished(self) -> bool:
            return True

    @register
    class Wrong(Protocol):
        name = "python-wrong"
        Sender = Mute
        Receiver = Receiver

    with pytest.raises(ValueError, match="a packet has a message"):
        carillon.run(star(Wrong), progress=False)


def test_metrics_of_the_caller_stand_beside_the_others(tmp_path: Path) -> None:
    def acks(trace: carillon.Table) -> float:
        events = polars.DataFrame(trace)
        return len(events.filter((polars.col("event") == "control_sent") & (polars.col("packet") == "ack")))

    def gaps(trace: carillon.Table) -> list[float]:
        times = polars.DataFrame(trace).filter(polars.col("event") == "sent")["time_ns"]
        return [(later - earlier) / 1e9 for earlier, later in itertools.pairwise(times)]

    scenario = star(StopAndWait, run={"replications": 3})
    result = carillon.run(scenario, progress=False, metrics={"acks": acks, "gap_s": gaps}, out=tmp_path / "own")
    # Each of ten receivers acknowledges each of 100 messages, and again each repetition that it receives.
    assert 1000 < result.mean("acks") < 3000
    samples = polars.DataFrame(result.samples).filter(polars.col("metric") == "gap_s")
    assert len(samples) == 3 * 99
    plain = carillon.run(scenario, progress=False)
    assert result.mean("message_latency_s") == plain.mean("message_latency_s")
    with pytest.raises(ValueError, match="registered metric"):
        carillon.run(scenario, progress=False, metrics={"throughput_bps": acks})
    with pytest.raises(ValueError, match="lower-case"):
        carillon.run(scenario, progress=False, metrics={"Acks!": acks})


def test_an_exception_of_a_metric_keeps_the_finished_runs(tmp_path: Path) -> None:
    calls: list[int] = []

    def third_time(trace: carillon.Table) -> float:
        calls.append(len(trace))
        if len(calls) == 3:
            raise ZeroDivisionError
        return len(trace)

    scenario = star(StopAndWait, run={"replications": 6})
    with pytest.raises(ZeroDivisionError):
        carillon.run(scenario, progress=False, jobs=1, metrics={"events": third_time}, out=tmp_path / "out")
    assert carillon.load(tmp_path / "out").manifest["runs_done"] == 2
    result = carillon.run(
        scenario, progress=False, metrics={"events": third_time}, out=tmp_path / "out", existing="resume"
    )
    assert 6 <= len(calls) <= 8
    assert len(result.runs["metric"]) == 6 * len(set(result.runs["metric"]))
