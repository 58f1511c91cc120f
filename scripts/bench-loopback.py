#!/usr/bin/env python3
"""Reliable multicast to four receivers over loopback, beside TCP to four receivers, by size of buffer.

usage: bench-loopback.py BINARY [--protocol rra] [--buffers 8192,65536] [--bytes 400000000] [--rounds 3]

Both count what one receiver gets of the message, in bits, over the time until the last of them has it; TCP writes each buffer to the
four connections in turn. The receivers of `carillon metric --local` are threads of its process, those of TCP are processes. Prints the better of the rounds, taken by turns, and asserts nothing.
"""

import argparse
import json
import multiprocessing
import socket
import subprocess
import sys
import time

RECEIVERS = 4


def multicast(binary, protocol, size, total):
    command = [binary, "metric", "--local", str(RECEIVERS), "--protocol", protocol, "--message", str(total)]
    command += ["--buffers", str(size), "--interface", "lo", "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    rows = [row for row in rows if row["event"] == "row"]
    if run.returncode or len(rows) != 1:
        sys.exit(f"{' '.join(command)}: {run.stdout}{run.stderr}")
    return rows[0]["megabits_per_second"] / 1000


def drain(port, total):
    connection = socket.create_connection(("127.0.0.1", port))
    buffer = bytearray(1 << 18)
    left = total
    while left > 0:
        got = connection.recv_into(buffer)
        if not got:
            sys.exit("TCP ended early")
        left -= got
    connection.sendall(b"!")


def tcp(size, total):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    readers = [multiprocessing.Process(target=drain, args=(port, total)) for _ in range(RECEIVERS)]
    for reader in readers:
        reader.start()
    connections = [listener.accept()[0] for _ in readers]
    data, began, sent = memoryview(bytes(size)), time.monotonic(), 0
    while sent < total:
        piece = data[: min(size, total - sent)]
        for connection in connections:
            connection.sendall(piece)
        sent += len(piece)
    for connection in connections:
        connection.recv(1)
    taken = time.monotonic() - began
    for reader in readers:
        reader.join()
    return total * 8 / taken / 1e9


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--protocol", default="rra")
    parser.add_argument("--buffers", default="8192,16384,65536")
    parser.add_argument("--bytes", type=int, default=400_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(f"{args.protocol} to {RECEIVERS} receivers and TCP to as many, {args.bytes // 10**6} MB over loopback")
    print("buffer, bytes   multicast, Gbit/s   TCP, Gbit/s   ratio")
    for size in map(int, args.buffers.split(",")):
        best = {"multicast": 0.0, "tcp": 0.0}
        for _ in range(args.rounds):
            best["multicast"] = max(best["multicast"], multicast(args.binary, args.protocol, size, args.bytes))
            best["tcp"] = max(best["tcp"], tcp(size, args.bytes))
        ratio = best["multicast"] / best["tcp"]
        print(f"{size:13}   {best['multicast']:17.2f}   {best['tcp']:11.2f}   {ratio:5.2f}")


main()
