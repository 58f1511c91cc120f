#!/usr/bin/env python3
"""A sender and a receiver that are killed twice, each time anywhere in the transfer, and started again: in the end the copy
must be the same, and nothing left beside it. Thousands of files from none to 1.5 MB, and links, over loopback; once
into an empty directory, once over files of the same names and sizes. Ends with 1 and names the round if any is not so.

    scripts/try-kills.py [target/release/carillon] [--rounds N] [--seed N]
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

WHERE = ["--interface", "lo", "--group", "239.255.66.79:7656"]
FILES = 6000


def make(tree: str, rng: random.Random) -> int:
    """Makes the files; bytes of all."""
    total = 0
    for number in range(FILES):
        below = os.path.join(tree, f"{number // 50:03}")
        os.makedirs(below, exist_ok=True)
        size = rng.choice([0, 10, 1000, 8000, 20_000]) if number % 300 else 1_500_000
        total += size
        with open(os.path.join(below, f"file-{number}"), "wb") as file:
            file.write(rng.randbytes(size))
        if number % 70 == 0:
            os.symlink(f"file-{number}", os.path.join(below, f"link-{number}"))
    # A file that was changed just now is sent when its times can tell a change.
    time.sleep(1)
    return total


def older(tree: str, copy: str) -> None:
    """Files of the same names and sizes with something else in them."""
    shutil.copytree(tree, copy, symlinks=True)
    for below, _, names in os.walk(copy):
        for path in (os.path.join(below, name) for name in names):
            if not os.path.islink(path):
                size = os.path.getsize(path)
                with open(path, "wb") as file:
                    file.write(b"x" * size)


def same(tree: str, copy: str) -> bool:
    return subprocess.run(["diff", "-r", "--no-dereference", tree, copy], capture_output=True).returncode == 0


def left(out: str) -> list[str]:
    """Incomplete files. A link cannot be locked by its creator, so a link meant to replace another is named, not removed."""
    found = [os.path.join(below, name) for below, _, names in os.walk(out) for name in names if ".carillon-" in name]
    return [path for path in found if not os.path.islink(path)]


def start(binary: str, tree: str, out: str, replace: bool) -> tuple[subprocess.Popen, subprocess.Popen]:
    receive = [binary, "recv", "--out", out, *WHERE, *(["--overwrite"] if replace else [])]
    receiver = subprocess.Popen(receive, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.15)
    send = [binary, "send", tree, "--receivers", "1", "--json", "--symlinks", "keep", *WHERE]
    return subprocess.Popen(send, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), receiver


def attempt(binary: str, tree: str, out: str, replace: bool, rng: random.Random) -> tuple[str, int]:
    """What is wrong at the end, if anything is, and the bytes of the last attempt."""
    copy = os.path.join(out, os.path.basename(tree))
    for _ in range(2):
        sender, receiver = start(binary, tree, out, replace)
        time.sleep(rng.uniform(0.03, 0.2))
        receiver.kill()
        sender.kill() if rng.random() < 0.5 else sender.terminate()
        receiver.communicate(), sender.communicate()
        if not left(out) and same(tree, copy):
            # It was faster.
            return "", 0
    sender, receiver = start(binary, tree, out, replace)
    try:
        report, errors = sender.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        sender.kill()
        receiver.kill()
        return "it was not over after a minute", 0
    errors += receiver.communicate()[1]
    remains = left(out)
    if sender.returncode or receiver.returncode or remains or not same(tree, copy):
        return f"sender {sender.returncode}, receiver {receiver.returncode}, left {remains}: {errors.strip()}", 0
    return "", json.loads(report.splitlines()[-1])["bytes_sent"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="target/release/carillon")
    parser.add_argument("--rounds", type=int, default=50, help="of each of the two")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        tree, out = os.path.join(folder, "tree"), os.path.join(folder, "out")
        total = make(tree, random.Random(args.seed))
        for replace in (False, True):
            shares = []
            for number in range(args.rounds):
                if replace:
                    older(tree, os.path.join(out, "tree"))
                problem, sent = attempt(args.binary, tree, out, replace, random.Random(f"{args.seed} {replace} {number}"))
                if problem:
                    wrong += 1
                    print(f"round {number}{' over older files' if replace else ''}: {problem}", file=sys.stderr)
                shares.append(sent / total)
                shutil.rmtree(out)
            what = "over older files" if replace else "into an empty directory"
            print(f"{args.rounds} transfers {what}: sent in the last of three attempts {sum(shares) / len(shares):.2f} of all")
    sys.exit(f"{wrong} wrong; --seed {args.seed} repeats what was sent and about when it was cut off" if wrong else 0)


if __name__ == "__main__":
    main()
