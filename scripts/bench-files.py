#!/usr/bin/env python3
"""Compares many small files with one file of their total size: `carillon send` to one receiver on loopback.
Prints the seconds of both, as the sender reports them and as the whole command takes them, and their
ratio; asserts nothing.

    scripts/bench-files.py [target/release/carillon] [--files N] [--bytes N ...] [--rounds N] [--folder DIR]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time


def transfer(binary: str, path: str, folder: str, number: int, options: list[str]) -> tuple[float, float]:
    """Seconds of the transfer as the sender reports them, and of the whole `carillon send`."""
    group = f"239.255.66.{number % 250 + 1}:7656"
    out = os.path.join(folder, f"out-{number}")
    where = ["--interface", "lo", "--group", group]
    receiver = subprocess.Popen([binary, "recv", "--out", out, *where], stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    begin = time.perf_counter()
    command = [binary, "send", path, "--receivers", "1", "--json", *where, *options]
    output = subprocess.run(command, check=True, capture_output=True, text=True)
    whole = time.perf_counter() - begin
    assert receiver.wait() == 0
    shutil.rmtree(out)
    return json.loads(output.stdout.splitlines()[-1])["seconds"], whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="target/release/carillon")
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--bytes", type=int, nargs="+", default=[1024, 4096, 16384], help="of each file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files are [default: /dev/shm, or the temporary directory]")
    parser.add_argument("--option", action="append", default=[], help="of `carillon send`, such as --option=--rate=1Gbit/s")
    args = parser.parse_args()
    shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
    print(f"{args.files} files in directories of 500, one receiver on loopback, medians of {args.rounds}")
    print(f"{'bytes each':>10} {'one file':>10} {'small files':>12} {'ratio':>6}   {'with listing and joining':>24}")
    number = 0
    for size in args.bytes:
        with tempfile.TemporaryDirectory(dir=args.folder or shm) as folder:
            tree = os.path.join(folder, "tree")
            one = os.path.join(folder, "one")
            with open(one, "wb") as whole:
                for index in range(args.files):
                    below = os.path.join(tree, f"{index // 500:04}")
                    if index % 500 == 0:
                        os.makedirs(below)
                    content = os.urandom(size)
                    whole.write(content)
                    with open(os.path.join(below, f"file-{index:05}"), "wb") as file:
                        file.write(content)
            taken: dict[str, list[tuple[float, float]]] = {one: [], tree: []}
            for _ in range(args.rounds):
                for path, times in taken.items():
                    number += 1
                    times.append(transfer(args.binary, path, folder, number, args.option))
            (a, whole_a), (b, whole_b) = (
                [statistics.median(column) for column in zip(*taken[path])] for path in (one, tree)
            )
            ratio = f"{whole_a:.2f} s, {whole_b:.2f} s: {whole_b / whole_a:.2f}"
            print(f"{size:>10} {a:>8.2f} s {b:>10.2f} s {b / a:>6.2f}   {ratio:>24}")


if __name__ == "__main__":
    main()
