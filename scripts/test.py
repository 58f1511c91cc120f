#!/usr/bin/env python3
"""Builds the tests of the workspace and runs their programs. Programs that read no clock run beside the others, at a lower
priority, since the others mostly wait; so do the examples of the documentation. Arguments after the options go to every
program, as behind `cargo test --`.

A test that reads the clock and fails is run once more, alone, after all others: on a busy machine a transfer can miss its
time limit. The first failure is printed either way, and a second one fails the run. Tests that read no clock get no second run.

    scripts/test.py                              what `cargo test --workspace` runs, in less time
    scripts/test.py some_name                    tests with this in their names
    scripts/test.py --programs delivery,transfer the test programs of these names (`lib`: all unit tests)
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Iterator

# Name, executable and folder.
Program = tuple[str, str, str]

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
CARGO = os.environ.get("CARGO", "cargo")
# Crates that read no clock: load on the machine does not change what their tests find.
TIMELESS = ["carillon-core", "carillon-wire", "carillon-sim", "carillon-proto", "carillon-session", "carillon-run", "carillon-testkit", "carillon-lab"]

# They call cargo, which waits until nothing else is built.
BUILDING = ["transfer"]

# Those of the command leave thousands of files, which a disk takes a fifteenth of their time for. What writes files is tried on a
# disk by those of carillon-transfer.
IN_MEMORY = ("command", "/dev/shm")
ROOM = 4 << 30


def environment() -> dict[str, str]:
    """What cargo gives programs that it runs."""
    with open(os.path.join(ROOT, ".cargo", "config.toml")) as file:
        variables = re.findall(r'^([A-Z_]+) = "(.*)"$', file.read(), re.MULTILINE)
    return {**dict(variables), **os.environ, "CARGO": CARGO}


def build(*arguments: str) -> Iterator[Program]:
    """The test programs that these select, each as soon as it is built."""
    command = ["nice", "-n", "19", CARGO, "test", *arguments, "--no-run", "--quiet", "--message-format", "json-render-diagnostics"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as cargo:
        for line in cargo.stdout:
            artifact = json.loads(line)
            if artifact.get("executable") and artifact["profile"]["test"]:
                folder = os.path.dirname(artifact["manifest_path"])
                yield artifact["target"]["name"], artifact["executable"], folder
    if cargo.returncode:
        raise NotBuilt


class NotBuilt(Exception):
    """Said by cargo."""


def programs(names: list[str] | None) -> Iterator[Program]:
    """Test programs. Each is yielded once it is built: the first run while others are built."""
    if names is None:
        # Those of the command wait most of their time, so the others are built beside them.
        command = list(build("--workspace", "--test", "command"))
        yield from command
        held = []
        for program in build("--workspace"):
            if program[0] in BUILDING:
                held.append(program)
            elif program not in command:
                yield program
        yield from held
    else:
        targets = [name for name in names if name != "lib"]
        if targets:
            yield from build("--workspace", *(word for name in targets for word in ("--test", name)))
        if "lib" in names:
            yield from build("--workspace", "--lib")


def is_timeless(program: Program) -> bool:
    return os.path.basename(program[2]) in TIMELESS


def has_room(folder: str) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM


def failures(output: str) -> list[str]:
    """Names of the tests that failed, from the list at the end of a test program's output."""
    _, found, listed = output.rpartition("\nfailures:\n")
    names = [line.strip() for line in listed.split("\n\n")[0].splitlines()] if found else []
    return [name for name in names if re.fullmatch(r"[\w:]+", name)]


def run_again(program: Program, first: str, variables: dict[str, str]) -> tuple[bool, str]:
    """Runs the failed tests of a program once more, one by one, with nothing else running."""
    names = failures(first)
    if not names or is_timeless(program):
        return False, ""
    passed, shown = run(program, ["--exact", "--test-threads", "1", *names], variables)
    return passed, f"once more, alone: {', '.join(names)}\n{shown}"


def run(program: Program, arguments: list[str], variables: dict[str, str]) -> tuple[bool, str]:
    """Returns whether a program passed, and the text to show."""
    name, executable, folder = program
    begin = time.monotonic()
    variables = {**variables, "CARGO_MANIFEST_DIR": folder}
    if name == IN_MEMORY[0] and has_room(IN_MEMORY[1]):
        variables.setdefault("TMPDIR", IN_MEMORY[1])
    priority = []
    if is_timeless(program):
        # They do nothing but compute, as many side by side as there are processors.
        priority, variables["RUST_TEST_THREADS"] = ["nice", "-n", "19"], "1"
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        started = subprocess.Popen(
            [*priority, executable, "--quiet", *arguments],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        # Also the processor time of the processes that it waited for.
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    seconds, processor = time.monotonic() - begin, used.ru_utime + used.ru_stime
    result = [line for line in text.splitlines() if line.startswith("test result:")]
    summary = result[-1].removeprefix("test result: ").split(";")[0] if result else f"ended with {started.returncode}"
    line = f"{os.path.basename(folder)} {name}: {summary}, {seconds:.1f} s, {processor:.1f} s of processor time"
    if started.returncode:
        return False, f"{text.rstrip()}\n{line}"
    # What was left out is said aloud.
    skipped = [line for line in text.splitlines() if "SKIPPED" in line]
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
    selected = None
    if arguments[:1] == ["--programs"]:
        selected, arguments = arguments[1].split(","), arguments[2:]
    variables = environment()
    failed: list[tuple[Program, str]] = []
    others: list[str] = []
    with (
        concurrent.futures.ThreadPoolExecutor(1) as one_by_one,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as side_by_side,
    ):
        running = {}
        try:
            for program in programs(selected):
                pool = side_by_side if is_timeless(program) else one_by_one
                running[pool.submit(run, program, arguments, variables)] = program
        except NotBuilt:
            one_by_one.shutdown(cancel_futures=True)
            side_by_side.shutdown(cancel_futures=True)
            sys.exit("the tests could not be built")
        examples = side_by_side.submit(run_examples, arguments) if selected is None else None
        for done in concurrent.futures.as_completed(running):
            passed, shown = done.result()
            print(shown, flush=True)
            if not passed:
                failed.append((running[done], shown))
        if examples:
            passed, shown = examples.result()
            if not passed:
                print(shown)
                others.append("the examples of the documentation")
    for program, shown in failed:
        passed, again = run_again(program, shown, variables)
        if again:
            print(again, flush=True)
        if not passed:
            others.append(program[0])
    if others:
        sys.exit(f"failed: {', '.join(others)}")


if __name__ == "__main__":
    main()
