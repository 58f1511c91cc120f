"""Loss models written in Python: functions of a packet, and arrays of fates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from carillon import _carillon


@dataclass(frozen=True)
class LossQuery:
    """A packet about which a loss model decides."""

    time_ns: int
    """Time of the packet at this place, in nanoseconds."""
    place: str
    """Link and direction, such as `"3>7"`, or the number of the node that receives the packet."""
    number: int
    """Number of the packet at this place, from 0."""
    message: int | None
    """Number of its message if this is the first transmission; `None` for repairs and control packets."""


LossFunction = TypeVar("LossFunction", bound=Callable[[LossQuery], float])


def loss_model(function: LossFunction) -> LossFunction:
    """Make a function known to scenarios as a loss model, under its own name; to be used as a decorator.

    The function returns the probability, from 0 to 1, with which the packet is lost. It must depend on its argument
    alone, or runs cannot be repeated. A section of the scenario names it:

    >>> @loss_model
    ... def second_half(packet):
    ...     return 0.5 if packet.time_ns > 500_000_000 else 0.0
    >>> scenario = {
    ...     "name": "loss",
    ...     "network": {"kind": "star", "latency": "1 ms"},
    ...     "loss": {"model": "custom", "function": "second_half"},
    ...     "group": {"receivers": 3},
    ...     "protocol": {"name": "kfold", "copies": 1},
    ...     "workload": {"messages": 100, "message_bytes": 100, "rate": "100 packet/s"},
    ... }
    >>> import carillon
    >>> 0.1 < carillon.run(scenario, progress=False).mean("undelivered_share") < 0.4
    True
    """

    def decide(time_ns: int, place: str, number: int, message: int | None) -> float:
        return function(LossQuery(time_ns, place, number, message))

    _carillon.register_loss_model(function.__name__, decide)
    return function


def named_fates(section: Mapping[str, Any], files: dict[str, bytes]) -> dict[str, Any]:
    """Replace an array of fates in a loss section by the name of a file, and add its contents to the files."""
    fates = section.get("file")
    if fates is None or isinstance(fates, str):
        return dict(section)
    content = b"".join(_row(row) for row in fates)
    name = f"loss-{hashlib.blake2b(content, digest_size=8).hexdigest()}.txt"
    files[name] = content
    return {**section, "file": name}


def _row(row: Iterable[object]) -> bytes:
    """Return a row of a loss file: a digit for each receiver."""
    return bytes(b"1"[0] if lost else b"0"[0] for lost in row) + b"\n"


def is_custom(document: Mapping[str, Any]) -> bool:
    """Return true if a scenario has a loss model of the program."""
    loss = document.get("loss", {})
    sections = [loss] if isinstance(loss, Mapping) else loss
    return any(isinstance(section, Mapping) and section.get("model") == "custom" for section in sections)
