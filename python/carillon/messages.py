"""Messages to many programs, in blocking style and with asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from carillon import _carillon
from carillon._carillon import Message
from carillon._waiting import result_of
from carillon.files import SendReport, _sent, options_of, path_or_none

DEFAULT_GROUP = "239.255.67.65:7654"
"""Group of all functions that are given none."""


@dataclass(frozen=True)
class Member:
    """A member of a session."""

    name: str
    """Name of the member."""
    address: str | None
    """Address and port, if known."""
    gone: str | None
    """Reason why the member left or was expelled."""


class Sender:
    """Open session of a sender of messages; `connect` and `connect_async` make it.

    As a context manager it closes the session at the end of the block. The report is then in `report`.
    """

    def __init__(self, outbound: _carillon.Outbound) -> None:
        self._outbound = outbound
        self.report: SendReport | None = None
        """Result of every receiver, once the session is closed."""

    def send(self, message: bytes) -> None:
        """Send a message to all receivers; waits while the send buffer is full."""
        if not self._outbound.try_send(message):
            self._outbound.send(message).wait()

    async def send_async(self, message: bytes) -> None:
        """Send a message from a task. A cancelled call sends nothing."""
        if not self._outbound.try_send(message):
            await result_of(self._outbound.send(message))

    def settle(self) -> None:
        """Wait until every receiver has acknowledged all messages."""
        self._outbound.settle().wait()

    async def settle_async(self) -> None:
        """Await the acknowledgment of all messages."""
        await result_of(self._outbound.settle())

    def members(self) -> list[Member]:
        """Return the receivers in the order of joining."""
        return [Member(*member) for member in self._outbound.members()]

    def close(self) -> SendReport:
        """End the session: wait until every receiver has everything, and return the report."""
        self.report = _sent(self._outbound.close().wait())
        return self.report

    async def close_async(self) -> SendReport:
        """End the session and await the report."""
        self.report = _sent(await result_of(self._outbound.close()))
        return self.report

    def leave(self) -> SendReport:
        """Leave at once. Messages that were not delivered are lost."""
        self.report = _sent(self._outbound.leave())
        return self.report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.report is None:
            self.close() if kind is None else self.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.report is None:
            await self.close_async() if kind is None else self.leave()


class Listener:
    """Receiver of messages; `listen` makes it.

    Iterating over it, with `for` or `async for`, gives the messages of one session after the other, until `close`.
    """

    def __init__(self, listener: _carillon.Listener, sessions: int | None) -> None:
        self._listener = listener
        self._left = sessions
        self._inbound: _carillon.Inbound | None = None
        self._closed = False

    def __iter__(self) -> Iterator[Message]:
        while not self._is_over():
            if self._inbound is None:
                self._inbound = self._listener.accept().wait()
            message = self._inbound.try_recv() or self._inbound.recv().wait()
            if message is None:
                self._end_session()
            else:
                yield message

    async def __aiter__(self) -> AsyncIterator[Message]:
        while not self._is_over():
            if self._inbound is None:
                self._inbound = await result_of(self._listener.accept())
            message = self._inbound.try_recv() or await result_of(self._inbound.recv())
            if message is None:
                self._end_session()
            else:
                yield message

    def members(self) -> list[Member]:
        """Return the members of the current session, as far as receivers learn them."""
        return [] if self._inbound is None else [Member(*member) for member in self._inbound.members()]

    def close(self) -> None:
        """Leave the current session and refuse further ones."""
        self._closed = True
        self._listener.stop()

    def _is_over(self) -> bool:
        return self._closed or self._left == 0

    def _end_session(self) -> None:
        self._inbound = None
        if self._left is not None:
            self._left -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def connect(group: str = DEFAULT_GROUP, *, history: str | None = None, **options: Any) -> Sender:
    """Open a session as its sender and wait until the receivers have joined.

    Args:
        group: Multicast group and port.
        history: Admits receivers that join late or are started again. They continue with the oldest message that
            the sender keeps: the latest ones of a size or a time, such as `"64 MiB"` or `"30 s"`, or none with
            `"0"`. Without it they are not served.
        options: `key`, and the options of the end `socket` in the reference, such as `expect`, `receivers`, `timeout`,
            `protocol`, `set`, `rate`, `interface` and `name`, as for `carillon.send`.

    Raises:
        TransportError: No receiver joined, or the network failed.

    >>> import threading
    >>> group, heard = "239.255.67.80:7802", []
    >>> listener = listen(group, interface="lo", name="alice", sessions=1)
    >>> receiver = threading.Thread(target=lambda: heard.extend(message.data for message in listener))
    >>> receiver.start()
    >>> with connect(group, interface="lo", receivers=1) as sender:
    ...     sender.send(b"one")
    ...     sender.send(b"two")
    >>> receiver.join()
    >>> heard
    [b'one', b'two']
    """
    return Sender(_connect(group, history, options).wait())


async def connect_async(group: str = DEFAULT_GROUP, *, history: str | None = None, **options: Any) -> Sender:
    """Open a session as `connect` does, from a task."""
    return Sender(await result_of(_connect(group, history, options)))


def listen(
    group: str = DEFAULT_GROUP, *, sessions: int | None = None, timeout: float | None = None, **options: Any
) -> Listener:
    """Open the sockets of a receiver of messages.

    Args:
        group: Multicast group and port.
        sessions: Number of sessions after which the iteration ends; without it, the iteration waits for the next one.
        timeout: Seconds of silence after which a sender is given up; 5 if not given.
        options: `key`, and the options of the end `recv` in the reference, such as `interface` and `name`, as for
            `carillon.receive`.

    Raises:
        TransportError: The sockets cannot be opened.

    >>> with listen("239.255.67.80:7803", interface="lo") as listener:
    ...     listener.members()
    []
    """
    key = path_or_none(options.pop("key", None))
    given = options_of({"group": group, "timeout": timeout} | options)
    return Listener(_carillon.listen(given, key), sessions)


def _connect(group: str, history: str | None, options: dict[str, Any]) -> _carillon.Task:
    key = path_or_none(options.pop("key", None))
    return _carillon.connect(options_of({"group": group, "history": history} | options), key)
