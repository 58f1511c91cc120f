"""Which settings are best for each program in which cells, as `bench-peers.py --try` has found; and what it tries.

Carillon has none. UFTP: its own options. udpcast: its own. NORM, OpenPGM, Aeron: as the programs beside this file say.
TCP: the congestion control. BitTorrent: the length of a piece.
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
    "uftp": [
        ("*-up*", "-R 94000"),
        ("*-port*", "-R 94000"),
        ("r1-*-d0", "-R 1600000"),
        ("r4-*-d0", "-R 800000"),
        ("*", "-R 400000"),
    ],
    "udpcast": [
        ("r16-l5-d0", FEC),
        ("r16-l20-d0", FEC),
        ("*-l0-*", HELLO),
        ("*-d0*", HELLO),
        ("*", f"{FEC} --max-bitrate 200m"),
    ],
    "norm": [
        ("*-up*", "rate=94e6"),
        ("*-port*", "rate=94e6"),
        ("r16-*-d10", "rate=100e6 grtt=0.05"),
        ("r16-*-d50", "rate=100e6 grtt=0.15"),
        ("*-d10", "rate=200e6 grtt=0.05"),
        ("*-d50", "rate=200e6 grtt=0.15"),
        ("r1-*", "rate=300e6"),
        ("r4-l0-*", "rate=200e6"),
        ("*", "rate=100e6"),
    ],
    "pgm": [
        ("r16-*-up*", "rate=11e6 backoff=20 repeat=200 repair=200"),
        ("r16-*-port*", "rate=11e6 backoff=20 repeat=200 repair=200"),
        ("*-up*", "rate=11e6"),
        ("*-port*", "rate=11e6"),
        ("*-d10", "rate=25e6 backoff=20 repeat=100 repair=100"),
        ("*-d50", "rate=25e6 backoff=20 repeat=300 repair=300"),
        ("r16-l0-*", "rate=25e6"),
        ("r16-*", "rate=10e6 backoff=20 repeat=200 repair=200"),
        ("*", "rate=50e6"),
    ],
    "aeron": [
        ("*-up*", "rate=10e6 nak=1 linger=25 resend=256"),
        ("*-port*", "rate=10e6 nak=1 linger=25 resend=256"),
        ("*-d10", "nak=1 linger=25 resend=256 window=4194304"),
        ("*-d50", "nak=1 linger=105 resend=256 window=4194304"),
        ("r16-*", "nak=1 linger=1"),
        ("*", "nak=0.2 linger=0.5"),
    ],
    "tcp": [("*-l0-d0", "cubic"), ("*-l1-d0", "cubic"), ("*", "bbr")],
    "torrent": [("r16-*", "65536"), ("*", "262144")],
}

# What is worth a try: where a port is slow, where it is far, and else.
TRIED: dict[str, tuple[list[str], list[str], list[str]]] = {
    "carillon": ([""], [""], [""]),
    "uftp": (
        ["-R 90000", "-R 94000"],
        ["-R 100000", "-R 200000", "-R 400000"],
        ["-R 200000", "-R 400000", "-R 800000", "-R 1600000"],
    ),
    "udpcast": (
        [HELLO, f"{HELLO} --max-bitrate 90m"],
        [HELLO, f"{FEC} --max-bitrate 200m"],
        [HELLO, FEC],
    ),
    "norm": (
        ["rate=90e6", "rate=94e6"],
        ["rate=100e6 grtt=0.05", "rate=200e6 grtt=0.05", "rate=200e6 grtt=0.15"],
        ["rate=100e6", "rate=200e6", "rate=300e6"],
    ),
    "pgm": (
        ["rate=11e6", "rate=11e6 backoff=20 repeat=200 repair=200"],
        [
            "rate=10e6 backoff=20 repeat=300 repair=300",
            "rate=25e6 backoff=20 repeat=100 repair=100",
            "rate=25e6 backoff=20 repeat=300 repair=300",
        ],
        ["rate=25e6", "rate=50e6", "rate=10e6 backoff=20 repeat=200 repair=200"],
    ),
    "aeron": (
        ["rate=11e6 nak=1 linger=1", "rate=10e6 nak=1 linger=25 resend=256"],
        [
            "nak=1 linger=1",
            "nak=1 linger=25 resend=256 window=4194304",
            "nak=1 linger=105 resend=256 window=4194304",
        ],
        ["nak=1 linger=1", "nak=0.2 linger=0.5"],
    ),
    "tcp": (["bbr", "cubic"], ["bbr", "cubic"], ["bbr", "cubic"]),
    "torrent": (["262144", "65536"], ["262144", "65536"], ["262144", "65536"]),
}


def best(peer: str, cell: Cell) -> str:
    """The settings that were best for a program in a cell."""
    return next(setting for pattern, setting in BEST[peer] if fnmatch.fnmatch(cell.name, pattern))


def candidates(peer: str, cell: Cell) -> list[str]:
    """The settings of a program that are worth a try in a cell."""
    slow, far, elsewhere = TRIED[peer]
    return slow if cell.up or cell.port else far if cell.delay else elsewhere
