"""How the programs that stand beside Carillon come about: installed, compiled, asked for their versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import networks
from deliveries import install

ROOT = os.path.abspath(os.path.join(networks.HERE, ".."))
SOURCES = os.path.join(networks.HERE, "peers")
BUILT = os.path.join(ROOT, "target", "peers")

AERON = "1.46.7"
# Aeron looks into two packages of Java's own.
JAVA = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
JAVA += ["--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED", "--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"]


class Missing(Exception):
    """Why a program cannot be beside the others."""


def said(log: str, what: str) -> list[float] | None:
    """The numbers after a word that a program of ours has said; None before."""
    found = re.search(rf"^{what}\b(.*)\n", log, re.MULTILINE)
    return [float(number) for number in found.group(1).split()] if found else None


def output_of(*command: str) -> str:
    """What a command prints, to either side, whatever it thinks of it; nothing if there is none."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout + done.stderr


def debian(package: str) -> str:
    return output_of("dpkg-query", "-W", "-f", "${Version}", package)


def compiled(source: str, *command: str) -> None:
    """Compiles one of the programs beside this script, if it is newer than what was made of it."""
    name = os.path.splitext(source)[0]
    path, product = os.path.join(SOURCES, source), os.path.join(BUILT, name)
    headers = [os.path.join(SOURCES, header) for header in os.listdir(SOURCES) if header.endswith(".h")]
    newest = max(os.path.getmtime(part) for part in [path, *headers])
    if os.path.exists(product) and os.path.getmtime(product) > newest:
        return
    os.makedirs(BUILT, exist_ok=True)
    compiler, *flags = command
    try:
        networks.call(compiler, "-O2", "-o", f"{product}.{os.getpid()}", path, *flags)
    except (RuntimeError, FileNotFoundError) as problem:
        raise Missing(f"{source} does not compile: {str(problem).splitlines()[0]}") from problem
    os.replace(f"{product}.{os.getpid()}", product)


def aeron_jar() -> str:
    """Where Aeron is, which Maven brings if it is not there; the tools for Java are installed if they are missing."""
    tools = lambda: all(shutil.which(name) for name in ("java", "javac", "mvn"))
    jar = os.path.join(BUILT, f"aeron-all-{AERON}.jar")
    if not tools():
        install("default-jdk-headless", "maven")
    if not tools():
        raise Missing("Java and Maven are not installed and cannot be")
    if not os.path.exists(jar):
        os.makedirs(BUILT, exist_ok=True)
        output_of(
            "mvn", "-q", "dependency:copy", f"-Dartifact=io.aeron:aeron-all:{AERON}", f"-DoutputDirectory={BUILT}"
        )
    if not os.path.exists(jar):
        raise Missing(f"io.aeron:aeron-all:{AERON} is not to be had by Maven")
    return jar


def compiled_java(name: str) -> None:
    """Compiles one of the classes beside this, if it is newer than what was made of it."""
    source, made = os.path.join(SOURCES, f"{name}.java"), os.path.join(BUILT, f"{name}.class")
    jar = aeron_jar()
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(source):
        try:
            networks.call("javac", "-nowarn", "-cp", jar, "-d", BUILT, source)
        except RuntimeError as problem:
            raise Missing(f"{name}.java does not compile: {str(problem).splitlines()[0]}") from problem


def java_version() -> str:
    return output_of("java", "--version").splitlines()[0]


def openpgm() -> str:
    """Path of the program that sends and receives messages with OpenPGM."""
    flags = output_of("pkg-config", "--cflags", "--libs", "openpgm-5.3").split()
    if not any(flag.startswith("-lpgm") for flag in flags):
        raise Missing("OpenPGM is missing (package libpgm-dev)")
    compiled("pgm-messages.c", "cc", *flags)
    return os.path.join(BUILT, "pgm-messages")


def zeromq() -> str:
    """Path of the program that sends and receives messages with ZeroMQ."""
    compiled("zmq-messages.c", "cc", "-lzmq")
    return os.path.join(BUILT, "zmq-messages")


def norm(name: str) -> str:
    """Path of a program that uses NORM."""
    compiled(f"{name}.cpp", "c++", "-lnorm", "-lprotokit", "-lpthread", "-ldl")
    return os.path.join(BUILT, name)


def flute(carillon: str) -> str:
    """Path of the program that uses the crate `flute`, beside the command."""
    path = os.path.join(os.path.dirname(carillon), "examples", "flute_peer")
    if not os.path.exists(path):
        raise Missing("flute_peer is missing (cargo build -p carillon-transfer --example flute_peer)")
    return path
