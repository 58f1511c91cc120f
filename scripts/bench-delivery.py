#!/usr/bin/env python3
"""Delivers one file to several receivers over real frames of 1500 bytes, with loss, delay and bottlenecks unknown to the
programs: `carillon send` and `recv` as a user would start them, and UFTP for comparison. Every copy is compared byte for
byte. Prints goodput to the last receiver, bytes on the sender's wire per byte of the file, and the number of complete and
verified runs (with --helpers also the bytes sent by all other nodes per byte of the file), and for each gigabyte of the
file the processor seconds, user+system, of the sender and of all receivers together. Asserts nothing.

    scripts/bench-delivery.py                        a few minutes
    scripts/bench-delivery.py --runs 20              the whole table
    scripts/bench-delivery.py --cells 'r4-*'         cells that match; any cell can be named, such as r7-l3-d5
    scripts/bench-delivery.py --protocol all         every protocol, in a few cells, with a small file
    scripts/bench-delivery.py --protocol all --helpers 1 --cells 'r*-l5-d0'
                                                     with a helper as the parent of all receivers,
                                                     for each protocol that has helpers

A cell is called r<receivers>-l<loss in %>-d<delay each way in ms>, and may end with -up<Mbit/s> (so much leaves the
sender's port), -port<Mbit/s> (so much goes through each receiver's port) or -slow<Mbit/s> (only through the first
receiver's). Loss is independent at each receiver's port, of what arrives there; with --both-ways also of what leaves
it. With -nogro at the end, the receivers' interfaces do not join frames. Time runs from the start of the sender's process until the last receiver has the file, so it contains the start of
a session.

Needs root and network namespaces. Installs the Debian package uftp when it is missing and there are registries.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import networks
from deliveries import Cell, Started, chosen, fresh, install, memory, random_file, same
from networks import Network

ROOT = os.path.abspath(os.path.join(networks.HERE, ".."))
CELLS = [f"r{n}-l{loss}-d{delay}" for delay in (0, 10) for loss in (0, 1, 5, 20) for n in (1, 4, 16)]
CELLS += ["r4-l0-d0-port100", "r5-l0-d0-slow50"]
# Default cells for --protocol all.
FEW_CELLS = ["r1-l0-d0", "r4-l0-d0", "r4-l1-d0", "r4-l5-d0", "r4-l20-d0", "r1-l5-d0", "r4-l5-d10"]
# UFTP: datagrams that fill a frame, buffers of 4 MiB, and a rate (kbit/s) that no cell with loss or delay reaches.
UFTP_BLOCK, UFTP_BUFFER, UFTP_RATE = "1400", "4194304", "400000"

# Heading of processor seconds for each gigabyte of the file: user and system.
COSTS = f"{'sender, s/GB':>13} {'receivers':>13}"
# Seconds for receivers to end after a sender that failed.
LEFT_BEHIND = 12


class Run(NamedTuple):
    """One delivery; `seconds` until the last receiver had the file, `reason` if it failed."""

    seconds: float
    wire: float
    complete: bool
    codes: list[int | None]
    reason: str
    # Bytes sent by helpers and receivers together, per byte of the file.
    others: float = 0.0
    # Processor seconds of the sender, then of all receivers together; user and system of each.
    processor: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class Bench:
    def __init__(self, args: argparse.Namespace, folder: str) -> None:
        self.args = args
        self.folder = folder

    def size(self, cell: Cell) -> int:
        """Size of the file: large enough to make the start of the session negligible."""
        return self.args.bytes or (64_000_000 if cell.fast else 16_000_000)

    def file(self, size: int) -> str:
        return random_file(os.path.join(self.folder, f"file{size}"), size)

    def helpers(self, net: Network) -> list[str]:
        """Hosts of the helpers: the last ones."""
        return list(net.receivers)[len(net.receivers) - self.args.helpers :]

    def fresh(self, net: Network) -> dict[str, str]:
        """An empty directory for each receiver."""
        return fresh(self.folder, [name for name in net.receivers if name not in self.helpers(net)])

    def carillon(self, net: Network, file: str, protocol: str | None) -> Run:
        args, places = self.args, self.fresh(net)
        binary = os.path.abspath(args.binary)
        log = lambda host: os.path.join(self.folder, f"{host}.log")
        helping = self.helpers(net) if protocol in args.helped else []
        helpers = [
            Started(net, name, [binary, "relay", "--protocol", protocol or "", "--once", "--name", name], log(name))
            for name in helping
        ]
        receivers = [
            Started(net, name, [binary, "recv", "--name", name, "--out", place], log(name))
            for name, place in places.items()
        ]
        time.sleep(0.4)
        command = [binary, "send", file, "--receivers", str(len(receivers))]
        command += ["--protocol", protocol] if protocol else []
        command += ["--helpers", str(len(helping)), "--fanout", "1"] if helping else []
        for setting in args.set:
            command += ["--set", setting]
        by_others = lambda: sum(net.bytes_sent(name) for name in net.receivers)
        before, others, wall = net.bytes_sent("s"), by_others(), time.time()
        sender = Started(net, "s", command, log("s"))
        deadline = sender.begin + args.limit
        in_time = sender.ended_by(deadline)
        if not in_time or sender.process.returncode:
            # Receivers that the sender left behind report it after a silence timeout; receivers that never
            # joined wait for ever.
            deadline = max(sender.begin, min(deadline, time.monotonic() + LEFT_BEHIND))
        late = [one for one in [sender, *receivers] if not one.ended_by(deadline)]
        wire, others = net.bytes_sent("s") - before, by_others() - others
        for one in [sender, *receivers, *helpers]:
            one.stop()
        codes = [one.process.returncode if one.end <= deadline + 0.01 else None for one in [sender, *receivers]]
        copies = [same(file, self.copy(file, place)) for place in places.values()]
        reasons = []
        if late:
            who = "sender" if late[0] is sender else f"{len(late)} receivers"
            reasons.append(f"{who}: no end in {deadline - sender.begin:.0f} s")
        if not all(copies):
            reasons.append(f"{copies.count(False)} of {len(copies)} have no copy")
        if any(code == 0 and not copy for code, copy in zip(codes[1:], copies)):
            reasons.append("A RECEIVER WITHOUT A TRUE COPY SAYS 0")
        complete = not reasons and not any(codes)
        if not complete:
            lines = sender.lines()
            words = [line for line in lines if line.startswith(("carillon:", "error:"))][:1]
            words += [line for line in lines if re.search(r"  (lost|failed)\b", line)][:1]
            reasons += words or lines[-1:]
        # As with UFTP's hook: until the last receiver has the file under its name, given after verification.
        ends = [os.stat(self.copy(file, place)).st_ctime for place in places.values()] if all(copies) else []
        seconds = max(ends) - wall if ends else self.args.limit
        size = os.path.getsize(file)
        return Run(seconds, wire / size, complete, codes, "; ".join(reasons), others / size, used(sender, receivers))

    def uftp(self, net: Network, file: str) -> Run:
        places = self.fresh(net)
        identity = lambda host: f"0x{0x0A4D0000 + int(net.address(host).split('.')[-1]):08X}"
        hook = os.path.join(self.folder, "uftp-done.sh")
        with open(hook, "w") as out:
            out.write('#!/bin/sh\n: >"$BENCH_STAMP"\n')
        os.chmod(hook, 0o755)
        stamp = lambda name: os.path.join(self.folder, f"{name}.stamp")
        receivers = []
        for name, place in places.items():
            if os.path.exists(stamp(name)):
                os.unlink(stamp(name))
            command = ["uftpd", "-d", "-I", "eth0", "-B", UFTP_BUFFER, "-U", identity(name), "-D", place, "-s", hook]
            command += ["-c", "1048576"]
            log = os.path.join(self.folder, f"{name}.log")
            receivers.append(Started(net, name, command, log, {"BENCH_STAMP": stamp(name)}))
        time.sleep(0.5)
        command = ["uftp", "-I", "eth0", "-B", UFTP_BUFFER, "-b", UFTP_BLOCK, "-U", identity("s"), "-R", UFTP_RATE]
        command += ["-H", ",".join(identity(name) for name in places), file]
        before, wall = net.bytes_sent("s"), time.time()
        sender = Started(net, "s", command, os.path.join(self.folder, "s.log"))
        in_time = sender.ended_by(sender.begin + self.args.limit)
        wire = net.bytes_sent("s") - before
        sender.stop()
        time.sleep(0.1)
        for one in receivers:
            one.stop()
        copies = [same(file, self.copy(file, place)) for place in places.values()]
        ends = [os.stat(stamp(name)).st_mtime for name in places if os.path.exists(stamp(name))]
        complete = in_time and all(copies) and len(ends) == len(places) and sender.process.returncode == 0
        reason = f"{copies.count(False)} of {len(copies)} have no copy" + ("" if in_time else ", no end in time")
        seconds = max(ends) - wall if ends else self.args.limit
        reason = "" if complete else reason
        processor = used(sender, receivers)
        return Run(seconds, wire / os.path.getsize(file), complete, [sender.process.returncode], reason, processor=processor)

    def copy(self, file: str, place: str) -> str:
        return os.path.join(place, os.path.basename(file))

    def cell(self, cell: Cell, subjects: list[str]) -> None:
        """Runs of each subject in turn, so that other load on the machine affects all of them equally."""
        args = self.args
        file = self.file(self.size(cell))
        found: dict[str, list[Run]] = {subject: [] for subject in subjects}
        with cell.network(args.helpers) as net:
            cell.impair(net)
            for name in net.receivers:
                net.lose(name, cell.loss / 100 if args.both_ways else 0, "egress")
            for number in range(args.runs):
                for subject in subjects:
                    protocol = subject.partition(" ")[2] or None
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    run = self.uftp(net, file) if subject == "uftp" else self.carillon(net, file, protocol)
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    found[subject].append(run)
                    record = {"cell": cell.name, "subject": subject, "run": number, "bytes": os.path.getsize(file)}
                    # Processor time of sender and receivers, and of the processes that set them up.
                    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
                    self.record({**record, **run._asdict(), "user_seconds": user, "system_seconds": system})
                    if number + 1 == args.runs:
                        self.show(cell, subject, found)

    def record(self, values: dict[str, object]) -> None:
        if self.args.json:
            with open(self.args.json, "a") as out:
                out.write(json.dumps(values) + "\n")

    def show(self, cell: Cell, subject: str, found: dict[str, list[Run]]) -> None:
        def speeds(runs: list[Run]) -> list[float]:
            return sorted(self.size(cell) / 1e6 / run.seconds for run in runs if run.complete)

        runs = found[subject]
        good, peer = speeds(runs), speeds(found.get("uftp", []))
        wire = statistics.median(run.wire for run in runs)
        figures, ratio = f"{'-':>8} {'-':>8}", ""
        if good:
            figures = f"{statistics.median(good):>8.1f} {good[0]:>8.1f}"
        if good and peer and subject != "uftp":
            ratio = f"{statistics.median(good) / statistics.median(peer):.2f}"
        if self.args.helpers:
            ratio = f"{statistics.median(run.others for run in runs):.2f}"
        # For each gigabyte of the file.
        parts = zip(*(run.processor for run in runs))
        per_gigabyte = [statistics.median(part) * 1e9 / self.size(cell) for part in parts]
        costs = "{:6.2f}+{:<6.2f} {:6.2f}+{:<6.2f}".format(*per_gigabyte)
        complete = f"{len(good):>4}/{len(runs):<3} {ratio:>6} {costs} {codes_of(runs)}"
        print(f"{cell.name:<18} {subject:<24} {figures} {wire:>6.2f} {complete}", flush=True)
        for reason in sorted({run.reason for run in runs if not run.complete}):
            print(f"{'':<18}   {reason}", flush=True)


def used(sender: Started, receivers: list[Started]) -> tuple[float, float, float, float]:
    """Processor seconds of a sender and of its receivers: user and system."""
    usages = [one.usage for one in receivers if one.usage]
    own = (sender.usage.ru_utime, sender.usage.ru_stime) if sender.usage else (0.0, 0.0)
    return (*own, sum(usage.ru_utime for usage in usages), sum(usage.ru_stime for usage in usages))


def codes_of(runs: list[Run]) -> str:
    """Exit codes of sender and receivers in runs with a nonzero code; `?` did not end in time."""
    text = {
        " ".join("?" if code is None else str(code) for code in [run.codes[0], *sorted(run.codes[1:], key=str)])
        for run in runs
        if any(code != 0 for code in run.codes)
    }
    shown = sorted({shorter(codes) for codes in text})
    return "exit " + ", ".join(shown) if shown else "exit 0"


def shorter(codes: str) -> str:
    """`1 0 0 0 1` as `1; 3x0 1x1`."""
    sender, *others = codes.split()
    counted = [f"{others.count(code)}x{code}" for code in sorted(set(others))]
    return "; ".join([sender, " ".join(counted)]) if counted else sender


def have_uftp() -> str | None:
    """Reason why UFTP cannot run here; None if it can."""
    if not (shutil.which("uftp") and shutil.which("uftpd")):
        install("uftp")
    there = shutil.which("uftp") and shutil.which("uftpd")
    return None if there else "the package uftp is not installed and cannot be"


def listed(binary: str) -> list[dict[str, object]]:
    """Protocols that run over UDP, from `carillon protocols`."""
    text = subprocess.run([binary, "protocols", "--json"], check=True, capture_output=True, text=True).stdout
    return [entry for entry in json.loads(text) if "udp" in entry["networks"]]


def protocols(binary: str, wanted: str) -> list[str | None]:
    """The names asked for; None stands for the default."""
    if not wanted:
        return [None]
    if wanted != "all":
        return list(wanted.split(","))
    return [str(entry["name"]) for entry in listed(binary)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target", "release", "carillon"))
    parser.add_argument("--runs", type=int, default=1, help="runs of each in each cell")
    size = "of the file [64e6 on a clean network, otherwise 16e6; 1e6 with --protocol all]"
    parser.add_argument("--bytes", type=lambda text: int(float(text)), help=size)
    parser.add_argument("--cells", default="", help="names or patterns, with commas between them")
    parser.add_argument("--protocol", default="", help="names with commas between them, or all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for the sender")
    parser.add_argument("--peers", default="uftp", help="uftp, or none")
    parser.add_argument("--helpers", type=int, default=0, help="hosts that help, in a chain, where a protocol has helpers")
    parser.add_argument("--both-ways", action="store_true", help="lose what receivers send, too")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one delivery [60]")
    parser.add_argument("--json", metavar="FILE", help="append a line for each run")
    args = parser.parse_args()
    args.few = args.protocol == "all"
    if args.few:
        args.bytes, args.peers = args.bytes or 1_000_000, "none"
    reason = networks.why_not()
    if reason:
        sys.exit(f"bench-delivery: SKIPPED: {reason}")
    if not os.path.exists(args.binary):
        sys.exit(f"bench-delivery: there is no {args.binary}: run make bench-delivery, or name one with --binary")
    args.helped = [entry["name"] for entry in listed(args.binary) if args.helpers and "helper" in entry["roles"]]
    try:
        cells = chosen(args.cells or ",".join(FEW_CELLS if args.few else CELLS), CELLS)
    except ValueError as problem:
        sys.exit(f"bench-delivery: {problem}")
    subjects = ["carillon" + (f" {name}" if name else "") for name in protocols(args.binary, args.protocol)]
    if args.peers == "uftp":
        missing = have_uftp()
        if missing:
            print(f"UFTP is not beside it: {missing}")
        else:
            # First, as the base of comparison.
            subjects.insert(0, "uftp")
    # Turn a termination signal into an exception, so that the networks are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    load = os.getloadavg()[0]
    machine = f"{os.cpu_count()} processors, Linux {platform.release()}, load {load:.1f} before"
    print(f"{machine}; frames of 1500 bytes; runs of each: {args.runs}")
    last = "others" if args.helpers else "/UFTP"
    print(f"{'cell':<18} {'':<24} {'MB/s':>8} {'least':>8} {'wire':>6} {'complete':>8} {last:>6} {COSTS}  sender; receivers")
    with tempfile.TemporaryDirectory(dir=memory(), prefix="carillon-bench-") as folder:
        bench = Bench(args, folder)
        for cell in cells:
            bench.cell(cell, subjects)


if __name__ == "__main__":
    main()
