"""Protocols written in Python, for teaching and prototypes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from carillon import _carillon

US = 1_000
"""Nanoseconds in a microsecond."""
MS = 1_000_000
"""Nanoseconds in a millisecond."""
S = 1_000_000_000
"""Nanoseconds in a second."""


@dataclass(frozen=True)
class Context:
    """Place of a machine in its group."""

    node: int
    """Number of the machine's node."""
    sender: int
    """Number of the sender's node."""
    members: tuple[int, ...]
    """Numbers of the receivers, in ascending order; empty at a receiver that does not know the others."""
    settings: dict[str, Any]
    """Values of the protocol's parameters; a time is a number of nanoseconds."""
    random: random.Random
    """Random numbers of this node, determined by the seed of the run."""
    max_payload: int
    """Maximum bytes of a message."""


class Packet(NamedTuple):
    """A datagram to send; `Machine.data` and `Machine.control` make it."""

    to: int | None
    """Number of a node; `None` is the group."""
    bytes: bytes
    """Contents of the datagram."""
    message: int | None
    """Number of the message that it carries or concerns."""
    is_repair: bool
    """True if the message was sent before."""
    control: str | None
    """Name of a packet that carries no message."""


class Machine:
    """State machine of one role at one node. It does no I/O: the simulator calls these methods.

    Times are integers, in nanoseconds since the start of the run. After each call the simulator asks `poll_transmit`
    until it returns `None`, then `poll_timeout`. After `handle_timeout` the next timeout must be later than `now`.
    """

    def __init__(self, context: Context) -> None:
        """Keep the context. A subclass that overrides this method calls it first."""
        self.context = context
        self.events: list[tuple[Any, ...]] = []

    def start(self, now: int) -> None:
        """Begin; called once, before all other calls."""

    def handle_datagram(self, now: int, source: int, data: bytes) -> None:
        """Handle a received datagram. Any bytes may arrive: `dropped("malformed")` records those that make no sense."""
        raise NotImplementedError

    def handle_timeout(self, now: int) -> None:
        """Do what is due at `now`."""

    def poll_timeout(self) -> int | None:
        """Return the time of the next call of `handle_timeout`; `None` if there is none."""
        return None

    def poll_transmit(self, now: int) -> Packet | None:
        """Return the next datagram; `None` if there is nothing to send."""
        return None

    def data(self, message: int, data: bytes, *, repair: bool = False, to: int | None = None) -> Packet:
        """Make a datagram that carries a message of this node, for the group or for one node."""
        return Packet(to, data, message, repair, None)

    def control(self, name: str, data: bytes, *, message: int = 0, to: int | None = None) -> Packet:
        """Make a datagram that carries no message, such as an acknowledgment, for the group or for one node."""
        return Packet(to, data, message, False, name)

    def received(self, packet: str, message: int = 0) -> None:
        """Record that a packet of this name was received, and the message that it concerns."""
        self.events.append(("received", packet, message))

    def dropped(self, reason: str) -> None:
        """Record that a packet was discarded, such as for `"malformed"`, `"duplicate"` or `"out_of_window"`."""
        self.events.append(("dropped", reason))

    def timer_fired(self, timer: str) -> None:
        """Record that the timer of this name has fired."""
        self.events.append(("timer_fired", timer))


class SenderMachine(Machine):
    """Machine of the sender."""

    def offer(self, now: int, payload: bytes) -> int | None:
        """Take the next message and return its number, from 0 on; `None` if the buffer is full.

        The simulator offers nothing after `finish`.
        """
        raise NotImplementedError

    def finish(self, now: int) -> None:
        """Note that no more messages will be offered."""
        raise NotImplementedError

    def is_finished(self) -> bool:
        """Return true when, after `finish`, everything offered has completed."""
        raise NotImplementedError

    def expel(self, now: int, member: int) -> None:
        """Remove a member: no message waits for it any longer."""

    def completed(self, message: int, *, acknowledged: bool = True, window: int = 1) -> None:
        """Record that the sender is done with a message: every member acknowledged it, or the sender gave it up."""
        self.events.append(("completed", message, int(acknowledged), window))

    def repair_needed(self, member: int, messages: int = 1) -> None:
        """Record that messages are sent again because this member has not acknowledged them."""
        self.events.append(("repair_needed", member, messages))

    def member_lost(self, member: int) -> None:
        """Record that the sender expels a member."""
        self.events.append(("member_lost", member))


class ReceiverMachine(Machine):
    """Machine of a receiver."""

    def poll_delivery(self) -> tuple[int, bytes] | None:
        """Return number and payload of the next message for the application; `None` if there is none."""
        raise NotImplementedError

    def loss_found(self, message: int) -> None:
        """Record that a message was found missing."""
        self.events.append(("loss_found", message))

    def requested(self, message: int) -> None:
        """Record that this node requests a missing message."""
        self.events.append(("requested", message))

    def loss_repaired(self, message: int) -> None:
        """Record that a missing message was received as a repair."""
        self.events.append(("loss_repaired", message))

    def loss_final(self, message: int) -> None:
        """Record that this node gives up a missing message."""
        self.events.append(("loss_final", message))


class Protocol:
    """Description of a protocol; `register` makes it known to scenarios.

    A subclass states these attributes. An acknowledged protocol gives up a member, or a message, after some attempts.
    The conformance tests set its parameters `max_attempts` (an integer) and `expels` (a boolean: members are given up,
    and not messages), if it has them. The kind of a parameter follows from its default: an integer, a boolean, a
    probability (`float`), a time (`"20 ms"`), or a choice (a list of words with the default first).

    >>> @register
    ... class Once(Protocol):
    ...     name = "python-once"
    ...     guarantee = "best-effort"
    ...
    ...     class Sender(SenderMachine):
    ...         def __init__(self, context):
    ...             super().__init__(context)
    ...             self.waiting, self.offered, self.done = [], 0, False
    ...         def offer(self, now, payload):
    ...             self.waiting.append((self.offered, payload))
    ...             self.offered += 1
    ...             return self.offered - 1
    ...         def poll_transmit(self, now):
    ...             if not self.waiting:
    ...                 return None
    ...             number, payload = self.waiting.pop(0)
    ...             return self.data(number, number.to_bytes(8) + payload)
    ...         def handle_datagram(self, now, source, data):
    ...             self.dropped("malformed")
    ...         def finish(self, now):
    ...             self.done = True
    ...         def is_finished(self):
    ...             return self.done and not self.waiting
    ...
    ...     class Receiver(ReceiverMachine):
    ...         def __init__(self, context):
    ...             super().__init__(context)
    ...             self.ready, self.next = [], 0
    ...         def handle_datagram(self, now, source, data):
    ...             number = int.from_bytes(data[:8])
    ...             if number < self.next:
    ...                 return self.dropped("duplicate")
    ...             self.received("data", number)
    ...             for lost in range(self.next, number):
    ...                 self.loss_final(lost)
    ...             self.next = number + 1
    ...             self.ready.append((number, data[8:]))
    ...         def poll_delivery(self):
    ...             return self.ready.pop(0) if self.ready else None
    >>> check(Once, runs=3)
    """

    name: ClassVar[str]
    """Name in scenarios."""
    summary: ClassVar[str] = "protocol written in Python"
    """Summary in one line."""
    guarantee: ClassVar[str] = "acknowledged"
    """`"acknowledged"`: every live receiver gets everything and the sender learns it; or `"best-effort"`."""
    header_bytes: ClassVar[int] = 8
    """Bytes that data packets add to a message."""
    parameters: ClassVar[dict[str, int | bool | float | str | Sequence[str]]] = {}
    """Parameters with their defaults."""
    Sender: ClassVar[Callable[[Context], SenderMachine]]
    """Class of the sender's machine."""
    Receiver: ClassVar[Callable[[Context], ReceiverMachine]]
    """Class of the receivers' machine."""

    @classmethod
    def build(
        cls,
        role: str,
        node: int,
        sender: int,
        members: list[int],
        settings: dict[str, Any],
        seed: int,
        max_payload: int,
    ) -> Machine:
        """Build the machine of a role; the simulator calls this for each node."""
        context = Context(node, sender, tuple(members), settings, random.Random(seed), max_payload)
        return cls.Sender(context) if role == "sender" else cls.Receiver(context)


_registered: dict[str, type[Protocol]] = {}
ProtocolClass = TypeVar("ProtocolClass", bound=type[Protocol])


def register(protocol: ProtocolClass) -> ProtocolClass:
    """Make a protocol class known to scenarios under its name. It may be used as a decorator.

    A class of the same name that was registered before is replaced.

    Raises:
        ValueError: The name is taken by a protocol of the registry, or a parameter has no valid default.
    """
    _carillon.register(protocol, _Description(protocol))
    _registered[protocol.name] = protocol
    return protocol


def python_protocols() -> dict[str, type[Protocol]]:
    """Return the protocols that are written in Python, by their names."""
    return dict(_registered)


def check(protocol: type[Protocol], *, runs: int = 20) -> None:
    """Hold a registered protocol to its guarantee with the conformance tests of the registry.

    Groups, losses and settings of the network are random.

    Args:
        protocol: A class that was registered.
        runs: Number of seeds; each of them runs every test once.

    Raises:
        AssertionError: The protocol violates its guarantee, or the contract of a machine; the message has the seed.
        Exception: A machine raised it.
    """
    _carillon.check_protocol(protocol.name, runs)


class _Description:
    """Attributes of a protocol class in the form in which the extension module reads them."""

    def __init__(self, protocol: type[Protocol]) -> None:
        self.name = protocol.name
        self.summary = protocol.summary
        self.guarantee = protocol.guarantee
        self.header_bytes = protocol.header_bytes
        self.parameter_list = [(name, *_kind(name, default)) for name, default in protocol.parameters.items()]


def _kind(name: str, default: object) -> tuple[str, str, list[str]]:
    """Kind of a parameter, its default as text, and the words of a choice."""
    match default:
        case bool():
            return "switch", str(default).lower(), []
        case int():
            return "count", str(default), []
        case float():
            return "probability", str(default), []
        case str():
            return "span", default, []
        case [str(first), *_]:
            return "choice", first, [str(word) for word in default]
        case _:
            raise ValueError(
                f"parameter {name}: {default!r} is no integer, boolean, probability, time or list of words"
            )
