#!/usr/bin/env python3
"""Delivers one file to several receivers with Carillon and its alternatives: UFTP, udpcast, NORM, OpenPGM and Aeron over
multicast, TCP to each receiver, and BitTorrent among the receivers. All run on the same networks of real frames of 1500
bytes with the same losses, delays and bottlenecks, in turn within each cell. Each has its best settings
(scripts/peers/settings.py); Carillon runs without options. Every copy is compared byte for byte.

    scripts/bench-peers.py                              some 20 minutes
    scripts/bench-peers.py --runs 3 --cells all         everything, for hours
    scripts/bench-peers.py --cells 'r4-*' --peers carillon,tcp,uftp
    scripts/bench-peers.py --try --peers uftp --cells r4-l5-d0
                                                        all candidate settings in these cells, one by one
    scripts/bench-peers.py --json runs.json             a line for each run, appended
    scripts/bench-peers.py --from runs.json             the tables again, from such lines

Prints each run as it comes, and at the end tables in Markdown: goodput to the last receiver, bytes on the sender's
wire for each byte of the file, and processor seconds of sender and receivers together for each gigabyte of the file;
then versions and settings. A run fails if a receiver does not have the correct file after --limit seconds, or if the sender's
port sends less than 64 KB in ten seconds; a program that fails this way twice is not run again in that cell.

Cells are called as in bench-delivery.py. Time runs from the start of the sender's process until the last receiver
holds the file; of Aeron and BitTorrent, which are run by a Java machine and by Python, from when that is up.
Processor time excludes the start of these two, and kernel work that is charged to no process. All hosts know each
other's hardware addresses in advance: over a long distance a nearby router would resolve them, not the other end.

Needs root and network namespaces. What is missing is installed (Debian's packages; Aeron's jar by Maven) or, where that
cannot be, named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import Callable, NamedTuple

import networks
from deliveries import Cell, Started, chosen, fresh, install, memory, random_file, same
from networks import Network
from peers.programs import AERON, BUILT, JAVA, ROOT, SOURCES, Missing, aeron_jar, compiled, compiled_java, debian
from peers.programs import java_version, output_of, said
from peers.settings import best, candidates

PLAIN = [f"r{n}-l{loss}-d0" for n in (1, 4, 16) for loss in (0, 1, 5, 20)]
WAYS = ["d0", "d0-up100", "d0-port100", "d10", "d50"]
ALL = [f"r{n}-l{loss}-{way}" for way in WAYS for n in (1, 4, 16) for loss in (0, 1, 5, 20)]
SOME = ["r1-l0-d0-up100", "r4-l1-d0-up100", "r16-l1-d0-up100", "r4-l0-d0-port100", "r16-l1-d0-port100"]
SOME += [f"{cell}-{delay}" for delay in ("d10", "d50") for cell in ("r1-l0", "r4-l0", "r4-l5", "r16-l1")]

# The Python that Debian's package of libtorrent is for.
PYTHON = "/usr/bin/python3"
UFTP_BUFFER = "4194304"

# Timeouts in seconds: of a sender after all receivers have the file, of receivers after the sender has ended, and of a
# sender that sends next to nothing.
TO_END, LEFT_BEHIND, STALLED = 10.0, 12.0, 10.0
LITTLE = 64_000


class Place(NamedTuple):
    """Parameters of a delivery: network, receivers, file, and settings of the program."""

    net: Network
    cell: Cell
    file: str
    folder: str
    setting: str

    def copy(self, host: str) -> str:
        return os.path.join(self.folder, host, "copy")

    def words(self) -> list[str]:
        return self.setting.split()


class Run(NamedTuple):
    """One delivery; `reason` if it failed."""

    seconds: float
    wire: float
    cpu: float
    complete: bool
    stuck: bool
    reason: str


class Peer:
    """A program, or pair of programs, that delivers a file to receivers."""

    name = ""
    title = ""
    packages: list[str] = []
    programs: list[str] = []
    # Its version, once it is known to be there.
    told = ""
    # Whether receivers say when they are ready and have everything; whether they end by themselves, with a code that
    # says something; and whether the sender stays until it is stopped.
    tells = True
    ends = False
    stays = False

    def prepare(self, args: argparse.Namespace) -> None:
        """Installs the program if necessary, or returns the reason why it is missing."""
        absent = [name for name in self.programs if not shutil.which(name)]
        if absent:
            install(*self.packages)
        absent = [name for name in self.programs if not shutil.which(name)]
        if absent:
            raise Missing(f"{', '.join(absent)} not installed and cannot be (packages {' '.join(self.packages)})")

    def version(self) -> str:
        return debian(self.packages[0])

    def beside(self, place: Place) -> list[tuple[str, list[str]]]:
        """Additional processes with their hosts, started before the receivers."""
        return []

    def receiver(self, place: Place, host: str) -> list[str]:
        raise NotImplementedError

    def sender(self, place: Place) -> list[str]:
        raise NotImplementedError

    def held(self, place: Place, host: str, one: Started) -> float | None:
        """Time at which this receiver had the file, by the monotonic clock."""
        done = said(one.text(), "DONE")
        return done[0] if done else None


def since_boot(wall: float) -> float:
    """A time of files as one of the monotonic clock."""
    return wall - (time.time() - time.monotonic())


class Carillon(Peer):
    name, title, tells, ends = "carillon", "Carillon", False, True

    def prepare(self, args: argparse.Namespace) -> None:
        self.binary = os.path.abspath(args.binary)
        if not os.path.exists(self.binary):
            raise Missing(f"there is no {args.binary}: run make bench-peers, or name one with --binary")

    def version(self) -> str:
        return output_of(self.binary, "--version").split()[-1]

    def receiver(self, place: Place, host: str) -> list[str]:
        return [self.binary, "recv", "--name", host, "--out", os.path.dirname(place.copy(host))]

    def sender(self, place: Place) -> list[str]:
        return [self.binary, "send", place.file, "--as", "copy", "--receivers", str(place.cell.receivers)]

    def held(self, place: Place, host: str, one: Started) -> float | None:
        # It gets its name when it is verified.
        copy = place.copy(host)
        return since_boot(os.stat(copy).st_ctime) if os.path.exists(copy) else None


class Uftp(Peer):
    name, title, tells = "uftp", "UFTP", False
    packages, programs = ["uftp"], ["uftp", "uftpd"]

    def identity(self, place: Place, host: str) -> str:
        return f"0x{0x0A4D0000 + int(place.net.address(host).split('.')[-1]):08X}"

    def stamp(self, place: Place, host: str) -> str:
        return os.path.join(place.folder, host, "stamp")

    def receiver(self, place: Place, host: str) -> list[str]:
        hook = os.path.join(place.folder, host, "hook")
        with open(hook, "w") as out:
            out.write(f"#!/bin/sh\n: >{self.stamp(place, host)}\n")
        os.chmod(hook, 0o755)
        command = ["uftpd", "-d", "-I", "eth0", "-B", UFTP_BUFFER, "-U", self.identity(place, host)]
        return [*command, "-D", os.path.dirname(place.copy(host)), "-s", hook, "-c", "1048576"]

    def sender(self, place: Place) -> list[str]:
        command = [
            "uftp",
            "-I",
            "eth0",
            "-B",
            UFTP_BUFFER,
            "-b",
            "1400",
            "-U",
            self.identity(place, "s"),
            *place.words(),
        ]
        others = ",".join(self.identity(place, name) for name in place.net.receivers)
        return [*command, "-H", others, "-D", "copy", place.file]

    def held(self, place: Place, host: str, one: Started) -> float | None:
        stamp = self.stamp(place, host)
        return since_boot(os.stat(stamp).st_mtime) if os.path.exists(stamp) else None


class Udpcast(Peer):
    name, title, tells, ends = "udpcast", "udpcast", False, True
    packages, programs = ["udpcast"], ["udp-sender", "udp-receiver"]
    COMMON = ["--interface", "eth0", "--nokbd", "--ttl", "1", "--no-progress"]

    def receiver(self, place: Place, host: str) -> list[str]:
        command = ["udp-receiver", "--file", place.copy(host), *self.COMMON, "--start-timeout", "30"]
        return [*command, "--receive-timeout", "20", "--rcvbuf", "4194304"]

    def sender(self, place: Place) -> list[str]:
        command = ["udp-sender", "--file", place.file, *self.COMMON, "--mcast-data-address", "239.7.7.7"]
        return [*command, "--min-receivers", str(place.cell.receivers), *place.words()]

    def held(self, place: Place, host: str, one: Started) -> float | None:
        # Receivers stay for half a second after their last byte, which is not counted.
        return since_boot(os.stat(place.copy(host)).st_mtime) if one.code == 0 else None


class Norm(Peer):
    name, title = "norm", "NORM"
    packages = ["libnorm-dev", "g++"]

    def prepare(self, args: argparse.Namespace) -> None:
        if not os.path.exists("/usr/include/normApi.h"):
            install(*self.packages)
        compiled("norm-file.cpp", "g++", "-lnorm", "-lprotokit", "-lpthread", "-ldl")

    def receiver(self, place: Place, host: str) -> list[str]:
        node = place.net.address(host).split(".")[-1]
        return [os.path.join(BUILT, "norm-file"), "recv", place.copy(host), node, *place.words()]

    def sender(self, place: Place) -> list[str]:
        return [os.path.join(BUILT, "norm-file"), "send", place.file, str(place.cell.receivers), *place.words()]


class Pgm(Peer):
    name, title, stays = "pgm", "OpenPGM", True
    packages = ["libpgm-dev", "gcc", "pkg-config"]

    def prepare(self, args: argparse.Namespace) -> None:
        if not shutil.which("pkg-config") or not output_of("pkg-config", "--libs", "openpgm-5.3").startswith("-"):
            install(*self.packages)
        compiled("pgm-file.c", "gcc", *output_of("pkg-config", "--cflags", "--libs", "openpgm-5.3").split())

    def receiver(self, place: Place, host: str) -> list[str]:
        address = place.net.address(host)
        return [os.path.join(BUILT, "pgm-file"), "recv", place.copy(host), address, *place.words()]

    def sender(self, place: Place) -> list[str]:
        return [os.path.join(BUILT, "pgm-file"), "send", place.file, place.net.address("s"), *place.words()]


class Aeron(Peer):
    name, title, stays = "aeron", "Aeron", True

    def prepare(self, args: argparse.Namespace) -> None:
        compiled_java("AeronFile")

    def version(self) -> str:
        return f"{AERON} (Java driver), {java_version()}"

    def command(self, place: Place, role: str, host: str, file: str) -> list[str]:
        command = [
            *JAVA,
            "-cp",
            f"{BUILT}:{aeron_jar()}",
            "AeronFile",
            role,
            file,
            os.path.join(place.folder, host, "driver"),
        ]
        return [*command, place.net.address(host), str(place.cell.receivers), *place.words()]

    def receiver(self, place: Place, host: str) -> list[str]:
        return self.command(place, "recv", host, place.copy(host))

    def sender(self, place: Place) -> list[str]:
        return self.command(place, "send", "s", place.file)


class Tcp(Peer):
    name, title = "tcp", "TCP to each"
    packages = ["gcc"]

    def prepare(self, args: argparse.Namespace) -> None:
        compiled("tcp-file.c", "cc", "-lpthread")

    def version(self) -> str:
        return f"Linux {platform.release().split('-')[0]}"

    def receiver(self, place: Place, host: str) -> list[str]:
        return [os.path.join(BUILT, "tcp-file"), "recv", place.copy(host)]

    def sender(self, place: Place) -> list[str]:
        addresses = [place.net.address(name) for name in place.net.receivers]
        return [os.path.join(BUILT, "tcp-file"), "send", place.file, *place.words(), *addresses]


class Torrent(Peer):
    name, title, stays = "torrent", "BitTorrent", True
    packages, programs = ["python3-libtorrent", "opentracker"], ["opentracker"]
    script = os.path.join(SOURCES, "torrent-file.py")

    def prepare(self, args: argparse.Namespace) -> None:
        there = (
            lambda: os.path.exists(PYTHON)
            and not subprocess.run([PYTHON, "-c", "import libtorrent"], capture_output=True).returncode
        )
        if not there():
            install(*self.packages)
        if not there():
            raise Missing("python3-libtorrent is not installed and cannot be")
        super().prepare(args)

    def version(self) -> str:
        return f"libtorrent {debian('python3-libtorrent')}, opentracker {debian('opentracker')}"

    def torrent(self, place: Place) -> str:
        return f"{place.file}.{place.words()[0]}.torrent"

    def beside(self, place: Place) -> list[tuple[str, list[str]]]:
        address, home = place.net.address("s"), os.path.join(place.folder, "s")
        announce = f"http://{address}:6969/announce"
        made = networks.call(PYTHON, self.script, "make", place.file, self.torrent(place), announce, place.words()[0])
        # Debian's serves those alone that are on its list, and leaves its rights and all but its directory.
        with open(os.path.join(home, "list"), "w") as out:
            out.write(made)
        return [("s", ["opentracker", "-i", address, "-p", "6969", "-d", home, "-w", "list", "-u", "nobody"])]

    def receiver(self, place: Place, host: str) -> list[str]:
        return [PYTHON, self.script, "recv", place.copy(host), self.torrent(place), place.net.address(host)]

    def sender(self, place: Place) -> list[str]:
        return [PYTHON, self.script, "send", place.file, self.torrent(place), place.net.address("s")]


PEERS: list[Peer] = [Carillon(), Uftp(), Udpcast(), Norm(), Pgm(), Aeron(), Tcp(), Torrent()]


class Bench:
    def __init__(self, args: argparse.Namespace, peers: list[Peer], folder: str) -> None:
        self.args = args
        self.peers = peers
        self.folder = folder

    def size(self, cell: Cell) -> int:
        """Size of the file: for a transfer of a fraction of a second to a few seconds."""
        quick = not (cell.delay or cell.up or cell.port) and cell.receivers <= 4 and cell.loss <= 5
        return self.args.bytes or (64_000_000 if cell.fast else 32_000_000 if quick else 16_000_000)

    def deliver(self, peer: Peer, net: Network, cell: Cell, setting: str) -> Run:
        file = random_file(os.path.join(self.folder, f"file{self.size(cell)}"), self.size(cell))
        place = Place(net, cell, file, self.folder, setting)
        fresh(self.folder, net.hosts)
        log = lambda host: os.path.join(self.folder, f"{host}.log")
        beside = [Started(net, host, command, log("beside")) for host, command in peer.beside(place)]
        receivers = {name: Started(net, name, peer.receiver(place, name), log(name)) for name in net.receivers}
        try:
            self.wait_until_ready(peer, receivers)
            before = net.bytes_sent("s")
            sender = Started(net, "s", peer.sender(place), log("s"))
            try:
                held, stuck = self.watch(peer, place, sender, receivers)
                wire = net.bytes_sent("s") - before
            finally:
                sender.stop()
        finally:
            for one in [*receivers.values(), *beside]:
                one.signal(signal.SIGTERM)
            for one in [*receivers.values(), *beside]:
                one.stop()
        copies = [same(file, place.copy(name)) for name in net.receivers]
        return self.judge(peer, sender, receivers, held, copies, stuck, wire / self.size(cell))

    def wait_until_ready(self, peer: Peer, receivers: dict[str, Started]) -> None:
        if peer.tells:
            deadline = time.monotonic() + 60
            while not all(said(one.text(), "READY") is not None for one in receivers.values()):
                if time.monotonic() > deadline or any(one.ended for one in receivers.values()):
                    break
                time.sleep(0.05)
            time.sleep(0.3)
        else:
            time.sleep(0.6)

    def watch(
        self, peer: Peer, place: Place, sender: Started, receivers: dict[str, Started]
    ) -> tuple[dict[str, float], bool]:
        """Times at which receivers had the file, and true if the run stalled until a timeout."""
        held: dict[str, float] = {}
        deadline = sender.begin + self.args.limit
        sent, looked, left = place.net.bytes_sent("s"), sender.begin, False
        while len(held) < len(receivers):
            now = time.monotonic()
            for name, one in receivers.items():
                if name not in held:
                    ended = one.ended
                    at = peer.held(place, name, one)
                    if at is not None:
                        held[name] = at
                    elif ended:
                        # It has failed, and with it the run; the others need not be waited for.
                        return held, False
            if sender.ended and not left:
                left, deadline = True, min(deadline, now + (TO_END if sender.code == 0 else LEFT_BEHIND))
            if now > deadline:
                return held, not left
            if now - looked > STALLED and not left:
                sent_now = place.net.bytes_sent("s")
                if sent_now - sent < LITTLE:
                    return held, True
                sent, looked = sent_now, now
            time.sleep(0.02)
        if not peer.stays:
            for one in [sender, *(receivers.values() if peer.ends else [])]:
                one.ended_by(time.monotonic() + TO_END)
        return held, False

    def judge(
        self,
        peer: Peer,
        sender: Started,
        receivers: dict[str, Started],
        held: dict[str, float],
        copies: list[bool],
        stuck: bool,
        wire: float,
    ) -> Run:
        """Result of a run, after all its processes have ended."""
        reasons = []
        if len(held) < len(receivers):
            reasons.append(f"{len(held)} of {len(receivers)} have it" + (", and no end" if stuck else ""))
        codes = sorted({one.process.returncode for one in receivers.values()})
        if any(codes) and (peer.ends or reasons):
            reasons.append(f"receivers end with {', '.join(map(str, codes))}")
        if not all(copies[number] for number, name in enumerate(receivers) if name in held):
            reasons.append("A COPY DIFFERS")
        if not peer.stays and sender.process.returncode:
            reasons.append(f"the sender ends with {sender.process.returncode}")
        if reasons:
            logs = [sender, *[one for name, one in receivers.items() if name not in held]]
            reasons += [line for one in logs for line in one.lines()[-1:]][:1]
        start = said(sender.text(), "START") or [sender.begin, 0.0]
        cpu = sender.cpu - start[1]
        for one in receivers.values():
            text = one.text() if peer.tells else ""
            begin = said(text, "BEGIN") or said(text, "READY") or []
            cpu += one.cpu - (begin[1] if len(begin) > 1 else 0.0)
        seconds = max(held.values()) - start[0] if len(held) == len(receivers) else self.args.limit
        return Run(seconds, wire, cpu, not reasons, stuck, "; ".join(reasons))

    def cell(self, cell: Cell) -> list[dict[str, object]]:
        """Runs of each program in turn, so that other load on the machine affects all of them equally."""
        args = self.args
        plans = []
        for peer in self.peers:
            settings = candidates(peer.name, cell) if args.trying else [best(peer.name, cell)]
            plans += [(peer, setting) for setting in settings]
        records: list[dict[str, object]] = []
        stuck = Counter[tuple[str, str]]()
        with cell.network() as net:
            cell.impair(net)
            for number in range(args.runs):
                # Each begins a round in its turn.
                turn = number % len(plans)
                for peer, setting in plans[turn:] + plans[:turn]:
                    if stuck[peer.name, setting] == 2:
                        continue
                    run = self.deliver(peer, net, cell, setting)
                    stuck[peer.name, setting] += run.stuck
                    record = {
                        "cell": cell.name,
                        "peer": peer.name,
                        "version": peer.told,
                        "setting": setting,
                        "run": number,
                        "bytes": self.size(cell),
                    }
                    records.append({**record, **run._asdict()})
                    self.show(records[-1])
        return records

    def show(self, record: dict[str, object]) -> None:
        if self.args.json:
            with open(self.args.json, "a") as out:
                out.write(json.dumps(record) + "\n")
        one = Record(record)
        speed = f"{one.goodput:8.1f} MB/s" if one.complete else f"{'failed':>13}"
        figures = f"{speed} {one.wire:6.2f} {one.cpu_per_gigabyte:7.1f} s/GB"
        print(f"{one.cell:<20} {one.peer:<10} {figures}  {one.setting}  {record['reason']}".rstrip(), flush=True)


class Record:
    """A run as it is recorded."""

    def __init__(self, values: dict[str, object]) -> None:
        self.cell, self.peer, self.setting = str(values["cell"]), str(values["peer"]), str(values["setting"])
        self.version = str(values["version"])
        self.complete = bool(values["complete"])
        self.wire = float(values["wire"])  # type: ignore[arg-type]
        self.goodput = float(values["bytes"]) / 1e6 / float(values["seconds"])  # type: ignore[arg-type]
        self.cpu_per_gigabyte = float(values["cpu"]) / float(values["bytes"]) * 1e9  # type: ignore[arg-type]


def table(title: str, records: list[Record], figure: Callable[[Record], float], form: str, most: bool) -> str:
    """A table in Markdown: medians of complete runs, the best of a cell in bold (of what is the same, all)."""
    cells = list(dict.fromkeys(record.cell for record in records))
    peers = [peer for peer in PEERS if any(record.peer == peer.name for record in records)]
    lines = [f"| {title} | " + " | ".join(peer.title for peer in peers) + " |", "|---|" + "---|" * len(peers)]
    for cell in cells:
        medians: dict[str, float] = {}
        texts: dict[str, str] = {}
        for peer in peers:
            runs = [record for record in records if record.cell == cell and record.peer == peer.name]
            # Of several settings, which are there after --try, the one that was best.
            by_setting = {run.setting: [one for one in runs if one.setting == run.setting] for run in runs}
            good = {
                setting: statistics.median(one.goodput for one in ones if one.complete)
                for setting, ones in by_setting.items()
                if any(one.complete for one in ones)
            }
            if good:
                tried = by_setting[max(good, key=lambda setting: good[setting])]
                complete = [one for one in tried if one.complete]
                medians[peer.name] = statistics.median(figure(one) for one in complete)
                texts[peer.name] = format(medians[peer.name], form)
                if len(complete) < len(tried):
                    texts[peer.name] += f" ({len(complete)} of {len(tried)})"
            elif runs:
                texts[peer.name] = "failed"
        if medians:
            first = format((max if most else min)(medians.values()), form)
            for name in medians:
                if format(medians[name], form) == first:
                    texts[name] = f"**{texts[name]}**"
        lines.append(f"| `{cell}` | " + " | ".join(texts.get(peer.name, "") for peer in peers) + " |")
    return "\n".join(lines)


def settings_of(records: list[Record], peer: str) -> str:
    """Settings of a program, with their cells if they differ between cells."""
    cells: dict[str, list[str]] = {}
    for record in records:
        if record.peer == peer and record.cell not in cells.setdefault(record.setting, []):
            cells[record.setting].append(record.cell)
    if len(cells) == 1:
        return f"`{next(iter(cells))}`" if next(iter(cells)) else "none"
    usual = max(cells, key=lambda setting: len(cells[setting]))
    others = [
        f"`{setting}` in {', '.join(f'`{name}`' for name in names)}"
        for setting, names in cells.items()
        if setting != usual
    ]
    return f"`{usual}`; " + "; ".join(others)


def report(records: list[Record]) -> None:
    print()
    print(table("MB/s to the last receiver", records, lambda one: one.goodput, ".1f", True), end="\n\n")
    print(
        table("bytes on the sender's wire for each of the file", records, lambda one: one.wire, ".2f", False),
        end="\n\n",
    )
    print(
        table("processor seconds for a gigabyte", records, lambda one: one.cpu_per_gigabyte, ".1f", False), end="\n\n"
    )
    print("| | version | settings |\n|---|---|---|")
    for peer in PEERS:
        versions = dict.fromkeys(record.version for record in records if record.peer == peer.name)
        if versions:
            print(f"| {peer.title} | {', '.join(versions)} | {settings_of(records, peer.name)} |")


def present(args: argparse.Namespace) -> list[Peer]:
    """Requested programs that are available; prints the names of the others."""
    wanted = args.peers.split(",") if args.peers else [peer.name for peer in PEERS]
    unknown = set(wanted) - {peer.name for peer in PEERS}
    if unknown:
        sys.exit(
            f"bench-peers: unknown programs: {', '.join(sorted(unknown))}; there are {', '.join(p.name for p in PEERS)}"
        )
    there = []
    for peer in PEERS:
        if peer.name not in wanted:
            continue
        try:
            peer.prepare(args)
            peer.told = peer.version()
            there.append(peer)
        except Missing as reason:
            print(f"{peer.title} is left out: {reason}", flush=True)
    return there


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target", "release", "carillon"))
    parser.add_argument("--runs", type=int, default=1, help="runs of each in each cell [1]")
    parser.add_argument("--cells", default="", help="names or patterns, with commas between them, or all [some 25]")
    parser.add_argument(
        "--peers", default="", help="names with commas between them: " + ", ".join(peer.name for peer in PEERS)
    )
    parser.add_argument("--bytes", type=lambda text: int(float(text)), help="of the file [16e6 to 64e6, by cell]")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one delivery [60]")
    parser.add_argument(
        "--try", dest="trying", action="store_true", help="all settings that are worth a try, not the best alone"
    )
    parser.add_argument("--json", metavar="FILE", help="append a line for each run")
    parser.add_argument("--from", dest="source", metavar="FILE", help="run nothing: the tables of such lines")
    args = parser.parse_args()
    if args.source:
        with open(args.source) as lines:
            report([Record(json.loads(line)) for line in lines])
        return
    reason = networks.why_not()
    if reason:
        sys.exit(f"bench-peers: SKIPPED: {reason}")
    try:
        wanted = ",".join(ALL) if args.cells == "all" else args.cells or ",".join(PLAIN + SOME)
        cells = chosen(wanted, ALL)
    except ValueError as problem:
        sys.exit(f"bench-peers: {problem}")
    # Turn a termination signal into an exception, so that the networks are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    peers = present(args)
    load = os.getloadavg()[0]
    machine = f"{os.cpu_count()} processors, Linux {platform.release()}, load {load:.1f} before"
    print(f"{machine}; frames of 1500 bytes; runs of each: {args.runs}", flush=True)
    records = []
    with tempfile.TemporaryDirectory(dir=memory(), prefix="carillon-peers-") as folder:
        bench = Bench(args, peers, folder)
        for cell in cells:
            records += [Record(values) for values in bench.cell(cell)]
    report(records)


if __name__ == "__main__":
    main()
