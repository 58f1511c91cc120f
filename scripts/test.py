#!/usr/bin/env python3
"""Builds all tests of the workspace and runs their programs: those of crates that look at no clock beside the others and
behind them, since these mostly wait, and the examples of the documentation there too. Arguments go to every program, as behind
`cargo test --`.

    scripts/test.py                what `cargo test --workspace` runs, in less time
    scripts/test.py some_name      those whose names have this in them
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import time
from typing import Iterator

# Name, executable and folder.
Program = tuple[str, str, str]

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
CARGO = os.environ.get("CARGO", "cargo")
# Crates that look at no clock: whatever else goes on changes nothing of what their tests find.
TIMELESS = ["carillon-core", "carillon-wire", "carillon-sim", "carillon-proto", "carillon-testkit"]
# Compiled with optimisation these unit tests take five times as long as without, far more than they gain by it: the others
# begin while they are built.
PLAIN = "carillon-proto"
# These begin first: they take longest.
LONGEST = ["command", "conformance", "transfer", "laboratory", "delivery", "protocols", "session", "strangers"]


# Those of the command leave thousands of files, which a disk takes a fifteenth of their time for. What writes files is tried on a
# disk by those of carillon-transfer.
IN_MEMORY = ("command", "/dev/shm")
ROOM = 4 << 30


def environment() -> dict[str, str]:
    """What cargo gives programs that it runs."""
    with open(os.path.join(ROOT, ".cargo", "config.toml")) as file:
        variables = re.findall(r'^([A-Z_]+) = "(.*)"$', file.read(), re.MULTILINE)
    return {**dict(variables), **os.environ, "CARGO": CARGO}


def build(*arguments: str) -> list[Program]:
    """The test programs that these select, built."""
    command = ["nice", "-n", "19", CARGO, "test", *arguments, "--no-run", "--quiet", "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        raise NotBuilt
    found = []
    for line in built.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable") and artifact["profile"]["test"]:
            folder = os.path.dirname(artifact["manifest_path"])
            found.append((artifact["target"]["name"], artifact["executable"], folder))
    return found


class NotBuilt(Exception):
    """Said by cargo."""


def programs() -> Iterator[Program]:
    """All but those unit tests, each as soon as it is there: others are built while the first run."""
    rank = {name: place for place, name in enumerate(LONGEST)}
    first = build("--workspace", "--bins", "--examples", "--test", "*")
    yield from sorted(first, key=lambda program: rank.get(program[0], len(rank)))
    yield from build("--workspace", "--exclude", PLAIN, "--lib")


def run_plain(arguments: list[str], variables: dict[str, str]) -> tuple[bool, str]:
    """Builds those unit tests, and runs them."""
    try:
        # With the command, of whose features of other crates these are, so that those are as they were built for it.
        [program] = build("-p", PLAIN, "-p", "carillon-cli", "--lib", "--config", f"profile.test.package.{PLAIN}.opt-level=0")
    except NotBuilt:
        return False, f"{PLAIN}: the unit tests could not be built"
    return run(program, arguments, variables)


def is_timeless(program: Program) -> bool:
    return os.path.basename(program[2]) in TIMELESS


def has_room(folder: str) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM


def run(program: Program, arguments: list[str], variables: dict[str, str]) -> tuple[bool, str]:
    """Whether it passed, and what to show of it."""
    name, executable, folder = program
    begin = time.monotonic()
    variables = {**variables, "CARGO_MANIFEST_DIR": folder}
    if name == IN_MEMORY[0] and has_room(IN_MEMORY[1]):
        variables.setdefault("TMPDIR", IN_MEMORY[1])
    priority = []
    if is_timeless(program):
        # They do nothing but compute, as many side by side as there are processors.
        priority, variables["RUST_TEST_THREADS"] = ["nice", "-n", "19"], "1"
    done = subprocess.run(
        [*priority, executable, "--quiet", *arguments],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    seconds = time.monotonic() - begin
    result = [line for line in done.stdout.splitlines() if line.startswith("test result:")]
    summary = result[-1].removeprefix("test result: ").split(";")[0] if result else f"ended with {done.returncode}"
    line = f"{os.path.basename(folder)} {name}: {summary}, {seconds:.1f} s"
    if done.returncode:
        return False, f"{done.stdout.rstrip()}\n{line}"
    # What was left out is said aloud.
    skipped = [line for line in done.stdout.splitlines() if "SKIPPED" in line]
    return True, "\n".join([*skipped, line])


def run_examples(arguments: list[str]) -> tuple[bool, str]:
    """The same of the examples of the documentation, which cargo builds and runs."""
    command = ["nice", "-n", "19", CARGO, "test", "--workspace", "--doc", "--quiet", "--", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return not done.returncode, done.stdout.rstrip()


def main() -> None:
    arguments = sys.argv[1:]
    if arguments in (["-h"], ["--help"]):
        print(__doc__.strip())
        return
    variables = environment()
    failed = []
    with (
        concurrent.futures.ThreadPoolExecutor(1) as one_by_one,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as side_by_side,
    ):
        running = {}
        try:
            for program in programs():
                pool = side_by_side if is_timeless(program) else one_by_one
                running[pool.submit(run, program, arguments, variables)] = program[0]
        except NotBuilt:
            one_by_one.shutdown(cancel_futures=True)
            side_by_side.shutdown(cancel_futures=True)
            sys.exit("the tests could not be built")
        running[side_by_side.submit(run_plain, arguments, variables)] = PLAIN
        examples = side_by_side.submit(run_examples, arguments)
        for done in concurrent.futures.as_completed(running):
            passed, shown = done.result()
            print(shown, flush=True)
            if not passed:
                failed.append(running[done])
        passed, shown = examples.result()
        if not passed:
            print(shown)
            failed.append("the examples of the documentation")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
