#!/usr/bin/env python3
"""Measures the rate that `carillon send` finds on an unknown link, and its share beside other traffic: alone, two sessions
at once, and beside a TCP connection. The link is the port of one receiver; all traffic arriving there is counted per second,
by group or connection. Prints

    second   in which a session first carried 90 % of the link (counted from the first packet)
    share    of the link that each carried, from the fifth second of both on
    Jain     (x1 + x2)^2 / 2 (x1^2 + x2^2) of the two shares: 1 is fair (Jain, Chiu and Hawe 1984)

and asserts nothing. Shares count whole frames.

    scripts/bench-shared-link.py                     all cells, some ten minutes
    scripts/bench-shared-link.py --cells '*-100-*' --seconds 30 --tcp cubic,bbr

A cell is called <alone|two|tcp>-<Mbit/s>-d<delay each way in ms>. The port queues 256 KiB, or what the link carries in a
round trip if that is more. Needs root and network namespaces.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import time

import networks
from deliveries import Started, matching
from networks import Network

ROOT = os.path.abspath(os.path.join(networks.HERE, ".."))
LINKS = [(rate, delay) for delay in (0, 25) for rate in (10, 100, 1000)]
CELLS = [f"{who}-{rate}-d{delay}" for who in ("alone", "two", "tcp") for rate, delay in LINKS]
GROUPS = ["239.255.67.65:7654", "239.255.67.66:7655"]
# By this second both sessions have started and had time to find their share.
SETTLED = 5

TCP = """
import socket, sys
where, algorithm = sys.argv[1], sys.argv[2]
if algorithm == "sink":
    listener = socket.create_server((where, 7700))
    print("ready", flush=True)
    peer, _ = listener.accept()
    while peer.recv(1 << 16):
        pass
else:
    peer = socket.socket()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    peer.connect((where, 7700))
    block = bytes(1 << 16)
    while True:
        peer.sendall(block)
"""


class Cell:
    def __init__(self, name: str) -> None:
        found = re.fullmatch(r"(alone|two|tcp)-(\d+(?:\.\d+)?)-d(\d+(?:\.\d+)?)", name)
        if not found:
            sys.exit(f"bench-shared-link: {name!r} is no cell; they are called like two-100-d25")
        self.name, self.who = name, found[1]
        self.rate, self.delay = float(found[2]), float(found[3])


def counted(net: Network, groups: list[str]) -> None:
    """Counts what arrives at the first receiver, by group and of TCP."""
    rules = [f"ip daddr {group.split(':')[0]} counter" for group in groups] + ["ip protocol tcp counter"]
    chain = "type filter hook ingress device eth0 priority 0; " + "; ".join(rules)
    net.shell("r1", "nft -f -", text=f"table netdev count {{ chain c {{ {chain}\n }}\n }}\n")


def counts(net: Network) -> list[int]:
    # The counters count packets of the network layer; frames have 14 bytes more.
    text = net.shell("r1", "nft list table netdev count")
    return [int(size) + 14 * int(packets) for packets, size in re.findall(r"packets (\d+) bytes (\d+)", text)]


def series(args: argparse.Namespace, cell: Cell, tcp: str, folder: str) -> list[list[float]]:
    """Of each session and of TCP: Mbit/s in each second."""
    binary = os.path.abspath(args.binary)
    file = os.path.join(folder, "file")
    with open(file, "wb") as out:
        # Zeros, without a place on the disk; no protocol compresses.
        out.truncate(int(cell.rate * 1e6 / 8 * (args.seconds + 10)))
    groups = GROUPS[: 2 if cell.who == "two" else 1]
    receivers = [f"r{number + 1}" for number in range(args.receivers)]
    with Network(args.receivers, cell.delay) as net:
        trip = 2 * cell.delay / 1000
        net.rate_in("r1", cell.rate, max(262144, round(cell.rate * 1e6 / 8 * trip)))
        counted(net, groups)
        running: list[Started] = []

        def start(host: str, *command: str) -> Started:
            log = os.path.join(folder, f"{len(running)}.log")
            running.append(Started(net, host, list(command), log))
            return running[-1]

        try:
            for number, group in enumerate(groups):
                for host in receivers:
                    place = os.path.join(folder, f"{host}-{number}")
                    os.makedirs(place, exist_ok=True)
                    start(host, binary, "recv", "--group", group, "--name", host, "--out", place, "--overwrite")
            time.sleep(0.5)
            if tcp:
                sink = start("r1", sys.executable, "-c", TCP, net.address("r1"), "sink")
                while not (sink.text() or sink.ended):
                    time.sleep(0.05)
                start("s", sys.executable, "-c", TCP, net.address("r1"), tcp)
            settings = [word for setting in args.set for word in ("--set", setting)]
            command = [binary, "send", file, "--receivers", str(args.receivers), *settings, "--group"]
            sessions = [start("s", *command, group) for group in groups]
            before, rows = counts(net), []
            begin = time.monotonic()
            for second in range(1, args.seconds + 1):
                time.sleep(max(0.0, begin + second - time.monotonic()))
                now = counts(net)
                rows.append([(new - old) * 8 / 1e6 for new, old in zip(now, before)])
                before = now
            for one in sessions:
                if one.ended:
                    print(f"    a session has ended before its time: {' / '.join(one.lines()[:2])}", flush=True)
            return [list(column) for column in zip(*rows)]
        finally:
            for one in running:
                one.signal(signal.SIGKILL)
                one.ended_by(time.monotonic() + 3)


def show(cell: Cell, tcp: str, columns: list[list[float]]) -> None:
    sessions = columns[:-1] if cell.who != "tcp" else columns
    means = [sum(column[SETTLED:]) / max(1, len(column[SETTLED:])) for column in sessions]
    shares = " ".join(f"{mean / cell.rate:.2f}" for mean in means)
    reached = next((n + 1 for n, rate in enumerate(columns[0]) if rate >= 0.9 * cell.rate), None)
    second = str(reached or "-") if cell.who == "alone" else ""
    jain = f"{sum(means) ** 2 / 2 / max(1e-9, sum(mean**2 for mean in means)):.2f}" if len(means) == 2 else ""
    name = f"{cell.name}{' ' + tcp if tcp else ''}"
    print(f"{name:<22} {second:>6}  {shares:<12} {jain:>6}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target", "release", "carillon"))
    parser.add_argument("--cells", default="", help="names or patterns, with commas between them")
    parser.add_argument("--seconds", type=int, default=20, help="of each run [20]")
    others = "of each session; all but the first are on ports of their own that carry anything [1]"
    parser.add_argument("--receivers", type=int, default=1, help=others)
    parser.add_argument("--tcp", default="cubic,bbr", help="congestion controls of the connection beside it [cubic,bbr]")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for the sender")
    parser.add_argument("--verbose", action="store_true", help="print each second")
    args = parser.parse_args()
    if args.receivers < 1:
        parser.error("--receivers: there is at least one")
    reason = networks.why_not()
    if reason:
        sys.exit(f"bench-shared-link: SKIPPED: {reason}")
    if not os.path.exists(args.binary):
        sys.exit(f"bench-shared-link: there is no {args.binary}: run make bench-shared-link, or name one with --binary")
    cells = [Cell(name) for name in matching(args.cells or "*", CELLS)]
    # Turn a termination signal into an exception, so that the networks are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"{'cell':<22} {'second':>6}  {'share':<12} {'Jain':>6}")
    for cell in cells:
        for tcp in args.tcp.split(",") if cell.who == "tcp" else [""]:
            with tempfile.TemporaryDirectory(prefix="carillon-bench-") as folder:
                columns = series(args, cell, tcp, folder)
                show(cell, tcp, columns)
                if args.verbose:
                    for column in columns:
                        print("    " + " ".join(f"{rate:.0f}" for rate in column), flush=True)


if __name__ == "__main__":
    main()
