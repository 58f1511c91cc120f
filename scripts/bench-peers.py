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
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from typing import Callable, NamedTuple

import networks
from deliveries import Cell, Started, chosen, fresh, memory, random_file, same
from networks import Network
from peers.deliverers import PEERS, Peer, Place
from peers.programs import ROOT, Missing, said
from peers.settings import best, candidates

PLAIN = [f"r{n}-l{loss}-d0" for n in (1, 4, 16) for loss in (0, 1, 5, 20)]
WAYS = ["d0", "d0-up100", "d0-port100", "d10", "d50"]
ALL = [f"r{n}-l{loss}-{way}" for way in WAYS for n in (1, 4, 16) for loss in (0, 1, 5, 20)]
SOME = ["r1-l0-d0-up100", "r4-l1-d0-up100", "r16-l1-d0-up100", "r4-l0-d0-port100", "r16-l1-d0-port100"]
SOME += [f"{cell}-{delay}" for delay in ("d10", "d50") for cell in ("r1-l0", "r4-l0", "r4-l5", "r16-l1")]

# Timeouts in seconds: of a sender after all receivers have the file, of receivers after the sender has ended, and of a
# sender that sends next to nothing.
TO_END, LEFT_BEHIND, STALLED = 10.0, 12.0, 10.0
LITTLE = 64_000


class Run(NamedTuple):
    """One delivery; `reason` if it failed."""

    seconds: float
    wire: float
    cpu: float
    complete: bool
    stuck: bool
    reason: str


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
