#!/usr/bin/env python3
"""Checks nam trace files against the format description in the ns-2 manual.

Written after chapter "Nam Trace" of the ns-2 manual and its table of events and flags, without looking at any writer.
It checks that

- each line is an event of the table, with flags of that event and values of their types;
- configuration events (`-t *`) come first, and animation events follow in the order of time;
- nodes, links, queues, LANs and colors are declared once, and each event names declared ones;
- each packet that enters a queue leaves it or is dropped, and each packet on a link is received or dropped;
- frames on one direction of a link do not overlap, and none arrives before its last bit has left (`--exact`: each one
  arrives after its transmission time and the delay of the link).

Usage: check-nam.py [--exact] FILE...
Prints the number of packets of each file. Exit status 1 and a line for each problem if a file breaks a rule.
"""

import argparse
import collections
import re
import shlex
import sys

INT, REAL, TIME, TEXT, COLOR, FLAG, HEX = "an integer", "a number", "a time", "text", "a color", "a flag", "a hex number"
SHAPE, ORIENTATION, NODE_STATE, LINK_STATE = "a shape", "an orientation", "a node state", "a link state"

PACKET = {"t": TIME, "s": INT, "d": INT, "e": INT, "a": INT, "i": INT, "l": INT, "c": TEXT, "x": TEXT, "p": TEXT,
          "k": TEXT, "n": INT, "P": TEXT}
# Flags of each event, and the ones without which it means nothing.
EVENTS = {
    "T": ({"t": TIME}, "t"),
    "V": ({"t": TIME, "v": TEXT, "a": INT}, "tv"),
    "W": ({"t": TIME, "x": INT, "y": INT}, "txy"),
    "A": ({"t": TIME, "n": INT, "p": INT, "o": HEX, "c": INT, "a": INT, "h": INT, "m": INT, "s": INT}, "t"),
    "c": ({"t": TIME, "i": INT, "n": COLOR}, "tin"),
    "n": ({"t": TIME, "s": INT, "v": SHAPE, "c": COLOR, "z": REAL, "a": INT, "x": REAL, "y": REAL, "i": COLOR,
           "b": TEXT, "l": TEXT, "o": COLOR, "S": NODE_STATE, "L": TEXT, "p": TEXT, "P": TEXT, "I": COLOR, "e": COLOR,
           "E": COLOR, "u": TEXT, "U": TEXT, "V": TEXT, "T": REAL, "w": FLAG}, "ts"),
    "l": ({"t": TIME, "s": INT, "d": INT, "r": REAL, "D": REAL, "h": REAL, "O": ORIENTATION, "b": TEXT, "c": COLOR,
           "o": TEXT, "S": LINK_STATE, "l": TEXT, "L": TEXT, "e": COLOR, "E": COLOR}, "tsd"),
    "q": ({"t": TIME, "s": INT, "d": INT, "a": ORIENTATION}, "tsda"),
    "X": ({"t": TIME, "n": INT, "r": REAL, "D": REAL, "o": ORIENTATION, "O": ORIENTATION}, "tn"),
    "L": ({"t": TIME, "s": INT, "d": INT, "o": ORIENTATION, "O": ORIENTATION}, "tsd"),
    "m": ({"t": TIME, "n": TEXT, "s": INT, "c": COLOR, "h": SHAPE, "o": COLOR, "X": FLAG}, "tns"),
    "a": ({"t": TIME, "s": INT, "d": INT, "x": FLAG, "n": TEXT, "X": FLAG}, "tsn"),
    "f": ({"t": TIME, "s": INT, "d": INT, "x": FLAG, "T": TEXT, "n": TEXT, "a": TEXT, "v": TEXT, "o": TEXT, "X": FLAG},
          "tna"),
    "G": ({"t": TIME, "n": TEXT, "i": INT, "a": INT, "x": FLAG}, "tn"),
    "R": ({"t": TIME, "s": INT, "d": INT, "g": INT, "p": TEXT, "n": FLAG, "x": FLAG, "T": REAL, "m": TEXT}, "tsd"),
    "g": ({"t": TIME}, "t"),
    "N": ({}, ""),
    **{event: (PACKET, "tsdei") for event in "+-hrd"},
}
# Configuration events, which are parsed before the animation starts.
ONLY_CONFIGURATION = set("VWAcqXLN")
MAX_SCRIPT_LENGTH = 256
ORIENTATIONS = {"up", "down", "right", "left", "up-right", "down-right", "up-left", "down-left", "right-up",
                "right-down", "left-up", "left-down"}
NUMBER = r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?"
WORD = re.compile(r"""\s+(?:\{([^{}"'\\]*)\}|([^\s{}"'\\]+))""")
# Times have nine decimals at best, and sums of two of them are compared.
TOLERANCE = 3e-9


def is_whole(pattern, value):
    return re.fullmatch(pattern, value) is not None


# Whether a value is one of its type.
OF_TYPE = {
    INT: lambda value: is_whole(r"-?\d+", value),
    REAL: lambda value: is_whole(NUMBER, value),
    TIME: lambda value: value == "*" or is_whole(NUMBER, value),
    TEXT: lambda value: value != "",
    COLOR: lambda value: is_whole(r"[A-Za-z][A-Za-z0-9 ]*", value),
    HEX: lambda value: is_whole(r"0x[0-9a-fA-F]+", value),
    SHAPE: lambda value: value in ("circle", "box", "square", "hexagon"),
    ORIENTATION: lambda value: value in ORIENTATIONS or is_whole(NUMBER, value) or is_whole(NUMBER + "deg", value),
    NODE_STATE: lambda value: value in ("UP", "DOWN", "COLOR", "DLABEL"),
    LINK_STATE: lambda value: value in ("UP", "DOWN", "COLOR", "DLABEL"),
}


def is_value(kind, value):
    """True if a value is one of its type."""
    return OF_TYPE[kind](value)


def split(text):
    """Words of a line, which begins with white space. Braces quote like in Tcl."""
    words, at, text = [], 0, text.rstrip()
    while found := WORD.match(text, at):
        words.append(found[found.lastindex])
        at = found.end()
    # Few lines have other quotes, and reading those takes long.
    return words if at == len(text) else shlex.split(re.sub(r"\{([^}]*)\}", r'"\1"', text))


class Link:
    """One direction of a link: its packets, and the time at which it has sent the last bit."""

    def __init__(self, rate=None, delay=None):
        self.rate, self.delay = rate, delay
        # Packets by id that wait, that have left the queue, and that are on the link (with the time they started).
        self.waiting, self.leaving, self.flying = (collections.defaultdict(list) for _ in range(3))
        self.busy_until = float("-inf")

    def left(self):
        """Number of packets that are neither received nor dropped."""
        return sum(len(times) for packets in (self.waiting, self.leaving, self.flying) for times in packets.values())


class Checker:
    """State of the check of one file."""

    def __init__(self, exact):
        self.exact = exact
        self.problems, self.counts = [], collections.Counter()
        self.nodes, self.lans, self.colors, self.links, self.queues = set(), {}, set(), {}, set()
        self.now, self.animated, self.line = float("-inf"), False, 0

    def problem(self, text):
        self.problems.append(f"line {self.line}: {text}")

    def read(self, text):
        """Checks one line."""
        self.line += 1
        if text.startswith("#"):
            if not self.animated:
                self.problem("a comment before the first animation event")
            return
        if text[:2] == "v ":
            return self.script(text)
        event, flags = text[:1], self.flags(text)
        if flags is None:
            return
        if "t" in flags:
            if not self.time(event, flags["t"]):
                return
        elif event != "N":
            return
        action = {"c": self.color, "n": self.node, "l": self.link, "q": self.queue, "X": self.lan, "L": self.lan_link}
        if event in "+-hrd":
            self.packet(event, flags)
        elif event in action:
            action[event](flags)
        elif event in "ma" and int(flags["s"]) not in self.nodes:
            self.problem(f"node {flags['s']} is not declared")

    def flags(self, text):
        """Flags of a line; None if the line is no event."""
        event = text[:1]
        if event not in EVENTS or (text[1:2] not in (" ", "")):
            self.problem(f"unknown event: {text!r}")
            return None
        kinds, needed = EVENTS[event]
        try:
            words = split(text[1:])
        except ValueError as error:
            self.problem(f"{error}: {text!r}")
            return None
        found, at = {}, 0
        while at < len(words):
            flag = words[at]
            if len(flag) != 2 or flag[0] != "-" or flag[1] not in kinds:
                self.problem(f"{event} has no flag {flag!r}")
                return None
            kind = kinds[flag[1]]
            if flag[1] in found:
                self.problem(f"flag {flag} twice")
            if kind == FLAG:
                found[flag[1]], at = True, at + 1
                continue
            value = words[at + 1] if at + 1 < len(words) else ""
            if not is_value(kind, value):
                self.problem(f"{event} {flag} {value!r} is not {kind}")
                return None
            found[flag[1]], at = value, at + 2
        missing = [flag for flag in needed if flag not in found]
        if missing:
            self.problem(f"{event} without {' '.join('-' + flag for flag in missing)}")
            return None
        return found

    def time(self, event, value):
        """Checks the time of an event; False if there is no use in going on with it."""
        if value == "*":
            if self.animated:
                self.problem("a configuration event after the first animation event")
            if event in "+-hrd":
                self.problem("a packet without a time")
                return False
            return True
        if event in ONLY_CONFIGURATION:
            self.problem(f"{event} is a configuration event: -t *")
            return False
        if float(value) < self.now:
            self.problem(f"time {value} after {self.now:.9f}")
        self.now, self.animated = max(self.now, float(value)), True
        return True

    def script(self, text):
        """Checks `v -t time -e script`, whose flags have this order."""
        parts = text.split(" ", 4)
        if len(text) > MAX_SCRIPT_LENGTH:
            self.problem(f"a script line of {len(text)} characters; {MAX_SCRIPT_LENGTH} are permitted")
        if len(parts) < 5 or parts[1] != "-t" or parts[3] != "-e" or not is_value(TIME, parts[2]):
            return self.problem(f"not v -t time -e script: {text!r}")
        self.time("v", parts[2])
        words = parts[4].split()
        if words[0] == "sim_annotation":
            if len(words) < 4 or not is_value(REAL, words[1]) or not is_value(INT, words[2]):
                self.problem("not sim_annotation time id text")
        elif words[0] == "set_rate_ext" and not re.fullmatch(NUMBER + r"(s|ms|us|ns)?", words[1]):
            self.problem(f"no rate {words[1]!r}")

    def color(self, flags):
        if flags["i"] in self.colors:
            self.problem(f"color {flags['i']} twice")
        self.colors.add(flags["i"])

    def node(self, flags):
        node = int(flags["s"])
        if flags["t"] == "*":
            if node in self.nodes or node in self.lans:
                self.problem(f"node {node} twice: nam ends at this line")
            self.nodes.add(node)
        elif node not in self.nodes:
            self.problem(f"node {node} is not declared")

    def link(self, flags):
        ends = int(flags["s"]), int(flags["d"])
        if flags["t"] != "*":
            if ends not in self.links:
                self.problem(f"no link {ends[0]} to {ends[1]}")
            return
        for node in ends:
            if node not in self.nodes:
                self.problem(f"link to node {node}, which is not declared")
        if ends in self.links:
            self.problem(f"link {ends[0]} to {ends[1]} twice")
        rate, delay = (float(flags[flag]) if flag in flags else None for flag in "rD")
        # One line makes both directions.
        for direction in (ends, ends[::-1]):
            self.links[direction] = Link(rate, delay)

    def queue(self, flags):
        ends = int(flags["s"]), int(flags["d"])
        if ends not in self.links:
            self.problem(f"queue of a link {ends[0]} to {ends[1]}, which is not declared")
        if ends in self.queues:
            self.problem(f"queue {ends[0]} to {ends[1]} twice")
        self.queues.add(ends)

    def lan(self, flags):
        lan = int(flags["n"])
        if lan in self.nodes or lan in self.lans:
            self.problem(f"LAN {lan} has the number of another node")
        self.lans[lan] = float(flags["r"]) if "r" in flags else None

    def lan_link(self, flags):
        lan, node = int(flags["s"]), int(flags["d"])
        if lan not in self.lans:
            self.problem(f"LAN {lan} is not declared")
        if node not in self.nodes:
            self.problem(f"LAN link to node {node}, which is not declared")
        if (lan, node) in self.links:
            self.problem(f"LAN link {lan} to {node} twice")
        # Stations share the medium, so that the links have no rate of their own.
        for direction in ((lan, node), (node, lan)):
            self.links[direction] = Link()

    def packet(self, event, flags):
        """Follows a packet through the queue and over the link."""
        ends, number, size = (int(flags["s"]), int(flags["d"])), int(flags["i"]), int(flags["e"])
        self.counts[event] += 1
        link = self.links.get(ends)
        if link is None:
            return self.problem(f"{event} on {ends[0]} to {ends[1]}, which is no declared link")
        if "a" in flags and flags["a"] not in self.colors:
            self.problem(f"color {flags['a']} is not declared")
        if size <= 0:
            self.problem(f"a packet of {size} bytes")
        name = f"packet {number} on {ends[0]} to {ends[1]}"
        if event == "+":
            link.waiting[number].append(self.now)
        elif event == "-":
            if not link.waiting[number]:
                return self.problem(f"{name} leaves a queue in which it is not")
            link.waiting[number].pop(0)
            link.leaving[number].append(self.now)
        elif event == "h":
            if not link.leaving[number]:
                return self.problem(f"{name} starts and has not left the queue")
            link.leaving[number].pop(0)
            link.flying[number].append(self.now)
            if self.now < link.busy_until - TOLERANCE:
                self.problem(f"{name} starts before the link is free at {link.busy_until:.9f}")
            link.busy_until = self.now + (8 * size / link.rate if link.rate else 0)
        elif event == "r":
            if not link.flying[number]:
                return self.problem(f"{name} is received and was not sent")
            started = link.flying[number].pop(0)
            needed = started + (8 * size / link.rate if link.rate else 0)
            if self.now < needed - TOLERANCE:
                self.problem(f"{name} is received before its last bit has left at {needed:.9f}")
            if self.exact and link.delay is not None and abs(self.now - needed - link.delay) > TOLERANCE:
                self.problem(f"{name} is received at {self.now:.9f} and not at {needed + link.delay:.9f}")
        elif link.flying[number]:
            link.flying[number].pop(0)
        elif link.waiting[number]:
            link.waiting[number].pop(0)
        else:
            self.problem(f"{name} is dropped and is neither in the queue nor on the link")

    def finish(self):
        """Checks that nothing is missing at the end of the file."""
        for (source, dest), link in sorted(self.links.items()):
            if link.left():
                self.problem(f"{link.left()} packets on {source} to {dest} are neither received nor dropped")
        if not self.nodes:
            self.problem("no node is declared")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exact", action="store_true", help="arrivals are exactly transmission time and delay later")
    parser.add_argument("files", nargs="+", metavar="FILE")
    args = parser.parse_args()
    failed = False
    for path in args.files:
        checker = Checker(args.exact)
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if not line.endswith("\n"):
                    checker.problem("the last line does not end")
                checker.read(line.rstrip("\n"))
        checker.finish()
        counts = checker.counts
        print(f"{path}: {counts['h']} packets on links, {counts['r']} received, {counts['d']} dropped, "
              f"{len(checker.problems)} problems")
        for problem in checker.problems[:20]:
            print(f"{path}, {problem}", file=sys.stderr)
        failed |= bool(checker.problems)
    sys.exit(failed)


if __name__ == "__main__":
    main()
