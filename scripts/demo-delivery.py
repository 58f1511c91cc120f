#!/usr/bin/env python3
"""The first half of the demonstration: a real file to four receivers that lose 0, 1, 5 and 20 % of what arrives, in
frames of 1500 bytes; one of them is killed on the way and started again. As root each end is a machine of its own (a
network namespace) and its port loses; elsewhere all are on loopback, with datagrams as long as such frames carry, and
each receiver drops what it is to lose.

    scripts/demo-delivery.py CARILLON FILE
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import networks

RECEIVERS = {"alice": 0.0, "bob": 0.01, "carol": 0.05, "dave": 0.2}
KILLED = "carol"


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def digest(path: str) -> str:
    state = hashlib.sha256()
    with open(path, "rb") as data:
        while piece := data.read(1 << 20):
            state.update(piece)
    return state.hexdigest()


def came(directory: str) -> int:
    """Bytes of what is being received there."""
    found = 0
    for entry in os.scandir(directory):
        with contextlib.suppress(FileNotFoundError):
            found += entry.stat().st_size
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("carillon", type=os.path.abspath, help="the binary")
    parser.add_argument("file", type=os.path.abspath, help="what is sent")
    args = parser.parse_args()
    carillon, file = args.carillon, args.file
    what = f"{os.path.basename(file)}, {os.path.getsize(file) / 1e6:.0f} MB"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    reason = networks.why_not()
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(tempfile.TemporaryDirectory(prefix="carillon-demo-"))
        net = None if reason else stack.enter_context(networks.Network(len(RECEIVERS)))
        if net:
            for number, loss in enumerate(RECEIVERS.values(), 1):
                if loss:
                    net.lose(f"r{number}", loss)
            say(f"1. {what}, to four machines in frames of 1500 bytes, whose ports lose 0, 1, 5 and 20 % of what arrives")
        else:
            say(f"1. {what}, to four receivers on loopback in datagrams of 1472 bytes; they drop 0, 1, 5 and 20 % of them")
            print(f"   (with frames and ports of a real network only as root: {reason})", flush=True)

        def receive(name: str) -> subprocess.Popen[bytes]:
            number = list(RECEIVERS).index(name) + 1
            os.makedirs(os.path.join(work, name), exist_ok=True)
            command = [carillon, "recv", "--name", name, "--out", os.path.join(work, name)]
            before = net.inside(f"r{number}") if net else []
            command += [] if net else ["--interface", "lo", "--drop", str(RECEIVERS[name]), "--seed", str(number)]
            with open(os.path.join(work, f"{name}.log"), "a") as log:
                one = subprocess.Popen([*before, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            stack.callback(one.wait)
            stack.callback(one.kill)
            return one

        running = {name: receive(name) for name in RECEIVERS}
        command = [carillon, "send", file, "--expect", ",".join(RECEIVERS)]
        command += [] if net else ["--interface", "lo", "--datagram", "1472"]
        sent = net.bytes_sent("s") if net else 0
        sender = subprocess.Popen([*(net.inside("s") if net else []), *command])
        while sender.poll() is None and came(os.path.join(work, KILLED)) < os.path.getsize(file) // 3:
            time.sleep(0.01)
        if sender.poll() is None:
            running[KILLED].kill()
            print(f"(a third has come: {KILLED} is killed, and started again)", flush=True)
            running[KILLED].wait()
            running[KILLED] = receive(KILLED)
        sender.wait()
        if net:
            ratio = (net.bytes_sent("s") - sent) / os.path.getsize(file)
            print(f"{ratio:.2f} bytes have left the sender's port for each byte of the file.")
        if sender.returncode or any([one.wait() for one in running.values()]):
            sys.exit("a receiver has not got the file")
        say("The digests of the original and of the four copies:")
        copies = [os.path.join(work, name, os.path.basename(file)) for name in RECEIVERS]
        digests = [digest(path) for path in [file, *copies]]
        for path, value in zip([os.path.basename(file), *(os.path.relpath(copy, work) for copy in copies)], digests):
            print(f"{value}  {path}")
        if len(set(digests)) != 1:
            sys.exit("the copies differ")


if __name__ == "__main__":
    main()
