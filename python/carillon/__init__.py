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
from carillon._carillon import CarillonError, Interrupted, RunError, ScenarioError, Table, protocols
from carillon.comparison import FolderComparison, compare
from carillon.reproduction import Experiment, experiments, reproduce
from carillon.result import Result, load
from carillon.running import run, sweep
from carillon.scenario import Scenario

__all__ = [
    "CarillonError",
    "Experiment",
    "FolderComparison",
    "Interrupted",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Table",
    "__version__",
    "compare",
    "experiments",
    "load",
    "protocols",
    "reproduce",
    "run",
    "sweep",
]
