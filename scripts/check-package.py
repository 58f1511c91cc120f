#!/usr/bin/env python3
"""Installs the Python package as a user would, and tries it: `pip install .` in a fresh virtual environment, the Python code of
the README, and every notebook of docs/notebooks. The wheel of that build is then tried with other versions of Python, as far
as this system has them.

    scripts/check-package.py
    scripts/check-package.py --notebook first-protocol
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")))
# Without optimisation across crates the build takes about half the time.
QUICK_BUILD = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
ENVIRONMENT = {**os.environ, **QUICK_BUILD, "MPLBACKEND": "agg", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
# What notebooks need beside the package.
FOR_NOTEBOOKS = ["nbclient", "ipykernel", "polars"]
# Small enough for every version of Python.
TRIAL = """
import carillon
scenario = {
    "name": "trial", "network": {"kind": "lan"}, "group": {"receivers": 4},
    "protocol": {"name": "carillon"}, "workload": {"messages": 20, "message_bytes": 500},
}
assert carillon.run(scenario, progress=False).mean("undelivered_share") == 0
"""
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
path, folder = sys.argv[1:]
notebook = nbformat.read(path, as_version=4)
NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
print(sum(cell.cell_type == "code" for cell in notebook.cells), "cells of code")
"""


def run(*command: str, cwd: str = ROOT) -> str:
    """Runs a command, and returns its output."""
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)[:200]} failed:\n{done.stdout[-8000:]}")
    return done.stdout


def environment(python: str, name: str) -> str:
    """Makes a fresh virtual environment; returns its interpreter."""
    folder = os.path.join(TARGET, "package", name)
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    return os.path.join(folder, "bin", "python")


def readme() -> str:
    """Python code of the README."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    assert blocks, "the README has no Python code"
    return "\n".join(blocks)


def other_pythons() -> list[str]:
    """Interpreters of other versions that the package supports, one of each."""
    found: dict[str, str] = {}
    own = "{}.{}".format(*sys.version_info)
    candidates = glob.glob("/usr/bin/python3.*") + glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3.*"))
    for path in sorted(candidates):
        version = re.fullmatch(r"python(3\.(\d+))", os.path.basename(path))
        if version and int(version[2]) >= 11 and version[1] != own and os.access(path, os.X_OK):
            found.setdefault(version[1], path)
    return [found[version] for version in sorted(found)]


def main() -> None:
    """Checks the package."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--notebook", help="only this one; the package of an earlier run is used")
    chosen = options.parse_args()
    python = os.path.join(TARGET, "package", "own", "bin", "python")
    passed = 0
    if not chosen.notebook:
        python = environment(sys.executable, "own")
        run(python, "-m", "pip", "install", "--quiet", ".")
        print("pip install . has installed", run(python, "-c", "import carillon; print(carillon.__version__)").strip())
        with tempfile.TemporaryDirectory() as folder:
            print(textwrap.indent(run(python, "-c", readme(), cwd=folder)[:600], "    "))
            print("the README's code has written", ", ".join(sorted(os.listdir(folder))) or "nothing")
            passed += 1
        run(python, "-m", "pip", "install", "--quiet", *FOR_NOTEBOOKS)
    folder = os.path.join(ROOT, "docs", "notebooks")
    for path in sorted(glob.glob(os.path.join(folder, f"{chosen.notebook or '*'}.ipynb"))):
        print(os.path.basename(path), run(python, "-c", EXECUTE, path, folder).strip().splitlines()[-1], flush=True)
        passed += 1
    if not chosen.notebook:
        wheels = os.path.join(TARGET, "package", "wheels")
        shutil.rmtree(wheels, ignore_errors=True)
        run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ".")
        (wheel,) = os.listdir(wheels)
        assert "-abi3-" in wheel, wheel
        for other in other_pythons():
            interpreter = environment(other, os.path.basename(other))
            run(interpreter, "-m", "pip", "install", "--quiet", os.path.join(wheels, wheel))
            run(interpreter, "-c", TRIAL)
            print(wheel, "runs with", run(interpreter, "--version").strip())
            passed += 1
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
