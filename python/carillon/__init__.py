"""Reliable multicast: a laboratory for its protocols, and delivery to many machines.

>>> import carillon
>>> result = carillon.run({
...     "name": "ten receivers",
...     "network": {"kind": "lan"},
...     "loss": {"model": "bernoulli", "p": 0.01},
...     "group": {"receivers": 10},
...     "protocol": {"name": "carillon"},
...     "workload": {"messages": 100, "message_bytes": 1000},
... }, progress=False)
>>> result.mean("undelivered_share")
0.0
"""

from carillon._carillon import VERSION as __version__
from carillon._carillon import (
    CarillonError,
    Interrupted,
    Message,
    RunError,
    ScenarioError,
    Table,
    TransportError,
    protocols,
)
from carillon.comparison import FolderComparison, compare
from carillon.files import ReceiveReport, ReceiverReport, SendReport, receive, receive_async, send, send_async
from carillon.loss import LossQuery, loss_model
from carillon.messages import Listener, Member, Sender, connect, connect_async, listen
from carillon.protocol import Protocol, ReceiverMachine, SenderMachine, check, register
from carillon.reproduction import Experiment, experiments, reproduce
from carillon.result import Result, load
from carillon.running import run, sweep
from carillon.scenario import Scenario
from carillon.topology import Link, Topology

__all__ = [
    "CarillonError",
    "Experiment",
    "FolderComparison",
    "Interrupted",
    "Link",
    "Listener",
    "LossQuery",
    "Member",
    "Message",
    "Protocol",
    "ReceiveReport",
    "ReceiverMachine",
    "ReceiverReport",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "SendReport",
    "Sender",
    "SenderMachine",
    "Table",
    "Topology",
    "TransportError",
    "__version__",
    "check",
    "compare",
    "connect",
    "connect_async",
    "experiments",
    "listen",
    "load",
    "loss_model",
    "protocols",
    "receive",
    "receive_async",
    "register",
    "reproduce",
    "run",
    "send",
    "send_async",
    "sweep",
]
