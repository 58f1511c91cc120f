#!/usr/bin/env python3
"""Reliable multicast to four receivers over loopback, beside TCP to four receivers, by size of buffer.

usage: bench-loopback.py BINARY [--protocol rra] [--buffers 8192,65536] [--bytes 400000000] [--rounds 3]

Goodput is the bits of the message for one receiver over the time until the last receiver has it. TCP writes each buffer to
the four connections in turn. The receivers of `carillon metric --local` are threads of its process; TCP has processes.
Prints the best of the alternating rounds, and asserts nothing.

Where sender and receivers share processors, that measures all of them together. The second figure is the sender alone, as if
it had its own core: the same bits over the processor time of its threads, including the threads that offer the message.
"""

import argparse
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time

RECEIVERS = 4
# Threads that send, and the sampling interval of their processor time (seconds).
SENDER = "carillon-send"
LOOK = 0.005


def sender_time(process, before):
    """Processor seconds of the threads that offer and send; an ended thread keeps its last sample."""
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except FileNotFoundError:
        return before
    for thread in threads:
        try:
            with open(f"/proc/{process}/task/{thread}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(") ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name == SENDER or thread == str(process):
            fields = rest.split()
            before[thread] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return before


def multicast(binary, protocol, size, total):
    command = [binary, "metric", "--local", str(RECEIVERS), "--protocol", protocol, "--message", str(total)]
    command += ["--buffers", str(size), "--interface", "lo", "--json"]
    run, times = subprocess.Popen(command, stdout=subprocess.PIPE, text=True), {}
    while run.poll() is None:
        times = sender_time(run.pid, times)
        time.sleep(LOOK)
    out = run.stdout.read()
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    rows = [row for row in rows if row["event"] == "row"]
    if run.returncode or len(rows) != 1:
        sys.exit(f"{' '.join(command)}: {out}")
    return rows[0]["megabits_per_second"] / 1000, total * 8 / sum(times.values()) / 1e9


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
    data, began, sent, busy = memoryview(bytes(size)), time.monotonic(), 0, time.process_time()
    while sent < total:
        piece = data[: min(size, total - sent)]
        for connection in connections:
            connection.sendall(piece)
        sent += len(piece)
    for connection in connections:
        connection.recv(1)
    taken, busy = time.monotonic() - began, time.process_time() - busy
    for reader in readers:
        reader.join()
    return total * 8 / taken / 1e9, total * 8 / busy / 1e9


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--protocol", default="rra")
    parser.add_argument("--buffers", default="8192,16384,65536")
    parser.add_argument("--bytes", type=int, default=400_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(f"{args.protocol} to {RECEIVERS} receivers and TCP to as many, {args.bytes // 10**6} MB over loopback")
    print("buffer, bytes   multicast, Gbit/s   TCP, Gbit/s   ratio   of a sender's core: multicast    TCP   ratio")
    for size in map(int, args.buffers.split(",")):
        best = {"multicast": (0.0, 0.0), "tcp": (0.0, 0.0)}
        for _ in range(args.rounds):
            for name, one in (
                ("multicast", multicast(args.binary, args.protocol, size, args.bytes)),
                ("tcp", tcp(size, args.bytes)),
            ):
                best[name] = tuple(map(max, best[name], one))
        (whole, core), (tcp_whole, tcp_core) = best["multicast"], best["tcp"]
        print(
            f"{size:13}   {whole:17.2f}   {tcp_whole:11.2f}   {whole / tcp_whole:5.2f}"
            f"   {core:29.2f}   {tcp_core:4.2f}   {core / tcp_core:5.2f}"
        )


main()
