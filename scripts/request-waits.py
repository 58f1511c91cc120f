#!/usr/bin/env python3
"""Measures the waits of NAKs for the medium: from the request to the end of the transmission.

A node's packets leave its interface in the order in which it asked for them. Those that the
interface gave up or lost are not counted.
"""

import argparse
import collections
import json
import sys

ASKED = {"sent", "repair_sent", "control_sent"}


def waits(lines):
    queues = collections.defaultdict(collections.deque)
    for line in lines:
        event = json.loads(line)
        name, queue = event["event"], queues[event["node"]]
        lost_here = name == "frame_lost" and event.get("receiver") is None
        if name in ASKED:
            queue.append((event.get("packet"), event["time_ns"]))
        elif queue and (name in {"frame_sent", "frame_discarded"} or lost_here):
            packet, asked = queue.popleft()
            if packet == "nak" and name == "frame_sent":
                yield (event["time_ns"] - asked) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE.jsonl")
    path = parser.parse_args().trace
    with open(path, encoding="utf-8") as trace:
        found = sorted(waits(trace))
    if not found:
        sys.exit(f"{path}: no NAK was sent; is the loss zero?")
    at = lambda share: found[min(len(found) - 1, int(share * len(found)))]
    mean = sum(found) / len(found)
    print(f"{len(found)} NAKs: mean {mean:.1f} ms, 95 % {at(.95):.1f} ms, 99 % {at(.99):.1f} ms, longest {found[-1]:.1f} ms")


if __name__ == "__main__":
    main()
