"""Deliveries over loopback, in blocking style and with asyncio."""

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import carillon

_ports = itertools.count(20000 + os.getpid() % 20000)


@pytest.fixture
def here() -> Iterator[dict[str, Any]]:
    """A group of its own on loopback."""
    return {"group": f"239.255.67.81:{next(_ports)}", "interface": "lo"}


def received(directory: Path, into: list[carillon.ReceiveReport], **options: Any) -> threading.Thread:
    thread = threading.Thread(
        target=lambda: into.append(carillon.receive(directory, progress=False, **options)), daemon=True
    )
    thread.start()
    return thread


def test_files_reach_two_receivers_through_losses(tmp_path: Path, here: dict[str, Any]) -> None:
    data = os.urandom(2_000_000)
    (tmp_path / "tree" / "inner").mkdir(parents=True)
    (tmp_path / "tree" / "inner" / "data.bin").write_bytes(data)
    reports: list[carillon.ReceiveReport] = []
    names = ["alice", "bob"]
    threads = [received(tmp_path / name, reports, name=name, drop=0.05, seed=3, **here) for name in names]
    events: list[str] = []
    report = carillon.send(
        tmp_path / "tree",
        expect=names,
        progress=False,
        on_event=lambda event: events.append(event["event"]),
        **here,
    )
    for thread in threads:
        thread.join(20)
    assert report.check().is_success
    assert {one.name: one.outcome for one in report.receivers} == {"alice": "verified", "bob": "verified"}
    assert report.repairs > 0
    assert events.count("joined") == 2
    assert "started" in events
    for name in names:
        assert (tmp_path / name / "tree" / "inner" / "data.bin").read_bytes() == data
    assert [one.bytes for one in reports] == [len(data)] * 2


def test_a_missing_receiver_is_in_the_report(tmp_path: Path, here: dict[str, Any]) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    thread = received(tmp_path / "in", [], name="alice", **here)
    report = carillon.send(tmp_path / "file", expect=["alice", "zoe"], join_timeout=1, progress=False, **here)
    thread.join(20)
    assert not report.is_success
    assert {one.name: one.outcome for one in report.receivers} == {"alice": "verified", "zoe": "missing"}
    with pytest.raises(carillon.TransportError, match="zoe: did not join"):
        report.check()


def test_errors_of_this_end_are_exceptions(tmp_path: Path, here: dict[str, Any]) -> None:
    with pytest.raises(carillon.TransportError, match="absent"):
        carillon.send(tmp_path / "absent", receivers=1, progress=False, **here)
    with pytest.raises(ValueError, match="group"):
        carillon.send(tmp_path, group="nonsense", progress=False)
    with pytest.raises(carillon.TransportError, match="no protocol"):
        carillon.send(tmp_path, protocol="pigeon", progress=False, **here)
    with pytest.raises(TypeError, match="colour"):
        carillon.connect(here["group"], colour="red")
    with pytest.raises(ValueError, match="rate"):
        carillon.send(tmp_path, rate="fast", progress=False, **here)
    with pytest.raises(ValueError, match="expect="):
        carillon.send(tmp_path, expect=[], progress=False, **here)


def test_every_option_of_the_end_is_an_argument(tmp_path: Path, here: dict[str, Any]) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    thread = received(tmp_path / "in", [], name="alice", dscp="le", **here)
    options = {"datagram": 1472, "min_rate": "0", "slow": "wait", "drop": 0.0, "all_or_nothing": True, "dscp": "af11"}
    report = carillon.send(tmp_path / "file", expect=["alice"], progress=False, **options, **here)
    thread.join(20)
    assert report.check().is_success
    with pytest.raises(ValueError, match=r'slow="away": expected wait, lane or drop'):
        carillon.send(tmp_path, slow="away", progress=False, **here)
    with pytest.raises(TypeError, match="min_rate"):
        carillon.receive(tmp_path, min_rate="0", progress=False, **here)


def test_messages_in_tasks(here: dict[str, Any]) -> None:
    group, interface = here["group"], here["interface"]
    sent = [f"{number:06}".encode() for number in range(5000)]

    async def hear(name: str) -> list[bytes]:
        async with carillon.listen(group, interface=interface, name=name, sessions=1) as listener:
            return [message.data async for message in listener]

    async def say() -> carillon.SendReport:
        async with await carillon.connect_async(group, interface=interface, expect=["alice", "bob"]) as sender:
            assert {member.name for member in sender.members()} == {"alice", "bob"}
            for message in sent:
                await sender.send_async(message)
            await sender.settle_async()
        assert sender.report is not None
        return sender.report

    async def talk() -> tuple[list[bytes], list[bytes], carillon.SendReport]:
        return await asyncio.gather(hear("alice"), hear("bob"), say())

    alice, bob, report = asyncio.run(talk())
    assert alice == sent
    assert bob == sent
    assert report.is_success


def test_files_in_tasks(tmp_path: Path, here: dict[str, Any]) -> None:
    (tmp_path / "file").write_bytes(b"y" * 100_000)

    async def deliver() -> tuple[carillon.ReceiveReport, carillon.SendReport]:
        return await asyncio.gather(
            carillon.receive_async(tmp_path / "in", name="alice", **here),
            carillon.send_async(tmp_path / "file", receivers=1, **here),
        )

    got, sent = asyncio.run(deliver())
    assert got.is_success
    assert sent.is_success
    assert (tmp_path / "in" / "file").stat().st_size == 100_000


def test_a_cancelled_task_ends_its_call(here: dict[str, Any]) -> None:
    group, interface = here["group"], here["interface"]

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(carillon.connect_async(group, interface=interface, receivers=1), 0.3)
        listener = carillon.listen(group, interface=interface)
        messages = aiter(listener)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(messages), 0.3)
        listener.close()

    asyncio.run(give_up())


def test_a_failed_block_leaves_the_session(here: dict[str, Any]) -> None:
    group, interface = here["group"], here["interface"]
    listener = carillon.listen(group, interface=interface, name="alice", sessions=1)
    errors: list[BaseException] = []

    def hear() -> None:
        try:
            list(listener)
        except carillon.TransportError as error:
            errors.append(error)

    thread = threading.Thread(target=hear, daemon=True)
    thread.start()
    sender = carillon.connect(group, interface=interface, receivers=1)
    with pytest.raises(RuntimeError, match="changed my mind"), sender:
        raise RuntimeError("changed my mind")
    thread.join(20)
    assert errors
    assert sender.report is not None
    assert not sender.report.is_success


def test_a_late_receiver_gets_the_history(here: dict[str, Any]) -> None:
    """It joins when three messages are sent, and gets the two that the sender keeps, or none without a history."""
    heard: dict[str, list[bytes]] = {"first": [], "late": []}
    joined = threading.Event()

    def listen(name: str) -> threading.Thread:
        def run() -> None:
            with carillon.listen(**here, name=name, sessions=1) as listener:
                for message in listener:
                    heard[name].append(message.data)
                    joined.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    threads = [listen("first")]
    with carillon.connect(**here, receivers=1, history="2 KiB") as sender:
        for number in range(3):
            sender.send(bytes([number]) * 1000)
        threads.append(listen("late"))
        for number in range(3, 300):
            sender.send(bytes([number % 256]) * 1000)
            time.sleep(0.01)
            if heard["late"]:
                break
    for thread in threads:
        thread.join(20)
    assert heard["first"][:3] == [bytes([number]) * 1000 for number in range(3)]
    assert heard["late"]
    late = heard["first"].index(heard["late"][0])
    assert late > 0, "it has not all"
    assert heard["late"] == heard["first"][late:]


@pytest.mark.parametrize("history", ["much", "-1", "5 parsecs"])
def test_a_wrong_history_is_named(here: dict[str, Any], history: str) -> None:
    with pytest.raises(ValueError, match="history="):
        carillon.connect(**here, receivers=1, history=history)
