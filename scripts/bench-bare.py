#!/usr/bin/env python3
"""Measures the maximum multicast throughput of a network of this host: datagrams that fill frames of 1500 bytes, discarded
by the receivers. Without protocol, digest and file it is an upper bound for file delivery over sockets here.
`make bench-peers` measures programs on the same networks.

    scripts/bench-bare.py                       1, 4 and 16 receivers, half a minute
    scripts/bench-bare.py --receivers 4 --rates 150,200,250

Prints, for each number of receivers and each rate, the sent data and the data at the receiver with the least, in MB of
datagrams per second. The maximum received is the bound. Needs root, network namespaces and a C compiler.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time

import networks


def run(receivers: int, rate: float, seconds: float) -> tuple[float, float]:
    """Sent data, and data at the receiver with the least."""
    program = networks.compiled("bare-datagrams")
    with networks.Network(receivers) as net:
        receiving = [
            subprocess.Popen(
                [*net.inside(name), program, "receive", net.address(name), str(seconds + 1)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in net.receivers
        ]
        time.sleep(0.3)
        sent = float(networks.call(*net.inside("s"), program, "send", net.address("s"), str(rate), str(seconds)))
        return sent, min(float(one.communicate()[0]) for one in receiving)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser.add_argument("--receivers", type=numbers, default=[1, 4, 16], help="how many, with commas between [1,4,16]")
    parser.add_argument("--rates", type=numbers, default=[0], help="MB a second; 0: 60, 90, 120 and 200 %% of what went out unbounded [0]")
    parser.add_argument("--seconds", type=float, default=2, help="of each [2]")
    args = parser.parse_args()
    reason = networks.why_not()
    if reason:
        sys.exit(f"bench-bare: SKIPPED: {reason}")
    # Turn a termination signal into an exception, so that the networks are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("receivers   tried    sent  least came, MB/s")
    for receivers in args.receivers:
        rates, most = args.rates, 0.0
        if rates == [0]:
            whole, _ = run(receivers, 1e6, args.seconds)
            rates = [round(whole * part) for part in (0.6, 0.9, 1.2, 2.0)]
        for rate in rates:
            sent, came = run(receivers, rate, args.seconds)
            most = max(most, came)
            print(f"{receivers:9} {rate:7} {sent:7.1f} {came:7.1f}", flush=True)
        print(f"{receivers:9}    at most       {most:7.1f}", flush=True)


if __name__ == "__main__":
    main()
