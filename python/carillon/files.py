"""Delivery of files to many machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, TypeAlias

from tqdm.auto import tqdm

from carillon import _carillon
from carillon._waiting import result_of

AnyPath: TypeAlias = "str | PathLike[str]"
OnEvent: TypeAlias = "Callable[[dict[str, Any]], object]"


@dataclass(frozen=True)
class ReceiverReport:
    """Result of one receiver."""

    name: str
    """Name of the receiver."""
    address: str | None
    """Address and port."""
    outcome: str
    """`"verified"`, `"receiving"`, `"failed"`, `"lost"` or `"missing"`."""
    reason: str | None
    """Reason why the receiver does not have everything."""
    bytes: int
    """Bytes that the receiver has, by its own report."""
    repairs: int | None
    """Repairs sent while the receiver was missing data."""
    loss: float | None
    """Loss rate on the path to the receiver, from 0 to 1."""
    time_s: float | None
    """Seconds from the first message to the end of the receiver."""
    waited_s: float
    """Seconds for which the sender waited for the receiver."""


@dataclass(frozen=True)
class SendReport:
    """Result of a delivery at its sender."""

    is_success: bool
    """True if every expected or admitted receiver is verified and nothing was left out."""
    protocol: str
    """Protocol of the delivery."""
    files: int
    """Number of files."""
    bytes: int
    """Bytes of all files."""
    resumed: int
    """Bytes that every receiver had from an earlier attempt."""
    time_s: float
    """Seconds from the first message to the end of the slowest receiver."""
    goodput_bps: float
    """Bits of the files per second."""
    repairs: int
    """Data packets that were sent again."""
    datagrams_sent: int
    """Datagrams sent."""
    bytes_sent: int
    """Bytes of all datagrams."""
    sessions: int
    """Number of sessions, catch-up sessions included."""
    receivers: list[ReceiverReport]
    """Every receiver that joined or was expected by name."""
    unserved: list[dict[str, Any]]
    """Endpoints that were not served: `name`, `address`, `reason`."""
    more_unserved: int
    """Number of unserved endpoints beyond those listed."""
    more_missing: int
    """Number of receivers that did not join, if a number was expected."""
    withdrawn: list[str]
    """Files that were not delivered, because they changed or could not be read."""
    skipped: list[dict[str, Any]]
    """Entries of directories that were not sent: `path`, `reason`, `intended`."""
    failure: str | None
    """Reason why the whole delivery failed."""

    def check(self) -> SendReport:
        """Return the report, or raise `TransportError` if not every receiver has everything."""
        if self.is_success:
            return self
        lacking = [f"{one.name}: {one.reason or one.outcome}" for one in self.receivers if one.outcome != "verified"]
        raise _carillon.TransportError("; ".join(([self.failure] if self.failure else []) + lacking) or "incomplete")


@dataclass(frozen=True)
class ReceiveReport:
    """Result of a delivery at a receiver."""

    is_success: bool
    """True if everything arrived and was verified."""
    sender: str | None
    """Name of the sender; `None` if none was found."""
    failure: str | None
    """Reason why not everything arrived."""
    acknowledged: bool
    """True if the sender confirmed the result."""
    files: int
    """Files completed."""
    bytes: int
    """Bytes that arrived."""
    resumed: int
    """Bytes that were there from an earlier attempt."""
    messages: int
    """Messages of live streams."""
    time_s: float
    """Seconds from the first byte to the last one."""
    senders: list[dict[str, Any]]
    """Results of each sender: `name`, `files`, `bytes`, `failure`."""
    unstored: list[tuple[Any, str]]
    """Entries that could not be stored, each with the reason."""

    def check(self) -> ReceiveReport:
        """Return the report, or raise `TransportError` if not everything arrived."""
        if self.is_success:
            return self
        raise _carillon.TransportError(self.failure or "incomplete")


def send(
    paths: AnyPath | Iterable[AnyPath],
    *,
    expect: Iterable[str] | None = None,
    receivers: int | None = None,
    wait: float | None = None,
    join_timeout: float | None = None,
    timeout: float | None = None,
    rounds: int | None = None,
    protocol: str | None = None,
    set: Mapping[str, object] | None = None,
    rate: str | None = None,
    hops: int | None = None,
    rename: str | None = None,
    sign_key: AnyPath | None = None,
    group: str | None = None,
    interface: str | None = None,
    name: str | None = None,
    key: AnyPath | None = None,
    drop: float | None = None,
    seed: int | None = None,
    progress: bool = True,
    on_event: OnEvent | None = None,
    **options: Any,
) -> SendReport:
    """Send files and directories to every receiver of a group, and wait for the result of each.

    A receiver that does not get everything is no exception: the report lists it, and `report.check()` raises.

    Args:
        paths: Files and directories.
        expect: Names of the receivers to wait for; no others are admitted.
        receivers: Number of receivers to wait for, in place of their names.
        wait: Seconds after the first receiver has joined at which the delivery starts.
        join_timeout: Seconds to wait for receivers; a minute if not given.
        timeout: Seconds of silence after which a receiver is expelled; 5 if not given.
        rounds: Number of catch-up sessions for late and returning receivers; 3 if not given.
        protocol: Protocol, `"carillon"` if not given (`carillon.protocols()` lists them).
        set: Parameters of the protocol.
        rate: Maximum rate, such as `"100 Mbit/s"`.
        hops: Hop limit of datagrams; 1, the local network, if not given.
        rename: Name of the single file at the receivers.
        sign_key: File with a key that signs the files.
        group: Multicast group and port, such as `"239.255.67.65:7654"`.
        interface: Interface by name or address; several are separated by commas, as `"eth0,eth1"`.
        name: Name of this end; the host name if not given.
        key: File with the key that all members share; it encrypts and authenticates everything.
        drop: Share of arriving datagrams to drop, to simulate loss.
        seed: Seed of random choices.
        progress: Show a progress bar.
        on_event: Function that is called with each event, a dictionary with the key `event`.
        options: Further options of the end `send` in the reference, such as `dscp="af11"` or `min_rate="1 Mbit/s"`.

    Raises:
        TransportError: The delivery failed at this end: its files, its settings or its network.
        TypeError: There is no such option.
        ValueError: An argument is wrong.

    >>> import tempfile, threading, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "notes.txt").write_text("read by many")
    >>> here = {"group": "239.255.67.80:7801", "interface": "lo", "progress": False}
    >>> receiver = threading.Thread(target=receive, args=(folder / "incoming",), kwargs={"name": "alice", **here})
    >>> receiver.start()
    >>> report = send(folder / "notes.txt", expect=["alice"], **here)
    >>> receiver.join()
    >>> report.is_success, [one.outcome for one in report.receivers]
    (True, ['verified'])
    """
    transfer = _start_send(**_arguments(locals()))
    return _sent(_finish(transfer, "sent", progress, on_event))


async def send_async(paths: AnyPath | Iterable[AnyPath], **options: Any) -> SendReport:
    """Send files as `send` does, from a task of an event loop; cancelling the task aborts the delivery.

    Args:
        paths: Files and directories.
        options: Those of `send`, except `progress`.
    """
    on_event = options.pop("on_event", None)
    return _sent(await _finish_async(_start_send(paths=paths, **options), on_event))


def receive(
    directory: AnyPath,
    *,
    overwrite: bool = False,
    timeout: float | None = None,
    sender: str | None = None,
    trust: Iterable[AnyPath] | None = None,
    group: str | None = None,
    interface: str | None = None,
    name: str | None = None,
    key: AnyPath | None = None,
    drop: float | None = None,
    seed: int | None = None,
    progress: bool = True,
    on_event: OnEvent | None = None,
    **options: Any,
) -> ReceiveReport:
    """Receive one job into a directory.

    Args:
        directory: Folder for the files.
        overwrite: Replace files that exist.
        timeout: Seconds of silence after which the sender is given up; 5 if not given.
        sender: Name of the only sender to accept.
        trust: Files with keys; only deliveries signed with one of them are accepted.
        group: As for `send`, like the arguments that follow it.
        interface: See `send`.
        name: See `send`.
        key: See `send`.
        drop: See `send`.
        seed: See `send`.
        progress: See `send`.
        on_event: See `send`.
        options: Further options of the end `recv` in the reference, such as `source="192.0.2.1"`.

    Raises:
        TransportError: The delivery failed at this end: its files, its settings or its network.
    """
    transfer = _start_receive(**_arguments(locals()))
    return ReceiveReport(**_finish(transfer, "received", progress, on_event))


async def receive_async(directory: AnyPath, **options: Any) -> ReceiveReport:
    """Receive as `receive` does, from a task of an event loop; cancelling the task leaves the session.

    Args:
        directory: Folder for the files.
        options: Those of `receive`, except `progress`.
    """
    on_event = options.pop("on_event", None)
    return ReceiveReport(**await _finish_async(_start_receive(directory=directory, **options), on_event))


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    further: dict[str, Any] = given.pop("options")
    return {key: value for key, value in given.items() if key not in ("progress", "on_event")} | further


def options_of(given: dict[str, Any]) -> list[tuple[str, str]]:
    """Return options of the table as names and texts."""
    if given.get("expect") is not None:
        given = given | {"receivers": None}
    return [(name, text) for name, value in given.items() if value is not None for text in _texts(name, value)]


def path_or_none(path: AnyPath | None) -> str | None:
    """Return a path as text."""
    return None if path is None else fspath(path)


def _texts(name: str, value: object) -> list[str]:
    """Return the texts of a value: several if it is a mapping or a sequence."""
    if isinstance(value, Mapping):
        return [f"{key}={_setting(one)}" for key, one in value.items()]
    if isinstance(value, bool):
        return [str(int(value))]
    if isinstance(value, Iterable) and not isinstance(value, str):
        texts = [str(one) for one in value]
        if not texts:
            raise ValueError(f"{name}={value!r}: give at least one, or leave it out")
        return texts
    return [str(value)]


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _start_send(paths: AnyPath | Iterable[AnyPath], **options: Any) -> _carillon.Transfer:
    chosen = [fspath(paths)] if isinstance(paths, (str, PathLike)) else [fspath(path) for path in paths]
    own = {name: options.pop(name, None) for name in ("key", "wait", "rename", "sign_key")}
    return _carillon.start_send(chosen, options_of(options), own)


def _start_receive(directory: AnyPath, **options: Any) -> _carillon.Transfer:
    trust = options.pop("trust", None)
    own = {
        "key": options.pop("key", None),
        "overwrite": options.pop("overwrite", False),
        "sender": options.pop("sender", None),
        "trust": None if trust is None else [fspath(path) for path in trust],
    }
    return _carillon.start_receive(directory, options_of(options), own)


def _sent(report: dict[str, Any]) -> SendReport:
    return SendReport(**report | {"receivers": [ReceiverReport(**one) for one in report["receivers"]]})


def _finish(transfer: _carillon.Transfer, verb: str, progress: bool, on_event: OnEvent | None) -> dict[str, Any]:
    """Wait for the end of a transfer, below a progress bar."""
    try:
        with tqdm(desc=verb, unit="B", unit_scale=True, disable=not progress) as bar:
            while (event := transfer.event().wait()) is not None:
                if event["event"] == "progress":
                    bar.total = event["total"]
                    bar.update(event["bytes"] - bar.n)
                if on_event is not None:
                    on_event(event)
        report: dict[str, Any] = transfer.report().wait()
    except BaseException:
        transfer.abort()
        raise
    return report


async def _finish_async(transfer: _carillon.Transfer, on_event: OnEvent | None) -> dict[str, Any]:
    """Await the end of a transfer."""
    try:
        while (event := await result_of(transfer.event())) is not None:
            if on_event is not None:
                on_event(event)
        report: dict[str, Any] = await result_of(transfer.report())
    except (asyncio.CancelledError, Exception):
        transfer.abort()
        raise
    return report
