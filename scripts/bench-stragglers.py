#!/usr/bin/env python3
"""Measures the cost of one straggler for the others: one of sixteen receivers loses packets, is slow, stops or is killed,
with `carillon send` and `recv` as a user would start them. Prints, for each case,

    others   seconds until the last of the others has the file under its name
    more     how much longer that is than without that receiver (its median), in per cent
    wire     bytes on the sender's wire by then, for each byte of the file
    itself   seconds until the straggler has the file, or its outcome

and asserts nothing but that every copy is the file, byte for byte.

    scripts/bench-stragglers.py                      all cases once, some minutes
    scripts/bench-stragglers.py --cases lossy,slow --runs 3 --receivers 4
    scripts/bench-stragglers.py --up 0               nothing but the machine slows the sender: all share its processors

The sender's port carries 100 Mbit/s (`--up`), so that the machine's processors are not the bottleneck. Needs root and
network namespaces.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

import networks
from deliveries import Started, fresh, memory, random_file, same
from networks import Network

ROOT = os.path.abspath(os.path.join(networks.HERE, ".."))
CASES = {
    "without": "the receiver is not there",
    "with": "nothing is wrong with it",
    "lossy": "20 % of what arrives at it is lost",
    "slow": "its port carries 1 % of what the sender's does, or of 1 Gbit/s",
    "frozen": "it stands still for ten seconds, from a third of the file on",
    "killed": "it is killed after a third of the file",
}
FROZEN = 10.0


class Run(NamedTuple):
    others: float
    wire: float
    itself: str


def run(args: argparse.Namespace, case: str, file: str, folder: str) -> Run:
    binary, size = os.path.abspath(args.binary), os.path.getsize(file)
    with Network(args.receivers) as net:
        if args.up:
            net.rate_out("s", args.up)
        if case == "lossy":
            net.lose("r1", 0.2)
        if case == "slow":
            net.rate_in("r1", (args.up or 1000) / 100)
        names = [name for name in net.receivers if case != "without" or name != "r1"]
        log = lambda host: os.path.join(folder, f"{host}.log")
        places = fresh(folder, names)
        copy = {name: os.path.join(place, os.path.basename(file)) for name, place in places.items()}
        receiving = {
            name: Started(net, name, [binary, "recv", "--name", name, "--out", place], log(name))
            for name, place in places.items()
        }
        time.sleep(0.5)
        command = [binary, "send", file, "--receivers", str(len(names))]
        begin, wall, before = time.monotonic(), time.time(), net.bytes_sent("s")
        sender = Started(net, "s", command, log("s"))
        others = [name for name in names if name != "r1"]
        woken = 0.0
        wire = 0.0
        try:
            while time.monotonic() < begin + args.limit:
                time.sleep(0.02)
                sent = net.bytes_sent("s") - before
                if case in ("frozen", "killed") and not woken and sent > size / 3:
                    receiving["r1"].signal(signal.SIGSTOP if case == "frozen" else signal.SIGKILL)
                    woken = time.monotonic() + FROZEN
                if case == "frozen" and woken and time.monotonic() >= woken:
                    receiving["r1"].signal(signal.SIGCONT)
                if not wire and all(os.path.exists(copy[name]) for name in others):
                    wire = sent / size
                if sender.ended and all(one.ended for one in receiving.values()):
                    break
            end = "" if case == "without" else itself(file, copy["r1"], wall, receiving["r1"])
        finally:
            for one in [sender, *receiving.values()]:
                one.signal(signal.SIGCONT)
                one.stop()
        wrong = [name for name in others if not same(file, copy[name])]
        if wrong:
            sys.exit(f"bench-stragglers: {case}: no copy, or not the file: {', '.join(wrong)}\n{sender.text()}")
        seconds = max(os.stat(copy[name]).st_ctime for name in others) - wall
        return Run(seconds, wire, end)


def itself(file: str, copy: str, wall: float, one: Started) -> str:
    """Time at which the straggler had the file, or its outcome."""
    if os.path.exists(copy):
        if not same(file, copy):
            sys.exit("bench-stragglers: A COPY THAT IS NOT THE FILE")
        return f"{os.stat(copy).st_ctime - wall:.1f}"
    how = {None: "not yet", -signal.SIGKILL: "killed"}
    return how.get(one.code, f"has not got it, exit {one.code}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target", "release", "carillon"))
    parser.add_argument("--cases", default=",".join(CASES), help="; ".join(f"{name}: {what}" for name, what in CASES.items()).replace("%", "%%"))
    parser.add_argument("--runs", type=int, default=1, help="of each case, by turns [1]")
    parser.add_argument("--receivers", type=int, default=16, help="with the one [16]")
    parser.add_argument("--up", type=float, default=100, metavar="MBIT", help="the sender's port carries so much; 0: anything [100]")
    parser.add_argument("--bytes", type=lambda text: int(float(text)), default=240_000_000, help="of the file [240e6]")
    parser.add_argument("--limit", type=float, default=90, help="seconds that one has [90]: a slow one is not waited for longer")
    args = parser.parse_args()
    cases = args.cases.split(",")
    unknown = [case for case in cases if case not in CASES]
    if unknown or args.receivers < 2:
        parser.error(f"--cases: there is no {unknown[0]}" if unknown else "--receivers: two at least")
    reason = networks.why_not()
    if reason:
        sys.exit(f"bench-stragglers: SKIPPED: {reason}")
    if not os.path.exists(args.binary):
        sys.exit(f"bench-stragglers: there is no {args.binary}: run make bench-stragglers, or name one with --binary")
    # Turn a termination signal into an exception, so that the networks are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"{'case':<10} {'others':>8} {'more':>7} {'wire':>6}  itself")
    found: dict[str, list[Run]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory(dir=memory(), prefix="carillon-bench-") as folder:
        file = random_file(os.path.join(folder, "file"), args.bytes)
        for _ in range(args.runs):
            for case in cases:
                found[case].append(one := run(args, case, file, folder))
                base = [other.others for other in found.get("without", [])]
                more = f"{100 * (one.others / statistics.median(base) - 1):+.1f}" if base else ""
                print(f"{case:<10} {one.others:>8.2f} {more:>7} {one.wire:>6.2f}  {one.itself}", flush=True)


if __name__ == "__main__":
    main()
