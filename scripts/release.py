#!/usr/bin/env python3
"""Makes the tag of a release, after checks: nothing uncommitted, the version in the changelog with today's date, one version in
the workspace and its path dependencies, and the tag is new. Without --tag only the checks run, and print what would be done.

    scripts/release.py            checks
    scripts/release.py --tag      checks, then makes the annotated tag vX.Y.Z"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import tomllib

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def problems(version: str, today: str, workspace: dict[str, object], changelog: str) -> list[str]:
    """What keeps this state from being a release."""
    found = []
    if git("status", "--porcelain"):
        found.append("there are uncommitted changes")
    if git("tag", "--list", f"v{version}"):
        found.append(f"the tag v{version} exists: raise the version in Cargo.toml")
    heading = f"## [{version}] - {today}"
    if heading not in changelog.splitlines():
        found.append(f"CHANGELOG.md has no heading `{heading}`: move what is under Unreleased there")
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## )", changelog, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        found.append("CHANGELOG.md has entries under Unreleased")
    dependencies = workspace["dependencies"]
    assert isinstance(dependencies, dict)
    for name, dependency in dependencies.items():
        named = dependency.get("version") if isinstance(dependency, dict) and "path" in dependency else None
        if named not in (None, version):
            found.append(f"Cargo.toml: {name} has version {named}, not {version}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", action="store_true", help="make the tag")
    args = parser.parse_args()
    with open(os.path.join(ROOT, "Cargo.toml"), "rb") as file:
        workspace = tomllib.load(file)["workspace"]
    with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as file:
        changelog = file.read()
    version = workspace["package"]["version"]
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    found = problems(version, today, workspace, changelog)
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        return 1
    command = ["tag", "--annotate", f"v{version}", "--message", f"Carillon {version}, {today}"]
    if args.tag:
        git(*command)
        print(f"tagged v{version}; next: git push origin v{version}, and cargo publish --workspace")
    else:
        print(f"ready: git {' '.join(command)} (give --tag)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
