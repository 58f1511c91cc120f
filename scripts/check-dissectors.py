#!/usr/bin/env python3
"""Checks captures of simulated runs with Wireshark's dissectors: every packet must be dissected completely.

XTP in each of its ways, PGM and NORM, which are the protocols of the registry that tshark knows; one that it knows and that is
not here is a failure. Plain sessions of FLUTE (ALC) and NORM are captured as they are sent. Our dissector is loaded beside them. A packet is understood if the dissector's name is the last in its list of protocols (data it carries aside),
nothing in it is malformed or marked by an expert, and its checksum is found correct.

As root, a file that goes right over IP as XTP (`--raw-ip`) between two network namespaces is captured there, as it is.

Where there is no tshark and it cannot be installed (apt, as root), this says so; with CARILLON_REQUIRE_NETWORK it fails then.
"""

import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

XTP_IP_PROTOCOL = 36

# tshark has other protocols of these names: bearer associations of telephony, directories of X.500, a field bus, and the Remote
# Maintenance Protocol of HP.
NAMESAKES = {"bap", "dsp", "ff", "rmp"}

# (protocol, what it shows, settings of the scenario)
CASES = [
    ("xtp", "unacknowledged stream to the group", ["protocol.service=5", "network.port_queue=1", "loss.p=0.05"]),
    ("xtp", "reliable stream to one, go-back-N", ["protocol.service=4", "group.receivers=1", "loss.p=0.05"]),
    ("xtp", "reliable multicast, go-back-N, FASTNAK", ["loss.p=0.05"]),
    ("xtp", "reliable multicast, selective", ["protocol.error_control=selective", "loss.p=0.05"]),
    ("xtp", "selective, no FASTNAK, the thesis's handshake",
     ["protocol.error_control=selective", "protocol.fastnak=false", "protocol.handshake=thesis", "loss.p=0.1"]),
    ("xtp", "reservation, DREQ", ["protocol.flow_control=reservation", "protocol.status_request=dreq", "loss.p=0.05"]),
    ("xtp", "three in ten lost, CTIMEOUT of 2 s", ["protocol.handshake=thesis", "protocol.ctimeout=2 s", "loss.p=0.3"]),
    ("xtp", "reliable stream, data in FIRST", ["protocol.data_in_first=true", "loss.p=0.05"]),
    ("xtp", "named receivers, feedback in slots, one leaves",
     ["protocol.reliability=named", "protocol.named=2", "protocol.feedback=slotted", "protocol.leave_after=15", "loss.p=0.1"]),
    ("xtp-datagram", "unacknowledged datagrams", ["protocol.maxdata=3000", "loss.p=0.05"]),
    ("xtp-datagram", "unacknowledged datagrams to one", ["protocol.maxdata=3000", "protocol.service=4", "group.receivers=1"]),
    ("xtp", "acknowledged datagrams", ["protocol.paradigm=acknowledged-datagram", "protocol.maxdata=3000", "loss.p=0.1"]),
    ("xtp", "transactions", ["protocol.paradigm=transaction", "protocol.maxdata=3000", "loss.p=0.1"]),
    ("xtp", "transactions with one", ["protocol.paradigm=transaction", "protocol.maxdata=3000", "protocol.service=4", "group.receivers=1", "loss.p=0.1"]),
    ("pgm", "losses and repairs", ["loss.p=0.05"]),
    ("norm", "losses, parity and explicit repairs", ["loss.p=0.1", "protocol.block=4", "protocol.parity=1"]),
    ("norm", "unicast requests and a small cache", ["loss.p=0.1", "protocol.feedback=unicast", "protocol.cache=4", "protocol.cache_time=0 s"]),
]

OUR_DISSECTOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "packaging", "wireshark", "carillon.lua")

# NORM and ALC have no ports of their own.
NORM_PORT = 6003
ALC_PORT = 3400

# Settings of FLUTE senders, whose packets are captured as they are sent.
FLUTE_CASES = [
    ["fec=no-code"],
    ["fec=reed-solomon", "version=1"],
    ["fec=raptor", "content_encoding=gzip"],
    ["fec=raptorq"],
]

SCENARIO = """
name = "dissected"
[network]
kind = "lan"
[loss]
model = "bernoulli"
p = 0.0
[group]
receivers = 3
[protocol]
name = "{protocol}"
[workload]
messages = 20
payload_bytes = 3000
[run]
time_limit = "600 s"
unfinished = "keep"
"""


def tshark(*args):
    return subprocess.run(["tshark", *args], capture_output=True, text=True, check=True).stdout


def install():
    """Whether there is a tshark, now or after an attempt to install it."""
    if shutil.which("tshark"):
        return True
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "tshark"]):
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
    return shutil.which("tshark") is not None


def capture(binary, directory, protocol, settings):
    """The datagrams of a run: source, destination, payload."""
    plan, trace = os.path.join(directory, "plan.toml"), os.path.join(directory, "run.pcapng")
    with open(plan, "w") as file:
        file.write(SCENARIO.format(protocol=protocol))
    if os.path.exists(trace):
        os.remove(trace)
    command = [binary, "run", plan, "--trace", trace]
    for setting in settings:
        command += ["--set", setting]
    run = subprocess.run(command, capture_output=True, text=True)
    if not os.path.exists(trace):
        sys.exit(f"{' '.join(command)}: {run.stderr}")
    fields = tshark("-r", trace, "-T", "fields", "-e", "ip.src", "-e", "ip.dst", "-e", "udp.payload")
    return [line.split("\t") for line in fields.splitlines()]


def over_ip(datagrams, path, number):
    """A capture with these payloads right over IP, where dissectors look for them."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for at, (source, destination, payload) in enumerate(datagrams):
            payload = bytes.fromhex(payload.replace(":", ""))
            address = lambda text: bytes(int(part) for part in text.split("."))
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), at & 0xFFFF, 0, 64, number, 0)
            packet = head + address(source) + address(destination) + payload
            file.write(struct.pack("<IIII", at, 0, len(packet), len(packet)) + packet)


def on_the_wire(binary, directory, path):
    """Captures what goes right over IP when a file is sent so from one network namespace to another; whether that could be done."""
    names = [f"dissect-{os.getpid()}-{end}" for end in "sr"]
    ip = lambda *args: subprocess.run(["ip", *args], capture_output=True, text=True)
    inside = lambda name, *args, **more: subprocess.Popen(["ip", "netns", "exec", name, *args], cwd=directory, **more)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        if any(ip("netns", "add", name).returncode for name in names):
            return False
        ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
        for number, name in enumerate(names, 1):
            ip("-n", name, "addr", "add", f"10.77.1.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "route", "add", "224.0.0.0/4", "dev", "eth0")
        with open(os.path.join(directory, "sent"), "wb") as file:
            file.write(os.urandom(200_000))
        watch = inside(names[0], "tshark", "-i", "eth0", "-f", f"ip proto {XTP_IP_PROTOCOL}", "-w", path,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        # It says "Capturing" before it does, and where to once it does.
        next((line for line in watch.stderr if "File:" in line), None)
        binary = os.path.abspath(binary)
        receiver = inside(names[1], binary, "recv", "--raw-ip", "--drop", "0.02", "--seed", "1", "--out", "kept", **quiet)
        sender = inside(names[0], binary, "send", "sent", "--protocol", "xtp", "--raw-ip", "--receivers", "1", **quiet)
        codes = sender.wait(60), receiver.wait(60)
        # What has come is handed over now and then.
        time.sleep(1)
        watch.send_signal(signal.SIGINT)
        watch.wait(10)
        if any(codes):
            sys.exit(f"a file right over IP: send and recv ended with {codes}")
        return True
    finally:
        for name in names:
            ip("netns", "del", name)


def over_udp(datagrams, path, port):
    """A capture with these payloads in UDP between these ports."""
    packets = []
    for source, destination, payload in datagrams:
        payload = bytes.fromhex(payload.replace(":", ""))
        packets.append((source, destination, (struct.pack(">HHHH", port, port, 8 + len(payload), 0) + payload).hex()))
    over_ip(packets, path, 17)


def handed_over(binary, directory):
    """What is wrong with our dissector on its own port: PGM is to be PGM, the session Carillon's, and other bytes nothing of both."""
    path = os.path.join(directory, "over-udp.pcap")
    pgm = capture(binary, directory, "pgm", ["loss.p=0.05"])
    session = ["ca030001" + "80000001" + "00" * 40, "ca010301" + "80000001" + "00" * 40]
    session = [("10.0.0.1", "10.0.0.2", payload) for payload in session]
    other = [("10.0.0.1", "10.0.0.2", payload) for payload in ("00" * 20 + "01", "47" * 60, pgm[0][2][:-2] + "ff")]
    wrong = []
    for datagrams, expected in ((pgm, "PGM"), (session, "Carillon"), (other, "UDP")):
        over_udp(datagrams, path, 7654)
        text = tshark("-X", f"lua_script:{OUR_DISSECTOR}", "-r", path, "-T", "fields", "-e", "_ws.col.Protocol")
        found = text.split()
        wrong += [f"packet {number} is {one} instead of {expected}" for number, one in enumerate(found, 1) if one != expected]
        wrong += [] if len(found) == len(datagrams) > 0 else [f"{len(found)} of {len(datagrams)} packets"]
    return wrong


def sent_plainly(binary, directory, protocol, port, settings):
    """The datagrams of a plain session on the loopback interface: source, destination, payload."""
    trace = os.path.join(directory, "plain.pcapng")
    if os.path.exists(trace):
        os.remove(trace)
    with open(os.path.join(directory, "plain-file"), "wb") as file:
        file.write(os.urandom(30_000))
    command = [binary, "send", "--plain", "--protocol", protocol, "--group", f"239.77.4.4:{port}", "--interface", "lo"]
    for setting in settings:
        command += ["--set", setting]
    run = subprocess.run(command + ["--trace", trace, file.name], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)}: {run.stderr}")
    fields = tshark("-r", trace, "-T", "fields", "-e", "ip.src", "-e", "ip.dst", "-e", "udp.payload")
    return [line.split("\t") for line in fields.splitlines()]


def misunderstood(path, protocol):
    """How many packets there are, of which kinds, and what is wrong with some."""
    options = {"alc": ["-d", f"udp.port=={ALC_PORT},alc"], "xtp": [], "pgm": ["-o", "pgm.check_checksum:TRUE"], "norm": ["-d", f"udp.port=={NORM_PORT},norm"]}[protocol]
    kind = {"alc": "rmt-lct.toi", "xtp": "xtp.cmd.ptype", "pgm": "pgm.hdr.type", "norm": "norm.type"}[protocol]
    names = ["frame.protocols", "_ws.malformed", "_ws.expert.message", kind]
    options += ["-X", f"lua_script:{OUR_DISSECTOR}"]
    text = tshark("-r", path, *options, "-T", "fields", *[word for name in names for word in ("-e", name)])
    wrong, kinds = [], {}
    for number, line in enumerate(text.splitlines(), 1):
        protocols, malformed, expert, kind = (line.split("\t") + [""] * 4)[:4]
        kinds[kind] = kinds.get(kind, 0) + 1
        layers = [layer for layer in protocols.split(":") if layer not in ("data", "rmt-lct", "rmt-fec")]
        if protocol == "alc":
            # The table is XML. The dissector knows neither the whole FEC encoding 1, 2 and 6, nor parts of a document.
            layers = layers[:layers.index("alc") + 1] if "alc" in layers else layers
            expert = ""
        # tshark cannot read symbols of FEC encoding 5, also those of NRL's library, and calls them malformed. It takes the length
        # of a symbol in their transmission information for a field of another encoding.
        is_known = protocol == "norm" and (kind == "2" and "NORM" in malformed or kind == "1" and "should be zero" in expert)
        if layers[-1:] != [protocol] or (malformed or expert) and not is_known:
            wrong.append(f"packet {number}: {line!r}")
    if protocol in ("norm", "alc"):
        # It has no checksum of its own.
        return kinds, wrong
    shown = tshark("-r", path, *options, "-V")
    correct, count = shown.count("[correct]"), sum(kinds.values())
    if correct < count:
        wrong.append(f"{count - correct} of {count} checksums are not found correct")
    return kinds, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="target/debug/carillon", help="[target/debug/carillon]")
    binary = parser.parse_args().binary
    if not install():
        print("SKIPPED check-dissectors: there is no tshark, and it cannot be installed here", file=sys.stderr)
        return 1 if os.environ.get("CARILLON_REQUIRE_NETWORK", "0") not in ("", "0") else 0
    listed = json.loads(subprocess.run([binary, "protocols", "--json"], capture_output=True, text=True, check=True).stdout)
    registry = {entry["name"] for entry in listed}
    # The third column is the name in filters.
    known = {line.split("\t")[2] for line in tshark("-G", "protocols").splitlines() if line.count("\t") >= 2}
    failed = sorted((registry & known) - NAMESAKES - {case[0] for case in CASES})
    for name in failed:
        print(f"{name}: tshark has a dissector of this name, and no capture here is for it")
    with tempfile.TemporaryDirectory() as directory:
        for protocol, what, settings in CASES:
            path = os.path.join(directory, "over-ip.pcap")
            dissector = protocol.split("-")[0]
            datagrams = capture(binary, directory, protocol, settings)
            if dissector == "norm":
                over_udp(datagrams, path, NORM_PORT)
            else:
                over_ip(datagrams, path, {"xtp": XTP_IP_PROTOCOL, "pgm": 113}[dissector])
            kinds, wrong = misunderstood(path, dissector)
            of = ", ".join(f"{count} of type {kind}" for kind, count in sorted(kinds.items()))
            print(f"{protocol}, {what}: {sum(kinds.values())} packets ({of}), {len(wrong)} complaints")
            for line in wrong[:5]:
                print(f"  {line}")
            failed += wrong
            if not kinds:
                failed.append(f"{protocol}, {what}: nothing was captured")
        for settings in FLUTE_CASES:
            over_udp(sent_plainly(binary, directory, "flute", ALC_PORT, settings), path, ALC_PORT)
            kinds, wrong = misunderstood(path, "alc")
            objects = sorted(kind for kind in kinds if kind)
            print(f"flute, {', '.join(settings)}: {sum(kinds.values())} packets (objects {', '.join(objects)}), {len(wrong)} complaints")
            for line in wrong[:5]:
                print(f"  {line}")
            failed += wrong if objects == ["0", "1"] else [f"flute, {settings}: objects {objects}"]
        over_udp(sent_plainly(binary, directory, "norm", NORM_PORT, ["auto_parity=2", "robust_factor=2"]), path, NORM_PORT)
        kinds, wrong = misunderstood(path, "norm")
        print(f"norm, plain: {sum(kinds.values())} packets (types {', '.join(sorted(kinds))}), {len(wrong)} complaints")
        # Information, data and commands.
        failed += wrong if sorted(kinds) == ["1", "2", "3"] else [f"norm, plain: types {sorted(kinds)}"]
        wrong = handed_over(binary, directory)
        print(f"our dissector beside others: {len(wrong)} complaints")
        failed += wrong
        path = os.path.join(directory, "wire.pcapng")
        if os.geteuid() == 0 and on_the_wire(binary, directory, path):
            kinds, wrong = misunderstood(path, "xtp")
            print(f"xtp, right over IP between two hosts: {sum(kinds.values())} packets, {len(wrong)} complaints")
            failed += wrong if kinds else ["nothing went right over IP"]
        else:
            print("SKIPPED xtp right over IP: no network namespaces", file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
