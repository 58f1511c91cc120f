"""Which settings are best for each program in which cells, as `bench-peers.py --try` has found; and what it tries.

Carillon has none. UFTP: its own options. udpcast: its own. NORM, OpenPGM, Aeron: as the programs beside this file say.
TCP: the congestion control. BitTorrent: the length of a piece, and what torrent-file.py says.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deliveries import Cell

HELLO = "--rexmit-hello-interval 100"
FEC = f"{HELLO} --fec 8x32/128"

# The first pattern that fits a cell counts.
BEST: dict[str, list[tuple[str, str]]] = {
    "carillon": [("*", "")],
    "uftp": [("*-up*", "-R 90000"), ("*-port*", "-R 90000"), ("*-l0-*", "-R 400000"), ("*", "-R 200000")],
    "udpcast": [("*-up*", f"{HELLO} --max-bitrate 90m"), ("*", HELLO)],
    "norm": [
        ("*-up*", "rate=90e6"),
        ("*-port*", "rate=90e6"),
        ("*-d10", "rate=200e6 grtt=0.05"),
        ("*-d50", "rate=200e6 grtt=0.15"),
        ("*-l0-*", "rate=300e6"),
        ("*", "rate=200e6"),
    ],
    "pgm": [
        ("*-up*", "rate=11e6"),
        ("*-port*", "rate=11e6"),
        ("*-d10", "rate=25e6 backoff=20 repeat=100 repair=100"),
        ("*-d50", "rate=25e6 backoff=20 repeat=300 repair=300"),
        ("r16-l0-*", "rate=25e6"),
        ("r16-*", "rate=10e6 backoff=20 repeat=200 repair=200"),
        ("*", "rate=25e6"),
    ],
    "aeron": [("*-up*", "rate=11e6 nak=1 linger=1"), ("*-port*", "rate=11e6 nak=1 linger=1"), ("*", "nak=1 linger=1")],
    "tcp": [("*", "bbr")],
    "torrent": [("*", "262144")],
}

# What is worth a try: where a port is slow, where it is far, and else.
TRIED: dict[str, tuple[list[str], list[str], list[str]]] = {
    "carillon": ([""], [""], [""]),
    "uftp": (
        ["-R 90000", "-R 94000"],
        ["-R 50000", "-R 100000", "-R 200000", "-R 400000", "-R 800000"],
        ["-R 100000", "-R 200000", "-R 400000", "-R 800000", "-R 1600000"],
    ),
    "udpcast": (
        [HELLO, f"{HELLO} --max-bitrate 90m", f"{FEC} --max-bitrate 90m"],
        [HELLO, f"{HELLO} --full-duplex", f"{FEC} --max-bitrate 200m"],
        [HELLO, f"{HELLO} --full-duplex", FEC],
    ),
    "norm": (
        ["rate=90e6", "rate=94e6"],
        ["rate=100e6 grtt=0.05", "rate=200e6 grtt=0.05", "rate=300e6 grtt=0.05", "rate=200e6 grtt=0.15 buffer=64e6"],
        ["rate=100e6", "rate=200e6", "rate=300e6", "rate=600e6"],
    ),
    "pgm": (
        ["rate=11e6", "rate=11e6 backoff=20 repeat=200 repair=200"],
        [
            "rate=10e6 backoff=20 repeat=100 repair=100",
            "rate=25e6 backoff=20 repeat=100 repair=100",
            "rate=50e6 backoff=20 repeat=100 repair=100",
            "rate=25e6 backoff=20 repeat=300 repair=300",
        ],
        ["rate=25e6", "rate=50e6", "rate=100e6", "rate=10e6 backoff=20 repeat=200 repair=200"],
    ),
    "aeron": (
        ["rate=11e6 nak=1 linger=1", "rate=11e6 nak=5 linger=5"],
        ["nak=1 linger=1", "nak=10 linger=30", "nak=10 linger=110", "nak=10 linger=110 window=8388608"],
        ["nak=1 linger=1", "nak=0.2 linger=0.5"],
    ),
    "tcp": (["bbr", "cubic"], ["bbr", "cubic"], ["bbr", "cubic"]),
    "torrent": (
        ["262144", "65536", "65536 superseed=1"],
        ["262144", "65536"],
        ["262144", "65536", "262144 superseed=1"],
    ),
}


def best(peer: str, cell: Cell) -> str:
    """The settings that were best for a program in a cell."""
    return next(setting for pattern, setting in BEST[peer] if fnmatch.fnmatch(cell.name, pattern))


def candidates(peer: str, cell: Cell) -> list[str]:
    """The settings of a program that are worth a try in a cell."""
    slow, far, elsewhere = TRIED[peer]
    return slow if cell.up or cell.port else far if cell.delay else elsewhere
