"""Real networks on one Linux host, for benchmarks and the demonstration: a sender and receivers, each in a network
namespace of its own, on one switch; frames of at most 1500 bytes; loss, rates and delay at their ports. Needs root, ip(8),
tc(8), nft(8), ethtool(8), and a C compiler where there is delay.

The sender is 10.77.0.1, receiver N (from 1) is 10.77.0.(10+N); each has `eth0` and a route to all multicast groups.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "carillon-lab-"


class Missing(Exception):
    """Why no networks can be made here."""


def why_not() -> str | None:
    """Why no networks can be made here, in a line; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables"), ("ethtool", "ethtool")):
        if not shutil.which(program):
            return f"{program}(8) is missing (package {package})"
    name = f"{PREFIX}{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return "network namespaces cannot be made here: " + made.stderr.strip().replace("\n", "; ")
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return None


def call(*command: str, text: str | None = None) -> str:
    """Runs a command that is to succeed; its output."""
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def sweep() -> None:
    """Removes the networks of processes that are gone without having been able to."""
    for line in call("ip", "netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        process = name[len(PREFIX) :].split("-")[0] if name.startswith(PREFIX) else ""
        if process.isdigit() and not os.path.exists(f"/proc/{process}"):
            remove([name])


def remove(names: list[str]) -> None:
    """Kills what runs in namespaces of ours, and removes them; their wires go with them."""
    for name in names:
        pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        for pid in pids.stdout.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def compiled(name: str) -> str:
    """A program in C of this directory, compiled into target/ if it is older than its source."""
    source = os.path.join(HERE, f"{name}.c")
    program = os.path.join(HERE, "..", "target", name)
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
        os.makedirs(os.path.dirname(program), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(program)) as folder:
            fresh = os.path.join(folder, name)
            call("cc", "-O2", "-o", fresh, source)
            os.replace(fresh, program)
    return os.path.abspath(program)


class Network:
    """One network, removed by `close` or at the end of a `with`."""

    number = 0

    def __init__(self, receivers: int, delay_ms: float = 0, gro: bool = True) -> None:
        Network.number += 1
        self.prefix = f"{PREFIX}{os.getpid()}-{Network.number}-"
        self.receivers = [f"r{number}" for number in range(1, receivers + 1)]
        self.hosts = ["s", *self.receivers]
        # Receivers join frames that follow each other (GRO), as every interface of Linux does unless it is told otherwise.
        self.gro = gro
        self.relay: subprocess.Popen[str] | None = None
        sweep()
        try:
            self._build(delay_ms)
        except BaseException:
            self.close()
            raise

    def _build(self, delay_ms: float) -> None:
        switch = self.namespace("switch")
        lines = [f"netns add {self.namespace(host)}" for host in ["switch", *self.hosts]]
        call("ip", "-batch", "-", text="\n".join(lines))
        lines = ["link add bridge type bridge mcast_snooping 0", "link set bridge up"]
        for host in self.hosts:
            lines.append(f"link add {host} mtu 1500 type veth peer name eth0 netns {self.namespace(host)}")
            if not (delay_ms and host == "s"):
                lines.append(f"link set {host} master bridge")
            lines.append(f"link set {host} up")
        if delay_ms:
            # One relay at the sender: what it costs does not grow with the number of receivers.
            lines += ["link add s-near type veth peer name s-far", "link set s-far master bridge"]
            lines += ["link set s-near up", "link set s-far up"]
        call("ip", "-n", switch, "-batch", "-", text="\n".join(lines))
        # Otherwise the kernel hands frames of 64 KiB from port to port.
        plain = "ethtool -K $port tx off rx off sg off tso off gso off gro off >/dev/null 2>&1 || true"
        self.shell("switch", f"for port in $(ls /sys/class/net | grep -v bridge); do {plain}; done")
        for host in self.hosts:
            self.shell(
                host,
                f"port=eth0; {plain}; {self._joining(host)}ip link set lo up; ip addr add {self.address(host)}/24 brd + dev eth0; "
                "ip link set eth0 up; ip route add 224.0.0.0/4 dev eth0",
            )
        self._meet()
        if delay_ms:
            command = [*self.inside("switch"), compiled("link-emulator"), "s", "s-near", str(round(delay_ms * 1000))]
            self.relay = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert self.relay.stdout is not None
            if self.relay.stdout.readline() != "ready\n":
                raise RuntimeError("the link emulator does not start")

    def _joining(self, host: str) -> str:
        return "ethtool -K eth0 gro on >/dev/null; " if self.gro and host != "s" else ""

    def _meet(self) -> None:
        """Each knows the hardware addresses of all: far away it is a router next to it that one would ask for them, not
        the other end, and losses would otherwise meet the questions."""
        addresses = {}
        for host in self.hosts:
            link = json.loads(call("ip", "-n", self.namespace(host), "-j", "link", "show", "dev", "eth0"))
            addresses[host] = link[0]["address"]
        for host in self.hosts:
            lines = [
                f"neigh replace {self.address(other)} lladdr {address} dev eth0 nud permanent"
                for other, address in addresses.items()
                if other != host
            ]
            call("ip", "-n", self.namespace(host), "-batch", "-", text="\n".join(lines))

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.relay:
            self.relay.kill()
            self.relay.wait()
            self.relay = None
        remove([self.namespace(host) for host in ["switch", *self.hosts]])

    def namespace(self, host: str) -> str:
        return self.prefix + host

    def address(self, host: str) -> str:
        return "10.77.0.1" if host == "s" else f"10.77.0.{10 + int(host[1:])}"

    def inside(self, host: str) -> list[str]:
        """What comes before a command that is to run in a host; the process is that of the command."""
        return ["ip", "netns", "exec", self.namespace(host)]

    def shell(self, host: str, script: str, text: str | None = None) -> str:
        return call(*self.inside(host), "sh", "-ec", script, text=text)

    def lose(self, host: str, part: float, hook: str = "ingress") -> None:
        """Loses this part of the packets that arrive at a host (or leave it, egress), each by itself. Those that arrive
        are lost where they leave the switch: the host itself would lose a whole run of joined frames at once."""
        place, device = ("switch", host) if hook == "ingress" else (host, "eth0")
        table = f"table netdev lose-{hook}-{host}"
        rules = f"add {table}\ndelete {table}\n"
        if part > 0:
            rules += (
                f"{table} {{ chain c {{ type filter hook egress device {device} priority 0; "
                f"meta protocol {{ ip, ip6 }} numgen random mod 1000000 < {round(part * 1e6)} drop\n }}\n }}\n"
            )
        self.shell(place, "nft -f -", text=rules)

    def rate_in(self, host: str, mbit: float, queue: int = 262144) -> None:
        """The port towards a host carries at this rate and queues this number of bytes; the excess is dropped."""
        tbf = f"tc qdisc replace dev {host} root tbf rate {round(mbit * 1000)}kbit burst 32kb limit {queue}"
        self.shell("switch", tbf)

    def rate_out(self, host: str, mbit: float) -> None:
        """The host's own port carries this much, and queues 256 KiB."""
        self.shell(host, f"tc qdisc replace dev eth0 root tbf rate {round(mbit * 1000)}kbit burst 32kb limit 262144")

    def bytes_sent(self, host: str) -> int:
        """Bytes of frames that have left a host."""
        text = call("ip", "-n", self.namespace(host), "-s", "-j", "link", "show", "dev", "eth0")
        return int(json.loads(text)[0]["stats64"]["tx"]["bytes"])
