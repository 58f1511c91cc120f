#!/usr/bin/env python3
"""Measures the goodput of `carillon send` to 1, 4 and 16 receivers on loopback, against the same payload over as many
parallel TCP connections with receivers that discard the bytes. Carillon's receivers verify a digest; in the first column
they also write the file, in the second they discard it. Prints the ratios of both to TCP; asserts nothing.

    scripts/bench-goodput.py [target/release/carillon] [--megabytes N] [--protocol NAME] [--rounds N]
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time


def tcp_seconds(payload: bytes, receivers: int) -> float:
    """Seconds until every one of `receivers` processes has the payload from its own connection."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=receivers)
    port = listener.getsockname()[1]
    code = (
        "import socket,sys\n"
        "s=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n"
        "b=bytearray(1<<20); n=0\n"
        "while True:\n"
        "    k=s.recv_into(b)\n"
        "    if k==0: break\n"
        "    n+=k\n"
        "s.sendall(n.to_bytes(8,'big'))\n"
    )
    peers = [subprocess.Popen(["python3", "-c", code, str(port)]) for _ in range(receivers)]
    connections = [listener.accept()[0] for _ in range(receivers)]

    def serve(connection: socket.socket) -> None:
        connection.sendall(payload)
        connection.shutdown(socket.SHUT_WR)
        assert int.from_bytes(connection.recv(8), "big") == len(payload)

    begin = time.perf_counter()
    threads = [threading.Thread(target=serve, args=(c,)) for c in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    for peer in peers:
        peer.wait()
    return seconds


def carillon_seconds(binary: str, file: str, folder: str, receivers: int, protocol: str, number: int, store: bool) -> float:
    """Seconds of the transfer itself, as the sender reports them."""
    group = f"239.255.67.{number % 250 + 1}:7655"
    names = [f"r{i}" for i in range(receivers)]
    peers = []
    for name in names:
        out = os.path.join(folder, f"{number}-{name}")
        os.mkdir(out)
        command = [binary, "recv", "--interface", "lo", "--group", group, "--name", name]
        command += ["--out", out] if store else ["--stdout"]
        peers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    command = [binary, "send", file, "--interface", "lo", "--group", group, "--protocol", protocol, "--json"]
    output = subprocess.run(command + ["--receivers", str(receivers)], check=True, capture_output=True, text=True)
    for peer in peers:
        assert peer.wait() == 0
    for name in names:
        out = os.path.join(folder, f"{number}-{name}")
        for entry in os.listdir(out):
            os.unlink(os.path.join(out, entry))
    return json.loads(output.stdout.splitlines()[-1])["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="target/release/carillon")
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--protocol", default="rra")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    payload = os.urandom(1_000_000) * args.megabytes
    shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=shm) as folder:
        file = os.path.join(folder, "payload")
        with open(file, "wb") as out:
            out.write(payload)
        print(f"{args.megabytes} MB on loopback, {args.protocol}, median of {args.rounds}, MB/s at each receiver")
        print(f"{'receivers':>9} {'stored':>8} {'ratio':>6} {'thrown away':>12} {'ratio':>6} {'N x TCP':>8}")
        number = 0
        for receivers in (1, 4, 16):
            stored, thrown, tcp = [], [], []
            for _ in range(args.rounds):
                for store, seconds in ((True, stored), (False, thrown)):
                    number += 1
                    took = carillon_seconds(args.binary, file, folder, receivers, args.protocol, number, store)
                    seconds.append(took)
                tcp.append(tcp_seconds(payload, receivers))
            a, b, c = (args.megabytes / statistics.median(seconds) for seconds in (stored, thrown, tcp))
            print(f"{receivers:>9} {a:>8.0f} {a / c:>6.2f} {b:>12.0f} {b / c:>6.2f} {c:>8.0f}")


if __name__ == "__main__":
    main()
