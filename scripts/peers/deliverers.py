"""Programs that deliver a file to receivers: their commands at both ends, and when a receiver has the file."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import time
from typing import NamedTuple

import networks
from deliveries import Cell, Started, install
from networks import Network
from peers.programs import AERON, BUILT, JAVA, SOURCES, Missing, aeron_jar, compiled
from peers.programs import compiled_java, debian, java_version, output_of, said

# The Python that Debian's package of libtorrent is for.
PYTHON = "/usr/bin/python3"
UFTP_BUFFER = "4194304"


class Place(NamedTuple):
    """Parameters of a delivery: network, receivers, file, and settings of the program."""

    net: Network
    cell: Cell
    file: str
    folder: str
    setting: str

    def copy(self, host: str) -> str:
        return os.path.join(self.folder, host, "copy")

    def words(self) -> list[str]:
        return self.setting.split()


class Peer:
    """A program, or pair of programs, that delivers a file to receivers."""

    name = ""
    title = ""
    packages: list[str] = []
    programs: list[str] = []
    # Its version, once it is known to be there.
    told = ""
    # Whether receivers say when they are ready and have everything; whether they end by themselves, with a code that
    # says something; and whether the sender stays until it is stopped.
    tells = True
    ends = False
    stays = False

    def prepare(self, args: argparse.Namespace) -> None:
        """Installs the program if necessary, or returns the reason why it is missing."""
        absent = [name for name in self.programs if not shutil.which(name)]
        if absent:
            install(*self.packages)
        absent = [name for name in self.programs if not shutil.which(name)]
        if absent:
            raise Missing(f"{', '.join(absent)} not installed and cannot be (packages {' '.join(self.packages)})")

    def version(self) -> str:
        return debian(self.packages[0])

    def beside(self, place: Place) -> list[tuple[str, list[str]]]:
        """Additional processes with their hosts, started before the receivers."""
        return []

    def receiver(self, place: Place, host: str) -> list[str]:
        raise NotImplementedError

    def sender(self, place: Place) -> list[str]:
        raise NotImplementedError

    def held(self, place: Place, host: str, one: Started) -> float | None:
        """Time at which this receiver had the file, by the monotonic clock."""
        done = said(one.text(), "DONE")
        return done[0] if done else None


def since_boot(wall: float) -> float:
    """A time of files as one of the monotonic clock."""
    return wall - (time.time() - time.monotonic())


class Carillon(Peer):
    name, title, tells, ends = "carillon", "Carillon", False, True

    def prepare(self, args: argparse.Namespace) -> None:
        self.binary = os.path.abspath(args.binary)
        if not os.path.exists(self.binary):
            raise Missing(f"there is no {args.binary}: run make bench-peers, or name one with --binary")

    def version(self) -> str:
        return output_of(self.binary, "--version").split()[-1]

    def receiver(self, place: Place, host: str) -> list[str]:
        return [self.binary, "recv", "--name", host, "--out", os.path.dirname(place.copy(host))]

    def sender(self, place: Place) -> list[str]:
        return [self.binary, "send", place.file, "--as", "copy", "--receivers", str(place.cell.receivers)]

    def held(self, place: Place, host: str, one: Started) -> float | None:
        # It gets its name when it is verified.
        copy = place.copy(host)
        return since_boot(os.stat(copy).st_ctime) if os.path.exists(copy) else None


class Uftp(Peer):
    name, title, tells = "uftp", "UFTP", False
    packages, programs = ["uftp"], ["uftp", "uftpd"]

    def identity(self, place: Place, host: str) -> str:
        return f"0x{0x0A4D0000 + int(place.net.address(host).split('.')[-1]):08X}"

    def stamp(self, place: Place, host: str) -> str:
        return os.path.join(place.folder, host, "stamp")

    def receiver(self, place: Place, host: str) -> list[str]:
        hook = os.path.join(place.folder, host, "hook")
        with open(hook, "w") as out:
            out.write(f"#!/bin/sh\n: >{self.stamp(place, host)}\n")
        os.chmod(hook, 0o755)
        command = ["uftpd", "-d", "-I", "eth0", "-B", UFTP_BUFFER, "-U", self.identity(place, host)]
        return [*command, "-D", os.path.dirname(place.copy(host)), "-s", hook, "-c", "1048576"]

    def sender(self, place: Place) -> list[str]:
        command = [
            "uftp",
            "-I",
            "eth0",
            "-B",
            UFTP_BUFFER,
            "-b",
            "1400",
            "-U",
            self.identity(place, "s"),
            *place.words(),
        ]
        others = ",".join(self.identity(place, name) for name in place.net.receivers)
        return [*command, "-H", others, "-D", "copy", place.file]

    def held(self, place: Place, host: str, one: Started) -> float | None:
        stamp = self.stamp(place, host)
        return since_boot(os.stat(stamp).st_mtime) if os.path.exists(stamp) else None


class Udpcast(Peer):
    name, title, tells, ends = "udpcast", "udpcast", False, True
    packages, programs = ["udpcast"], ["udp-sender", "udp-receiver"]
    COMMON = ["--interface", "eth0", "--nokbd", "--ttl", "1", "--no-progress"]

    def receiver(self, place: Place, host: str) -> list[str]:
        command = ["udp-receiver", "--file", place.copy(host), *self.COMMON, "--start-timeout", "30"]
        return [*command, "--receive-timeout", "20", "--rcvbuf", "4194304"]

    def sender(self, place: Place) -> list[str]:
        command = ["udp-sender", "--file", place.file, *self.COMMON, "--mcast-data-address", "239.7.7.7"]
        return [*command, "--min-receivers", str(place.cell.receivers), *place.words()]

    def held(self, place: Place, host: str, one: Started) -> float | None:
        # Receivers stay for half a second after their last byte, which is not counted.
        return since_boot(os.stat(place.copy(host)).st_mtime) if one.code == 0 else None


class Norm(Peer):
    name, title = "norm", "NORM"
    packages = ["libnorm-dev", "g++"]

    def prepare(self, args: argparse.Namespace) -> None:
        if not os.path.exists("/usr/include/normApi.h"):
            install(*self.packages)
        compiled("norm-file.cpp", "g++", "-lnorm", "-lprotokit", "-lpthread", "-ldl")

    def receiver(self, place: Place, host: str) -> list[str]:
        node = place.net.address(host).split(".")[-1]
        return [os.path.join(BUILT, "norm-file"), "recv", place.copy(host), node, *place.words()]

    def sender(self, place: Place) -> list[str]:
        return [os.path.join(BUILT, "norm-file"), "send", place.file, str(place.cell.receivers), *place.words()]


class Pgm(Peer):
    name, title, stays = "pgm", "OpenPGM", True
    packages = ["libpgm-dev", "gcc", "pkg-config"]

    def prepare(self, args: argparse.Namespace) -> None:
        if not shutil.which("pkg-config") or not output_of("pkg-config", "--libs", "openpgm-5.3").startswith("-"):
            install(*self.packages)
        compiled("pgm-file.c", "gcc", *output_of("pkg-config", "--cflags", "--libs", "openpgm-5.3").split())

    def receiver(self, place: Place, host: str) -> list[str]:
        address = place.net.address(host)
        return [os.path.join(BUILT, "pgm-file"), "recv", place.copy(host), address, *place.words()]

    def sender(self, place: Place) -> list[str]:
        return [os.path.join(BUILT, "pgm-file"), "send", place.file, place.net.address("s"), *place.words()]


class Aeron(Peer):
    name, title, stays = "aeron", "Aeron", True

    def prepare(self, args: argparse.Namespace) -> None:
        compiled_java("AeronFile")

    def version(self) -> str:
        return f"{AERON} (Java driver), {java_version()}"

    def command(self, place: Place, role: str, host: str, file: str) -> list[str]:
        command = [
            *JAVA,
            "-cp",
            f"{BUILT}:{aeron_jar()}",
            "AeronFile",
            role,
            file,
            os.path.join(place.folder, host, "driver"),
        ]
        return [*command, place.net.address(host), str(place.cell.receivers), *place.words()]

    def receiver(self, place: Place, host: str) -> list[str]:
        return self.command(place, "recv", host, place.copy(host))

    def sender(self, place: Place) -> list[str]:
        return self.command(place, "send", "s", place.file)


class Tcp(Peer):
    name, title = "tcp", "TCP to each"
    packages = ["gcc"]

    def prepare(self, args: argparse.Namespace) -> None:
        compiled("tcp-file.c", "cc", "-lpthread")

    def version(self) -> str:
        return f"Linux {platform.release().split('-')[0]}"

    def receiver(self, place: Place, host: str) -> list[str]:
        return [os.path.join(BUILT, "tcp-file"), "recv", place.copy(host)]

    def sender(self, place: Place) -> list[str]:
        addresses = [place.net.address(name) for name in place.net.receivers]
        return [os.path.join(BUILT, "tcp-file"), "send", place.file, *place.words(), *addresses]


class Torrent(Peer):
    name, title, stays = "torrent", "BitTorrent", True
    packages, programs = ["python3-libtorrent", "opentracker"], ["opentracker"]
    script = os.path.join(SOURCES, "torrent-file.py")

    def prepare(self, args: argparse.Namespace) -> None:
        there = (
            lambda: os.path.exists(PYTHON)
            and not subprocess.run([PYTHON, "-c", "import libtorrent"], capture_output=True).returncode
        )
        if not there():
            install(*self.packages)
        if not there():
            raise Missing("python3-libtorrent is not installed and cannot be")
        super().prepare(args)

    def version(self) -> str:
        return f"libtorrent {debian('python3-libtorrent')}, opentracker {debian('opentracker')}"

    def torrent(self, place: Place) -> str:
        return f"{place.file}.{place.words()[0]}.torrent"

    def beside(self, place: Place) -> list[tuple[str, list[str]]]:
        address, home = place.net.address("s"), os.path.join(place.folder, "s")
        announce = f"http://{address}:6969/announce"
        made = networks.call(PYTHON, self.script, "make", place.file, self.torrent(place), announce, place.words()[0])
        # Debian's serves those alone that are on its list, and leaves its rights and all but its directory.
        with open(os.path.join(home, "list"), "w") as out:
            out.write(made)
        return [("s", ["opentracker", "-i", address, "-p", "6969", "-d", home, "-w", "list", "-u", "nobody"])]

    def receiver(self, place: Place, host: str) -> list[str]:
        return [PYTHON, self.script, "recv", place.copy(host), self.torrent(place), place.net.address(host)]

    def sender(self, place: Place) -> list[str]:
        return [PYTHON, self.script, "send", place.file, self.torrent(place), place.net.address("s")]


PEERS: list[Peer] = [Carillon(), Uftp(), Udpcast(), Norm(), Pgm(), Aeron(), Tcp(), Torrent()]
