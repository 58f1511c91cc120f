#!/usr/bin/env python3
"""Plain sessions with programs that know nothing of Carillon: OpenPGM, ZeroMQ on epgm:// and norm://, NORM of the Naval
Research Laboratory (NRL), and the crate `flute`, in both directions.

Each cell sends a file between network namespaces, with losses in both directions at each receiver, and compares every
byte. A cell fails if bytes differ, if a program aborts or reports a reset, or if a command does not end in time. With
--runs N each cell is run N times, and --quick runs a few cells of each program. A filter selects cells by a part of
their names.

Needs root, nft, the libraries of Debian's libpgm-dev, libzmq3-dev and libnorm-dev, which it installs, and the example
flute_peer of carillon-transfer. A program that is missing is named, and its cells are left out; the result is then 1 if
CARILLON_REQUIRE_NETWORK is set.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "peers")]

import deliveries
import networks
import programs

GROUP = "239.77.6.6"
LOSSES = (0, 0.01, 0.05)
SIZES = (0, 1, 100_000, 10_000_000)
# Bytes a second of every sender: well within what two processors and these losses allow.
RATE = 2_500_000
QUIET = 4
# Networks are made one at a time.
BUILDING = threading.Lock()
LINGER = 5


def limit(size: int) -> float:
    """Seconds after which a command counts as one that does not end."""
    return 60 + 4 * size / RATE


class Failed(Exception):
    """Why a cell has failed."""


class Cell:
    """One transfer: a network, the file, and the processes in it."""

    def __init__(self, carillon: str, folder: str, loss: float, size: int, receivers: int) -> None:
        self.carillon, self.folder, self.loss, self.size = carillon, folder, loss, size
        self.network = networks.Network(receivers)
        for host in self.network.receivers:
            for hook in ("ingress", "egress"):
                self.network.lose(host, loss, hook)
        self.file = os.path.join(folder, "file")
        with open(self.file, "wb") as file:
            file.write(random.Random(size).randbytes(size))
        self.started: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, host: str, *command: object) -> None:
        log = open(self.path(host, "log"), "wb")
        words = [*self.network.inside(host), *(str(word) for word in command)]
        self.started.append((host, subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)))

    def path(self, host: str, name: str) -> str:
        return os.path.join(self.folder, f"{host}-{name}")

    def log(self, host: str) -> str:
        with open(self.path(host, "log"), errors="replace") as file:
            return file.read()

    def await_ready(self, word: str) -> None:
        for host in self.network.receivers:
            self.await_word(host, word, 20)

    def await_word(self, host: str, word: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while word not in self.log(host):
            if time.monotonic() > end:
                raise Failed(f"{host} does not say {word}: {self.log(host)[-300:]}")
            time.sleep(0.05)

    def stop(self, *stopped: str) -> None:
        """Ends the programs of hosts that have no end of their own."""
        for host, process in self.started:
            if host in stopped:
                process.terminate()

    def await_ends(self, allowed: tuple[int, ...] = (0,), of: str | None = None) -> None:
        end = time.monotonic() + limit(self.size)
        for host, process in (one for one in self.started if of in (None, one[0])):
            try:
                code = process.wait(max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                raise Failed(f"{host} does not end: {self.log(host)[-300:]}") from None
            if code not in allowed:
                raise Failed(f"{host} ended with {code}: {self.log(host)[-300:]}")

    def compare(self, host: str, path: str) -> None:
        with open(self.file, "rb") as one, open(path, "rb") as other:
            sent, came = one.read(), other.read()
        if sent != came:
            raise Failed(f"{host} has {len(came)} bytes instead of {len(sent)}, or others: {self.log(host)[-300:]}")

    def __enter__(self) -> "Cell":
        return self

    def __exit__(self, *_: object) -> None:
        self.network.close()


def carillon_sends(cell: Cell, port: int, *more: object) -> None:
    options = ["--group", f"{GROUP}:{port}", "--interface", "eth0", "--rate", f"{RATE * 8} bit/s"]
    options += ["--set", f"txw_secs={LINGER} s", *more]
    cell.start("s", cell.carillon, "send", cell.file, "--plain", *options)


def carillon_receives(cell: Cell, port: int, *more: object) -> None:
    for host in cell.network.receivers:
        options = ["--group", f"{GROUP}:{port}", "--interface", "eth0", "--out", cell.path(host, "in"), "--timeout", 8]
        cell.start(host, cell.carillon, "recv", "--plain", *options, *more)
    # It says nothing before a source is there, and joins at once.
    time.sleep(1)


def received_file(cell: Cell, host: str, complete: bool) -> str:
    """The one file that a receiver of Carillon has written."""
    folder = cell.path(host, "in")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    if len(names) != 1 or complete and names[0].endswith(".part"):
        raise Failed(f"{host} has the files {names}: {cell.log(host)[-300:]}")
    return os.path.join(folder, names[0])


def to_openpgm(cell: Cell, peer: str) -> None:
    for host in cell.network.receivers:
        address = cell.network.address(host)
        cell.start(host, peer, "recv", cell.path(host, "out"), address, GROUP, QUIET)
    cell.await_ready("READY")
    carillon_sends(cell, 3055)
    cell.await_ends()
    for host in cell.network.receivers:
        numbers = programs.said(cell.log(host), "DONE")
        if not numbers or numbers[2]:
            raise Failed(f"{host} reports resets: {cell.log(host)[-300:]}")
        cell.compare(host, cell.path(host, "out"))


def from_openpgm(cell: Cell, peer: str, message: int = 1424) -> None:
    carillon_receives(cell, 3055)
    cell.start("s", peer, "send", cell.file, cell.network.address("s"), GROUP, message, RATE, LINGER, 1)
    cell.await_ends()
    for host in cell.network.receivers:
        cell.compare(host, received_file(cell, host, complete=True))


def to_zeromq(cell: Cell, peer: str) -> None:
    for host in cell.network.receivers:
        endpoint = f"epgm://{cell.network.address(host)};{GROUP}:5555"
        cell.start(host, peer, "recv", cell.path(host, "out"), endpoint, QUIET)
    cell.await_ready("READY")
    time.sleep(0.5)
    carillon_sends(cell, 5555, "--framing", "zeromq")
    cell.await_ends()
    for host in cell.network.receivers:
        cell.compare(host, cell.path(host, "out"))


def from_zeromq(cell: Cell, peer: str, message: int = 1000) -> None:
    carillon_receives(cell, 5555, "--framing", "zeromq")
    endpoint = f"epgm://{cell.network.address('s')};{GROUP}:5555"
    cell.start("s", peer, "send", cell.file, endpoint, message, round(message / RATE * 1e6), LINGER)
    # A publisher that closes may announce no end.
    cell.await_ends((0, 1))
    for host in cell.network.receivers:
        cell.compare(host, received_file(cell, host, complete=False))


def to_zeromq_beside_sessions(cell: Cell, peer: str) -> None:
    """Guard: what Carillon sends otherwise on the bus of ZeroMQ subscribers does not abort them."""
    host = cell.network.receivers[0]
    endpoint = f"epgm://{cell.network.address(host)};{GROUP}:5555"
    cell.start(host, peer, "recv", cell.path(host, "out"), endpoint, QUIET)
    cell.await_ready("READY")
    bus = ["--group", f"{GROUP}:5555", "--interface", "eth0"]
    inside = cell.network.inside("s")
    for options in (["--plain"], ["--protocol", "pgm", "--receivers", "1"]):
        options += ["--set", "dport=5555"]
        command = [*inside, cell.carillon, "send", cell.file, *bus, *options]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if refused.returncode == 0 or "ZeroMQ subscribers would abort" not in refused.stderr:
            raise Failed(f"{options} is not refused: {refused.stderr[-300:]}")
    receiver = [*inside, cell.carillon, "recv", *bus, "--out", cell.path("s", "in")]
    for protocol in ("pgm", "carillon"):
        with subprocess.Popen([*receiver, "--overwrite"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as there:
            command = [*inside, cell.carillon, "send", cell.file, *bus, "--protocol", protocol, "--receivers", "1"]
            sent = subprocess.run(command, capture_output=True, text=True, timeout=120)
            there.wait(60)
        if sent.returncode:
            raise Failed(f"a session by {protocol}: {sent.stderr[-300:]}")
    carillon_sends(cell, 5555, "--framing", "zeromq")
    cell.await_ends()
    cell.compare(host, cell.path(host, "out"))


def carillon_files(cell: Cell, protocol: str, group: str, *more: object) -> None:
    """Carillon sends the file under its name."""
    options = ["--protocol", protocol, "--group", group, "--interface", "eth0", "--rate", f"{RATE * 8} bit/s", *more]
    cell.start("s", cell.carillon, "send", "--plain", *options, cell.file)


def carillon_receives_files(cell: Cell, protocol: str, group: str, settings: dict[str, list[str]]) -> None:
    for host in cell.network.receivers:
        options = ["--protocol", protocol, "--group", group, "--interface", "eth0", "--out", cell.path(host, "in")]
        cell.start(host, cell.carillon, "recv", "--plain", *options, "--timeout", 20, *settings.get(host, []))
    # It says nothing before a source is there, and joins at once.
    time.sleep(1)


# The program of NRL has a group and nodes of its own.
NORM_GROUP = "239.5.5.5:6003"
FIRST_NODE = 11


def norm_nodes(cell: Cell) -> list[tuple[str, int]]:
    return [(host, FIRST_NODE + number) for number, host in enumerate(cell.network.receivers)]


def end_norm(cell: Cell) -> None:
    """Ends the receivers once they have everything. They acknowledge until the sender ends."""
    for host, _ in norm_nodes(cell):
        cell.await_word(host, "DONE", limit(cell.size))
    cell.await_ends(of="s")
    cell.stop(*cell.network.receivers)
    cell.await_ends()


def to_norm(cell: Cell, peer: str, *more: object) -> None:
    for host, node in norm_nodes(cell):
        os.mkdir(cell.path(host, "in"))
        cell.start(host, peer, "recv", os.path.join(cell.path(host, "in"), "file"), node)
    cell.await_ready("READY")
    carillon_files(cell, "norm", NORM_GROUP, *more)
    end_norm(cell)
    for host, _ in norm_nodes(cell):
        cell.compare(host, os.path.join(cell.path(host, "in"), "file"))


def to_norm_controlled(cell: Cell, peer: str) -> None:
    """With congestion control, which needs the answers of the receivers."""
    to_norm(cell, peer, "--set", "congestion=equation")


# Blocks with more than 255 symbols are coded over 16 bits.
LONG_BLOCKS = ("block=300", "parity=64")


def to_norm_confirmed(cell: Cell, peer: str) -> None:
    """Long blocks to receivers that confirm everything: the sender fails if one does not."""
    names = ",".join(str(node) for _, node in norm_nodes(cell))
    to_norm(cell, peer, "--expect", names, *(word for key in LONG_BLOCKS for word in ("--set", key)))


def from_norm(cell: Cell, peer: str, more: tuple[str, ...] = ()) -> None:
    # The peer announces no end.
    settings = {host: ["--set", f"node_id={node}", "--set", "end_wait=4s"] for host, node in norm_nodes(cell)}
    carillon_receives_files(cell, "norm", NORM_GROUP, settings)
    cell.start("s", peer, "send", cell.file, len(cell.network.receivers), f"rate={RATE * 8}", *more)
    if cell.size == 0:
        # It waits for ever for the acknowledgment of a file without bytes, also with receivers of its own.
        for host in cell.network.receivers:
            cell.await_word(host, "received", 20)
        cell.stop("s")
    cell.await_ends((0, 1) if cell.size == 0 else (0,))
    for host in cell.network.receivers:
        cell.compare(host, received_file(cell, host, complete=True))


def to_norm_stream(cell: Cell, peer: str) -> None:
    for host, node in norm_nodes(cell):
        cell.start(host, peer, "recv", cell.path(host, "out"), node, QUIET)
    cell.await_ready("READY")
    carillon_files(cell, "norm", NORM_GROUP, "--message-bytes", 3000)
    cell.await_ends()
    for host, _ in norm_nodes(cell):
        cell.compare(host, cell.path(host, "out"))
        if programs.said(cell.log(host), "DONE") != [cell.size, 1] or "BROKEN" in cell.log(host):
            raise Failed(f"{host} has no whole stream: {cell.log(host)[-300:]}")


def from_norm_stream(cell: Cell, peer: str, message: int = 3000) -> None:
    settings = {host: ["--set", "end_wait=4s"] for host in cell.network.receivers}
    carillon_receives_files(cell, "norm", NORM_GROUP, settings)
    cell.start("s", peer, "send", cell.file, message, LINGER, f"rate={RATE * 8}")
    cell.await_ends()
    for host in cell.network.receivers:
        cell.compare(host, received_file(cell, host, complete=True))
        if f": {-(-cell.size // message)} message" not in cell.log(host):
            raise Failed(f"{host} has other messages: {cell.log(host)[-300:]}")


# ZeroMQ takes this port of ours for norm://, and node identifiers by itself.
ZEROMQ_NORM_GROUP = f"{GROUP}:5556"


def norm_endpoint(node: int) -> str:
    return f"norm://{node},eth0;{ZEROMQ_NORM_GROUP}"


def to_zeromq_norm(cell: Cell, peer: str) -> None:
    for host, node in norm_nodes(cell):
        cell.start(host, peer, "recv", cell.path(host, "out"), norm_endpoint(node), QUIET)
    cell.await_ready("READY")
    time.sleep(0.5)
    carillon_files(cell, "norm", ZEROMQ_NORM_GROUP, "--framing", "zeromq")
    cell.await_ends()
    for host in cell.network.receivers:
        cell.compare(host, cell.path(host, "out"))


def from_zeromq_norm(cell: Cell, peer: str, message: int = 1000) -> None:
    settings = {host: ["--framing", "zeromq", "--set", "end_wait=4s"] for host in cell.network.receivers}
    carillon_receives_files(cell, "norm", ZEROMQ_NORM_GROUP, settings)
    # A publisher begins slowly, because of its congestion control.
    gap = round(message / RATE * 1e6)
    cell.start("s", peer, "send", cell.file, norm_endpoint(1), message, gap, LINGER + cell.size / 1_000_000)
    cell.await_ends((0, 1))
    for host in cell.network.receivers:
        cell.compare(host, received_file(cell, host, complete=False))


def norm_wire_cost(cell: Cell, peer: str) -> None:
    """What a file costs to NRL's receivers: all bytes that leave the sender and the receivers, by each sender."""
    costs = []
    for sender in ("carillon", "NRL"):
        cell.started = []
        before = [cell.network.bytes_sent(host) for host in cell.network.hosts]
        for host, node in norm_nodes(cell):
            shutil.rmtree(cell.path(host, "in"), ignore_errors=True)
            os.mkdir(cell.path(host, "in"))
            cell.start(host, peer, "recv", os.path.join(cell.path(host, "in"), "file"), node)
        cell.await_ready("READY")
        if sender == "carillon":
            carillon_files(cell, "norm", NORM_GROUP)
        else:
            cell.start("s", peer, "send", cell.file, len(cell.network.receivers), f"rate={RATE * 8}")
        end_norm(cell)
        after = [cell.network.bytes_sent(host) for host in cell.network.hosts]
        costs.append(sum(after) - sum(before))
    print(f"bytes on the wire for each byte: carillon {costs[0] / cell.size:.3f}, NRL {costs[1] / cell.size:.3f}")
    if costs[0] > costs[1]:
        raise Failed(f"{costs[0]} bytes instead of at most {costs[1]}")


FLUTE_GROUP = f"{GROUP}:3400"


class Flute:
    """A way of sending by FLUTE: code, version, compression."""

    def __init__(self, code: str, version: int, encoding: str) -> None:
        self.code, self.version, self.encoding = code, version, encoding

    def passes(self, cell: Cell) -> int:
        # A pass of a long file takes seconds, and parity repairs most of it.
        return 1 if cell.loss == 0 else 6 if cell.size < 1_000_000 else 3

    def to_peer(self, cell: Cell, peer: str) -> None:
        for host in cell.network.receivers:
            address = cell.network.address(host)
            cell.start(host, peer, "recv", cell.path(host, "in"), 1, 10, address, FLUTE_GROUP)
        cell.await_ready("READY")
        settings = {"fec": self.code, "version": self.version, "content_encoding": self.encoding}
        settings["carousel"] = self.passes(cell)
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        carillon_files(cell, "flute", FLUTE_GROUP, *options)
        cell.await_ends()
        for host in cell.network.receivers:
            cell.compare(host, received_file(cell, host, complete=True))

    def from_peer(self, cell: Cell, peer: str) -> None:
        carillon_receives_files(cell, "flute", FLUTE_GROUP, {})
        command = [peer, "send", self.code, self.version, self.encoding, self.passes(cell), RATE]
        cell.start("s", *command, cell.network.address("s"), FLUTE_GROUP, cell.file)
        cell.await_ends()
        for host in cell.network.receivers:
            cell.compare(host, received_file(cell, host, complete=True))


class Chain(networks.Network):
    """Networks in a row, with a router between each two: the sender in the first one, one receiver in the last."""

    def __init__(self, routers: int) -> None:
        self.routers = [f"relay{number}" for number in range(1, routers + 1)]
        super().__init__(1)

    def _build(self, delay_ms: float) -> None:
        self.hosts = ["s", *self.routers, "r1"]
        for host in ["switch", *self.hosts]:
            networks.call("ip", "netns", "add", self.namespace(host))
        plain = "ethtool -K $port tx off rx off sg off tso off gso off gro off >/dev/null 2>&1 || true"
        last = len(self.hosts) - 1
        for hop, (left, right) in enumerate(zip(self.hosts, self.hosts[1:])):
            near, far = ("eth0" if host in ("s", "r1") else port for host, port in ((left, "south"), (right, "north")))
            ends = ["link", "add", near, "netns", self.namespace(left), "type", "veth", "peer", "name", far]
            networks.call("ip", *ends, "netns", self.namespace(right))
            for host, port, number in ((left, near, 1), (right, far, 2)):
                address = f"ip addr add 10.78.{hop}.{number}/24 dev {port}; ip link set {port} up"
                self.shell(host, f"port={port}; {plain}; ip link set lo up; {address}")
        for at, host in enumerate(self.hosts):
            for hop in range(last):
                if hop > at:
                    self.shell(host, f"ip route add 10.78.{hop}.0/24 via 10.78.{at}.2")
                elif hop < at - 1:
                    self.shell(host, f"ip route add 10.78.{hop}.0/24 via 10.78.{at - 1}.1")
            port = "eth0" if host in ("s", "r1") else "south"
            self.shell(host, f"ip route add 224.0.0.0/4 dev {port}; sysctl -qw net.ipv4.ip_forward=1")

    def address(self, host: str) -> str:
        return "10.78.0.1" if host == "s" else f"10.78.{len(self.routers)}.2"


def relayed(cell: Cell, peer: str, routers: int, from_carillon: bool) -> None:
    """A plain sender or OpenPGM, routers with a relay, and a receiver of OpenPGM behind losses."""
    cell.network.close()
    cell.network = Chain(routers)
    for hook in ("ingress", "egress"):
        cell.network.lose("r1", 0.05, hook)
    relays = []
    for router in cell.network.routers:
        command = [cell.carillon, "relay", "--protocol", "pgm", "--group", f"{GROUP}:3055"]
        command = [*cell.network.inside(router), *command, "--interface", "north", "--interface", "south"]
        relays.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    try:
        time.sleep(1)
        cell.start("r1", peer, "recv", cell.path("r1", "out"), cell.network.address("r1"), GROUP, QUIET)
        cell.await_ready("READY")
        if from_carillon:
            carillon_sends(cell, 3055, "--ttl", 8)
        else:
            cell.start("s", peer, "send", cell.file, cell.network.address("s"), GROUP, 1424, RATE, LINGER, 8)
        cell.await_ends()
        cell.compare("r1", cell.path("r1", "out"))
    finally:
        for relay in relays:
            relay.terminate()
            relay.wait(10)


def through_one_relay(cell: Cell, peer: str) -> None:
    relayed(cell, peer, 1, from_carillon=False)


def through_two_relays(cell: Cell, peer: str) -> None:
    relayed(cell, peer, 2, from_carillon=False)


def from_carillon_through_two_relays(cell: Cell, peer: str) -> None:
    relayed(cell, peer, 2, from_carillon=True)


def cells() -> list[tuple[str, object, str, float, int, int]]:
    """Name, function, peer, loss, size and number of receivers of each cell."""
    directions = [
        ("carillon to OpenPGM", to_openpgm, "pgm-messages"),
        ("OpenPGM to carillon", from_openpgm, "pgm-messages"),
        ("carillon to ZeroMQ", to_zeromq, "zmq-messages"),
        ("ZeroMQ to carillon", from_zeromq, "zmq-messages"),
        ("carillon to NORM", to_norm, "norm-file"),
        ("NORM to carillon", from_norm, "norm-file"),
        ("carillon to NORM, stream", to_norm_stream, "norm-stream"),
        ("NORM to carillon, stream", from_norm_stream, "norm-stream"),
        ("carillon to ZeroMQ on norm", to_zeromq_norm, "zmq-messages"),
        ("ZeroMQ on norm to carillon", from_zeromq_norm, "zmq-messages"),
    ]
    for code, version, encoding in (("reed-solomon", 2, "none"), ("raptorq", 1, "gzip")):
        way = Flute(code, version, encoding)
        directions.append((f"carillon to FLUTE {version}, {code}, {encoding}", way.to_peer, "flute_peer"))
        directions.append((f"FLUTE {version} to carillon, {code}, {encoding}", way.from_peer, "flute_peer"))
    found = []
    for (name, run, peer), loss, size in itertools.product(directions, LOSSES, SIZES):
        # A socket without messages tells strangers nothing.
        silent = (from_openpgm, from_zeromq, to_norm_stream, from_norm_stream, to_zeromq_norm, from_zeromq_norm)
        if size == 0 and run in silent:
            continue
        # ZeroMQ on norm:// stops by itself at 5 %.
        if loss > 0.01 and run in (to_zeromq_norm, from_zeromq_norm):
            continue
        for receivers in (1, 2) if size in (100_000, 10_000_000) else (2,):
            found.append((name, run, peer, loss, size, receivers))
    for code, version in itertools.product(("no-code", "reed-solomon", "raptor", "raptorq"), (1, 2)):
        way = Flute(code, version, "none")
        name = f"{code}, version {version}"
        found.append((f"carillon to FLUTE, {name}", way.to_peer, "flute_peer", 0.05, 300_000, 1))
        found.append((f"FLUTE to carillon, {name}", way.from_peer, "flute_peer", 0.05, 300_000, 1))
    for name, run in (
        ("OpenPGM to OpenPGM through one relay", through_one_relay),
        ("OpenPGM to OpenPGM through two relays", through_two_relays),
        ("carillon to OpenPGM through two relays", from_carillon_through_two_relays),
    ):
        found.append((name, run, "pgm-messages", 0.05, 1_000_000, 1))
    for size in (100_000, 1_000_000):
        found.append(("carillon to NORM, long blocks, confirmed", to_norm_confirmed, "norm-file", 0.05, size, 2))
        found.append(("NORM to carillon, long blocks", functools.partial(from_norm, more=LONG_BLOCKS), "norm-file", 0.05, size, 2))
        found.append(("carillon to NORM with congestion control", to_norm_controlled, "norm-file", 0.05, size, 2))
    found.append(("wire cost of NORM", norm_wire_cost, "norm-file", 0.05, 10_000_000, 2))
    found.append(("sessions beside a ZeroMQ subscriber", to_zeromq_beside_sessions, "zmq-messages", 0, 100_000, 1))
    return found


def is_quick(name: str, loss: float, size: int, receivers: int) -> bool:
    """True for the cells of --quick: each program and direction once, with losses."""
    most = 0.01 if "on norm" in name else 0.05
    # A publisher on norm:// takes its time.
    left_out = any(part in name for part in ("relay", "gzip", "ZeroMQ on norm to"))
    return not left_out and (loss, size, receivers) == (most, 100_000, 2)


def peers(carillon: str) -> dict[str, str | programs.Missing]:
    """The path of each program, or why it is missing."""
    found: dict[str, str | programs.Missing] = {}
    for name, build, packages in (
        ("pgm-messages", programs.openpgm, ("pkg-config", "libpgm-dev")),
        ("zmq-messages", programs.zeromq, ("libzmq3-dev",)),
        ("norm-file", lambda: programs.norm("norm-file"), ("libnorm-dev",)),
        ("norm-stream", lambda: programs.norm("norm-stream"), ("libnorm-dev",)),
        ("flute_peer", lambda: programs.flute(carillon), ()),
    ):
        try:
            try:
                found[name] = build()
            except programs.Missing:
                deliveries.install(*packages)
                found[name] = build()
        except programs.Missing as problem:
            found[name] = problem
            print(f"SKIPPED check-strangers, {name}: {problem}", file=sys.stderr)
    return found


def required() -> bool:
    return os.environ.get("CARILLON_REQUIRE_NETWORK", "0") not in ("", "0")


def transfer(title: str, run: object, path: str, carillon: str, loss: float, size: int, receivers: int) -> bool:
    """Runs a cell; whether it has passed."""
    folder, begun = tempfile.mkdtemp(prefix="carillon-strangers-"), time.monotonic()
    result, passed = "equal", True
    try:
        with BUILDING:
            cell = Cell(carillon, folder, loss, size, receivers)
        with cell:
            run(cell, path)
    except (Failed, subprocess.TimeoutExpired) as problem:
        result, passed = f"FAILED: {problem}", False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{title}: {result} ({time.monotonic() - begun:.0f} s)", flush=True)
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="target/debug/carillon", help="[target/debug/carillon]")
    parser.add_argument("filter", nargs="?", default="", help="part of the names of the cells")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="runs of each cell [1]")
    parser.add_argument("--quick", action="store_true", help="a few cells of each program")
    args = parser.parse_args()
    if missing := networks.why_not():
        print(f"SKIPPED check-strangers: {missing}", file=sys.stderr)
        return int(required())
    carillon = os.path.abspath(args.binary)
    built = peers(carillon)
    missing = sum(not isinstance(path, str) for path in built.values()) if required() else 0
    chosen = []
    for name, run, peer, loss, size, receivers in cells():
        title = f"{name}, {size} bytes, {loss:.0%} loss, {receivers} receiver{'s' * (receivers > 1)}"
        path = built[peer]
        if isinstance(path, str) and args.filter in title and (not args.quick or is_quick(name, loss, size, receivers)):
            chosen += args.runs * [(title, run, path, carillon, loss, size, receivers)]
    # Small transfers mostly wait.
    with concurrent.futures.ThreadPoolExecutor(4 if args.quick else 1) as pool:
        results = list(pool.map(lambda cell: transfer(*cell), chosen))
    done, failed = len(results), results.count(False) + missing
    print(f"{done} transfers, {failed} failed")
    return 1 if failed or not done else 0


sys.exit(main())
