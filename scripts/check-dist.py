#!/usr/bin/env python3
"""Tries the packages in Debian roots that contain nothing else: a receiver with a booted systemd, and a sender, on two ends of
a virtual cable. Installs the Debian package, transfers, upgrades while a transfer waits, and removes; unpacks the tarball and
the RPM package. Needs root, debootstrap, systemd-container and rpm.

    scripts/check-dist.py --binary target/x86_64-unknown-linux-gnu/small/carillon"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Callable

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
TOOLS = ["debootstrap", "systemd-nspawn", "rpm", "rpmbuild", "ip", "nsenter"]
# Names of the network namespaces, and of the machine that receives.
SENDER, RECEIVER = "carillon-send", "carillon-recv"
UPGRADE = "99.0.0"
SUITE = "bookworm"
FOLDER = "/var/lib/carillon"
# Tenths of points of `systemd-analyze security` that a unit may have: 100 has no protection.
EXPOSURE = 20


def run(*command: str, **options: object) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} fails with {done.returncode}:\n{done.stdout}")
    return str(done.stdout)


def wait_for(what: str, is_true: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not is_true():
        if time.monotonic() > until:
            raise SystemExit(f"still not after a minute: {what}")
        time.sleep(0.2)


def roots() -> tuple[str, str]:
    """A bare root and one with systemd, made once."""
    folder = os.path.join(TARGET, "roots")
    bare, booting = os.path.join(folder, "bare"), os.path.join(folder, "systemd")
    for place, further in [(bare, []), (booting, ["--include=systemd,systemd-sysv,dbus"])]:
        if not os.path.exists(place):
            os.makedirs(folder, exist_ok=True)
            run("debootstrap", "--variant=minbase", *further, SUITE, place + ".part")
            os.rename(place + ".part", place)
    return bare, booting


def make_cable() -> None:
    remove_cable()
    for name in [SENDER, RECEIVER]:
        run("ip", "netns", "add", name)
    run("ip", "-n", SENDER, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", RECEIVER)
    for host, name in enumerate([SENDER, RECEIVER], 1):
        run("ip", "-n", name, "address", "add", f"10.78.0.{host}/24", "dev", "eth0")
        for device in ["lo", "eth0"]:
            run("ip", "-n", name, "link", "set", device, "up")
        run("ip", "-n", name, "route", "add", "default", "dev", "eth0")


def remove_cable() -> None:
    for name in [SENDER, RECEIVER]:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


class Machine:
    """A root with a booted systemd."""

    def __init__(self, root: str) -> None:
        command = ["systemd-nspawn", "--quiet", "--directory", root, f"--network-namespace-path=/run/netns/{RECEIVER}"]
        command += ["--register=no", "--keep-unit", "--link-journal=no", "--boot"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("systemd runs", self.has_booted)

    def first(self) -> str | None:
        """The process of systemd."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return next(iter(file.read().split()), None)

    def has_booted(self) -> bool:
        if self.process.poll() is not None:
            raise SystemExit("systemd-nspawn cannot boot the root here")
        if not self.first():
            return False
        asked = subprocess.run(self.inside("systemctl", "is-system-running"), capture_output=True, text=True)
        return asked.stdout.strip() in ("running", "degraded")

    def inside(self, *command: str) -> list[str]:
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"]
        return ["nsenter", f"--target={self.first()}", "--all", "--root", "--wd", *clean, *command]

    def run(self, *command: str) -> str:
        return run(*self.inside(*command))

    def property(self, name: str, unit: str = "carillon-recv") -> str:
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def end(self) -> None:
        first = self.first()
        if first and self.process.poll() is None:
            os.kill(int(first), 9)
        self.process.wait()


def install(root: str, package: str) -> list[str]:
    """Copies a package into a root; returns the command that installs it there."""
    shutil.copy(package, os.path.join(root, "var/tmp"))
    return ["apt-get", "install", "--yes", "--quiet", "/var/tmp/" + os.path.basename(package)]


def sending(root: str, *arguments: str) -> list[str]:
    return ["ip", "netns", "exec", SENDER, "chroot", root, "carillon", *arguments]


def try_deb(folder: str, first: str, second: str) -> None:
    bare, booting = roots()
    sender, receiver = os.path.join(folder, "sender"), os.path.join(folder, "receiver")
    run("cp", "-a", bare, sender)
    run("cp", "-a", booting, receiver)
    with open(os.path.join(receiver, "etc/hostname"), "w") as file:
        file.write("box\n")
    run("chroot", sender, *install(sender, first))
    commands, update = install(receiver, first), install(receiver, second)
    payload = os.path.join(sender, "var/tmp/payload")
    with open(payload, "wb") as file:
        file.write(os.urandom(20_000_000))
    make_cable()
    machine = Machine(receiver)
    try:
        machine.run(*commands)
        for unit in ["carillon-recv", "carillon-relay", "carillon-daemon"]:
            machine.run("systemd-analyze", "--man=no", "verify", unit + ".service")
            machine.run("systemd-analyze", "--no-pager", f"--threshold={EXPOSURE}", "security", unit)
        machine.run("systemctl", "enable", "--now", "carillon-recv", "carillon-daemon")
        say("installed; the services are ready:", machine.property("StatusText"), "and", machine.property("StatusText", "carillon-daemon"))
        run(*sending(sender, "send", "--expect", "box", "/var/tmp/payload"))
        compare(payload, receiver + FOLDER + "/payload")
        say("transferred, and owned by", machine.run("stat", "-c", "%U:%G", FOLDER + "/payload").strip())
        shutil.move(payload, payload + "2")
        waiting = subprocess.Popen(
            sending(sender, "send", "--expect", "box,late", "--wait", "60", "--json", "/var/tmp/payload2"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert waiting.stdout
        # The receiver has joined; the sender waits for another.
        seen = next((line for line in waiting.stdout if '"box"' in line), "")
        before = machine.property("MainPID")
        if not seen or waiting.poll() is not None:
            raise SystemExit("the transfer did not wait")
        machine.run(*update)
        after = machine.property("MainPID")
        if machine.property("ActiveState") != "active" or after == before or after == "0":
            raise SystemExit(f"the service was not restarted: process {before}, then {after}")
        say("upgraded while a transfer waited")
        os.makedirs(os.path.join(sender, "var/tmp/late"), exist_ok=True)
        run(*sending(sender, "recv", "--name", "late", "--out", "/var/tmp/late"))
        rest = waiting.communicate(timeout=120)[0]
        if waiting.returncode:
            raise SystemExit(f"the transfer that waited failed: {rest}")
        compare(payload + "2", receiver + FOLDER + "/payload2")
        say("it was then delivered to both")
        machine.run("apt-get", "remove", "--yes", "--quiet", os.path.basename(first).split("_")[0])
        left = machine.run("sh", "-c", "ps -A -o comm= 2>/dev/null | grep -c carillon || true; ls /usr/lib/systemd/system /usr/bin").split()
        if any(name.startswith("carillon") for name in left):
            raise SystemExit(f"left after the removal: {left}")
        compare(payload + "2", receiver + FOLDER + "/payload2")
        say("removed; received files stay")
    finally:
        machine.end()
        remove_cable()


def try_others(folder: str, tarball: str, package: str) -> None:
    """Unpacks the tarball and the RPM package in bare roots."""
    bare, _ = roots()
    for name, command in [
        ("tarball", ["tar", "-C", "ROOT/usr/local", "--strip-components=1", "-xf", tarball]),
        ("RPM package", ["rpm", "--root", "ROOT", "--install", "--nodeps", "--noscripts", package]),
    ]:
        root = os.path.join(folder, name.split()[0])
        run("cp", "-a", bare, root)
        run(*(word.replace("ROOT", root) for word in command))
        say(f"{name}:", run("chroot", root, "carillon", "--version").strip())
    run("rpm", "--query", "--requires", "--package", package)


def compare(one: str, other: str) -> None:
    run("cmp", one, other)


def say(*words: str) -> None:
    print(*words, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    args = parser.parse_args()
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.geteuid():
        print(f"needs root and these programs: {', '.join(missing) or 'all are there'}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(dir=TARGET, prefix="check-dist-") as folder:

        def made(kind: str, *options: str) -> str:
            script = os.path.join(ROOT, "scripts/dist.py")
            return run(script, kind, "--binary", args.binary, "--out", folder, *options).strip().splitlines()[-1]

        try_others(folder, made("tar"), made("rpm"))
        try_deb(folder, made("deb"), made("deb", "--version", UPGRADE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
