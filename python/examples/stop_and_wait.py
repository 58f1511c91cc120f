"""Stop-and-wait multicast in Python: the sender repeats a message until every receiver has acknowledged it."""

from __future__ import annotations

import struct

from carillon.protocol import Context, Packet, Protocol, ReceiverMachine, SenderMachine, register

DATA, ACK = 1, 2
HEADER = struct.Struct("!BQ")


class Sender(SenderMachine):
    """Sends one message after the other."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.members = set(context.members)
        self.number = -1
        self.payload: bytes | None = None
        self.missing: set[int] = set()
        self.is_due = False
        self.is_repair = False
        self.attempts = 0
        self.deadline: int | None = None
        self.is_ending = False

    def offer(self, now: int, payload: bytes) -> int | None:
        if self.payload is not None:
            return None
        self.number += 1
        self.payload, self.missing = payload, set(self.members)
        self.is_due, self.is_repair, self.attempts = True, False, 0
        return self.number

    def poll_transmit(self, now: int) -> Packet | None:
        if self.payload is None or not self.is_due:
            return None
        self.is_due = False
        self.deadline = now + self.context.settings["timeout"]
        data = HEADER.pack(DATA, self.number) + self.payload
        return self.data(self.number, data, repair=self.is_repair)

    def handle_datagram(self, now: int, source: int, data: bytes) -> None:
        if len(data) != HEADER.size or data[0] != ACK:
            return self.dropped("malformed")
        _, number = HEADER.unpack(data)
        if source not in self.members:
            return self.dropped("not_a_member")
        if self.payload is None or number != self.number or source not in self.missing:
            return self.dropped("out_of_window")
        self.received("ack", number)
        self.missing.discard(source)
        self._complete_if_acknowledged()
        return None

    def poll_timeout(self) -> int | None:
        return self.deadline

    def handle_timeout(self, now: int) -> None:
        if self.deadline is None or now < self.deadline:
            return
        self.timer_fired("retransmission")
        self.deadline, self.is_due, self.is_repair = None, True, True
        self.attempts += 1
        if self.attempts > self.context.settings["max_attempts"]:
            self._give_up()
            return
        for member in sorted(self.missing):
            self.repair_needed(member)

    def _give_up(self) -> None:
        """Give up the members that do not answer, or the message."""
        is_acknowledged = self.context.settings["expels"]
        if is_acknowledged:
            for member in sorted(self.missing):
                self.member_lost(member)
                self.members.discard(member)
        self.missing.clear()
        self._complete_if_acknowledged(is_acknowledged)

    def expel(self, now: int, member: int) -> None:
        self.members.discard(member)
        self.missing.discard(member)
        self._complete_if_acknowledged()

    def finish(self, now: int) -> None:
        self.is_ending = True

    def is_finished(self) -> bool:
        return self.is_ending and self.payload is None

    def _complete_if_acknowledged(self, is_acknowledged: bool = True) -> None:
        if self.payload is not None and not self.missing:
            self.completed(self.number, acknowledged=is_acknowledged)
            self.payload, self.deadline, self.is_due = None, None, False


class Receiver(ReceiverMachine):
    """Acknowledges each message, also one that it has already."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.expected = 0
        self.ready: list[tuple[int, bytes]] = []
        self.acks: list[int] = []

    def handle_datagram(self, now: int, source: int, data: bytes) -> None:
        if len(data) < HEADER.size or data[0] != DATA:
            return self.dropped("malformed")
        _, number = HEADER.unpack_from(data)
        if source != self.context.sender or number > self.expected:
            return self.dropped("out_of_window")
        self.acks.append(number)
        if number < self.expected:
            return self.dropped("duplicate")
        self.received("data", number)
        self.expected += 1
        self.ready.append((number, data[HEADER.size :]))
        return None

    def poll_transmit(self, now: int) -> Packet | None:
        if not self.acks:
            return None
        number = self.acks.pop(0)
        return self.control("ack", HEADER.pack(ACK, number), message=number, to=self.context.sender)

    def poll_delivery(self) -> tuple[int, bytes] | None:
        return self.ready.pop(0) if self.ready else None


@register
class StopAndWait(Protocol):
    """Stop-and-wait with acknowledgments from every receiver."""

    name = "python-stop-and-wait"
    summary = "stop-and-wait with acknowledgments from every receiver"
    header_bytes = HEADER.size
    parameters = {"timeout": "20 ms", "max_attempts": 100, "expels": True}
    Sender = Sender
    Receiver = Receiver
