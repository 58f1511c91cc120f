#!/usr/bin/env python3
"""Measures the latency of live messages of 100 bytes from one sender to several receivers: with Carillon (`carillon metric`),
ZeroMQ over epgm and over norm, NORM streams, and Aeron. All run on the same networks of real frames of 1500 bytes with the
same losses, in turn within each cell. The hosts are namespaces of one machine, with one clock.

    scripts/bench-latency.py                             four minutes
    scripts/bench-latency.py --cells m10000-l1 --peers carillon,aeron --runs 3

A cell is called m<messages a second>-l<loss in % of what arrives at each receiver>. Prints the share of
messages delivered to the receiver with the least, and the latency at the worst receiver, from the time at which each
message was due: percentiles 50, 99 and 99.9. A message that waits for a blocked sender counts as late, too. Medians of
runs.

Needs root and network namespaces. Missing programs are installed, or named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

import networks
from deliveries import Started, fresh, install, memory
from networks import Network
from peers.programs import AERON, BUILT, JAVA, ROOT, Missing, aeron_jar, compiled, compiled_java, debian, java_version
from peers.programs import output_of, said

CELLS = ["m10000-l0", "m10000-l1", "m100000-l0", "m100000-l1"]
ZMQ = {"zmq-epgm": "epgm://{address};239.6.6.6:5555", "zmq-norm": "norm://{node},eth0;239.5.5.5:5556"}
TITLES = {
    "carillon": "Carillon",
    "carillon-unordered": "Carillon, as they come",
    "zmq-epgm": "ZeroMQ, epgm",
    "zmq-norm": "ZeroMQ, norm",
    "norm": "NORM, a stream",
    "aeron": "Aeron",
}
# Settings of each program.
OURS = {"carillon": [], "carillon-unordered": ["--set", "order=arrival"]}


class Lateness(NamedTuple):
    """Result of one receiver: messages received and expected, and latencies in microseconds."""

    came: int
    total: int
    p50: float
    p99: float
    p999: float


def prepare(peer: str, binary: str) -> str:
    """Installs the program if necessary; returns its version."""
    if peer in OURS:
        if not os.path.exists(binary):
            raise Missing(f"there is no {binary}: run make bench-latency, or name one with --binary")
        return output_of(binary, "--version").split()[-1]
    if peer == "norm":
        if not os.path.exists("/usr/include/normApi.h"):
            install("libnorm-dev", "g++")
        compiled("norm-live.cpp", "g++", "-lnorm", "-lprotokit", "-lpthread", "-ldl")
        return debian("libnorm-dev")
    if peer == "aeron":
        aeron_jar()
        compiled_java("AeronLive")
        return f"{AERON} (Java driver), {java_version()}"
    if not os.path.exists("/usr/include/zmq.h"):
        install("libzmq3-dev", "gcc")
    compiled("zmq-live.c", "gcc", "-lzmq")
    return debian("libzmq3-dev")


def commands(peer: str, net: Network, host: str, folder: str, binary: str, rate: float, seconds: float) -> list[str]:
    """Command of a host, the sender's or a receiver's."""
    sends, number, address = host == "s", str(len(net.receivers)), net.address(host)
    node = "1" if sends else address.split(".")[-1]
    flow = [f"{rate:g}", f"{seconds:g}"] if sends else []
    role = "send" if sends else "recv"
    if peer in OURS:
        if not sends:
            return [binary, "metric", "-R", "--name", host, "--json"]
        latency = ["--latency", f"{rate:g}", "--buffers", "100", "--time", f"{seconds:g}"]
        return [binary, "metric", "-T", "--receivers", number, *latency, *OURS[peer], "--json"]
    if peer == "norm":
        return [os.path.join(BUILT, "norm-live"), role, *(flow if sends else [node])]
    if peer == "aeron":
        driver = os.path.join(folder, host, "driver")
        return [*JAVA, "-cp", f"{BUILT}:{aeron_jar()}", "AeronLive", role, driver, address, number, *flow]
    return [os.path.join(BUILT, "zmq-live"), role, ZMQ[peer].format(node=node, address=address), *flow]


def lateness(peer: str, text: str, total: int) -> Lateness | None:
    """Parses the output of a receiver."""
    if peer not in OURS:
        done = said(text, "DONE")
        return Lateness(int(done[0]), total, *done[2:5]) if done else None
    for line in text.splitlines():
        if line.startswith("{") and '"received"' in line:
            told = json.loads(line)
            times = told["latency_us"]
            return Lateness(told["calls"], total, times["p50"], times["p99"], times["p99.9"])
    return None


def run(peer: str, net: Network, folder: str, args: argparse.Namespace, rate: float) -> list[Lateness | None]:
    fresh(folder, net.hosts)
    log = lambda host: os.path.join(folder, f"{host}.log")
    start = lambda host: Started(
        net, host, commands(peer, net, host, folder, args.binary, rate, args.seconds), log(host)
    )
    receivers = [start(name) for name in net.receivers]
    tells = peer not in OURS
    ready = time.monotonic() + 30
    while tells and time.monotonic() < ready and not all(said(one.text(), "READY") is not None for one in receivers):
        time.sleep(0.05)
    time.sleep(1)
    sender = start("s")
    deadline = time.monotonic() + args.seconds * 3 + 15
    try:
        # Carillon's receivers wait for the next transmission; the other senders stay to send repairs.
        for one in receivers if tells else [sender]:
            one.ended_by(deadline)
        time.sleep(0 if tells else 0.5)
    finally:
        for one in [sender, *receivers]:
            one.signal(signal.SIGTERM)
        for one in [sender, *receivers]:
            one.stop()
    total = round(rate * args.seconds)
    return [lateness(peer, one.text(), total) for one in receivers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target", "release", "carillon"))
    parser.add_argument("--runs", type=int, default=1, help="runs of each in each cell [1]")
    parser.add_argument("--cells", default=",".join(CELLS), help="names with commas between them")
    parser.add_argument(
        "--peers", default=",".join(TITLES), help="names with commas between them: " + ", ".join(TITLES)
    )
    parser.add_argument("--receivers", type=int, default=4, help="how many [4]")
    parser.add_argument("--seconds", type=float, default=5, help="of each run [5]")
    args = parser.parse_args()
    args.binary = os.path.abspath(args.binary)
    reason = networks.why_not()
    if reason:
        sys.exit(f"bench-latency: SKIPPED: {reason}")
    cells = [(name, re.fullmatch(r"m(\d+)-l(\d+(?:\.\d+)?)", name)) for name in args.cells.split(",")]
    for name, found in cells:
        if not found:
            sys.exit(f"bench-latency: {name!r} is no cell; they are called like m10000-l1")
    if set(args.peers.split(",")) - set(TITLES):
        sys.exit(f"bench-latency: there are {', '.join(TITLES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    versions: dict[str, str] = {}
    for peer in args.peers.split(","):
        try:
            versions[peer] = prepare(peer, args.binary)
        except Missing as problem:
            print(f"{TITLES[peer]} is left out: {problem}", flush=True)
    print(f"\n| | {args.receivers} receivers | came | p50 | p99 | p99.9 |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(dir=memory(), prefix="carillon-latency-") as folder:
        for name, found in cells:
            assert found
            rate, loss = float(found.group(1)), float(found.group(2)) / 100
            with Network(args.receivers) as net:
                for host in net.receivers:
                    net.lose(host, loss)
                results: dict[str, list[list[Lateness | None]]] = {peer: [] for peer in versions}
                for _ in range(args.runs):
                    for peer in versions:
                        results[peer].append(run(peer, net, folder, args, rate))
            for peer, runs in results.items():
                print(f"| `{name}` | {TITLES[peer]} | {line_of(runs)} |", flush=True)
    print("\n" + "; ".join(f"{TITLES[peer]} {version}" for peer, version in versions.items()))


def line_of(runs: list[list[Lateness | None]]) -> str:
    """Columns of a row: least delivered share and worst latencies, as medians of runs."""
    heard = [[one for one in receivers if one] for receivers in runs]
    came = min(
        (min(one.came / one.total for one in ones) if len(ones) == len(all) else 0) for ones, all in zip(heard, runs)
    )
    if not any(heard):
        return "nothing | | | "
    worst = lambda key: statistics.median(max(getattr(one, key) for one in ones) for ones in heard if ones)
    figure = lambda value: f"{value / 1000:.2f} ms" if value < 1e5 else f"{value / 1e6:.2f} s"
    part = f"{came:.1%}" if came < 1 else "all"
    return " | ".join([part, *(figure(worst(key)) for key in ("p50", "p99", "p999"))])


if __name__ == "__main__":
    main()
