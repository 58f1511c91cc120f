"""Code shared by the benchmarks of deliveries: cells and their networks, processes in hosts, files, packages.

A cell is called r<receivers>-l<loss in %>-d<delay each way in ms>, and may end with -up<Mbit/s> (so much leaves the
sender's port), -port<Mbit/s> (so much goes through each receiver's port) or -slow<Mbit/s> (only through the first
receiver's). Loss is independent at each receiver's port, of what arrives there. The receivers' interfaces join frames (GRO),
as those of Linux do; with -nogro at the end they do not.
"""

from __future__ import annotations

import filecmp
import fnmatch
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from typing import NamedTuple

from networks import Network


class Cell(NamedTuple):
    name: str
    receivers: int
    loss: float
    delay: float
    up: float
    port: float
    slow: float
    gro: bool

    @staticmethod
    def parse(name: str) -> "Cell":
        """What a name says; ValueError if it is none."""
        number = r"(\d+(?:\.\d+)?)"
        form = rf"r(\d+)-l{number}-d{number}(?:-up{number})?(?:-port{number})?(?:-slow{number})?(-nogro)?"
        found = re.fullmatch(form, name)
        if not found:
            raise ValueError(f"{name!r} is no cell; they are called like r4-l5-d10 or r5-l0-d0-slow50")
        receivers, *rest, nogro = found.groups()
        return Cell(name, int(receivers), *(float(value or 0) for value in rest), gro=not nogro)

    @property
    def fast(self) -> bool:
        """Whether nothing slows it down or loses anything."""
        return not (self.loss or self.delay or self.up or self.port or self.slow)

    def network(self, more: int = 0) -> Network:
        """Its network, with `more` hosts beside the receivers; nothing is lost and slowed down yet."""
        return Network(self.receivers + more, self.delay, self.gro)

    def impair(self, net: Network) -> None:
        """Losses and rates of its ports; the delay is made with the network."""
        for name in net.receivers:
            net.lose(name, self.loss / 100)
            if self.port:
                net.rate_in(name, self.port)
        if self.slow:
            net.rate_in("r1", self.slow)
        if self.up:
            net.rate_out("s", self.up)


def matching(wanted: str, known: list[str]) -> list[str]:
    """Those of the known names that patterns with commas between them match, and what else is named."""
    patterns = wanted.split(",")
    names = [name for name in known if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    return names + [name for name in patterns if name not in names and not any(c in name for c in "*?[")]


def chosen(wanted: str, known: list[str]) -> list[Cell]:
    """The cells of these names."""
    return [Cell.parse(name) for name in matching(wanted, known)]


class Started:
    """A process in a host, its output in a file; its end, and what it took, noted when it comes."""

    def __init__(
        self, net: Network, host: str, command: list[str], log: str, env: dict[str, str] | None = None
    ) -> None:
        self.log = log
        with open(log, "w") as out:
            self.begin = time.monotonic()
            self.process = subprocess.Popen(
                [*net.inside(host), *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
            )
        self.end = 0.0
        self.usage: resource.struct_rusage | None = None
        self.waiter = threading.Thread(target=self._wait, daemon=True)
        self.waiter.start()

    def _wait(self) -> None:
        _, status, self.usage = os.wait4(self.process.pid, 0)
        self.end = time.monotonic()
        self.process.returncode = os.waitstatus_to_exitcode(status)

    @property
    def ended(self) -> bool:
        return not self.waiter.is_alive()

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.process.returncode if self.ended else None

    @property
    def cpu(self) -> float:
        """Processor seconds, once it has ended, of it and of what it has waited for."""
        return self.usage.ru_utime + self.usage.ru_stime if self.usage else 0.0

    def ended_by(self, deadline: float) -> bool:
        self.waiter.join(max(0.0, deadline - time.monotonic()))
        return self.ended

    def signal(self, number: int) -> None:
        try:
            if not self.ended:
                os.kill(self.process.pid, number)
        except ProcessLookupError:
            # It has just ended.
            pass

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            self.waiter.join(3)

    def text(self) -> str:
        with open(self.log, errors="replace") as text:
            return text.read()

    def lines(self) -> list[str]:
        return [line.strip() for line in self.text().splitlines() if line.strip()]


def random_file(path: str, size: int) -> str:
    """Makes a file that cannot be compressed, unless it is there."""
    if not os.path.exists(path):
        with open(path, "wb") as out:
            for start in range(0, size, 1 << 20):
                out.write(os.urandom(min(1 << 20, size - start)))
    return path


def same(file: str, copy: str) -> bool:
    """Whether there is a copy, and every byte is the file's."""
    return os.path.exists(copy) and filecmp.cmp(file, copy, shallow=False)


def fresh(folder: str, names: list[str]) -> dict[str, str]:
    """An empty directory for each name."""
    places = {name: os.path.join(folder, name) for name in names}
    for place in places.values():
        shutil.rmtree(place, ignore_errors=True)
        os.mkdir(place)
    return places


def install(*packages: str) -> None:
    """Installs Debian packages if this is root; whoever needs them looks whether they are there."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", *packages]):
        subprocess.run(["apt-get", *command], env=env, capture_output=True, check=False)


def memory() -> str | None:
    """Where files are in memory; None if that is nowhere."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None
