"""Figures for papers: one function for each kind of figure.

Every function draws with the settings of `style` into a new figure, or into given axes (`ax=`) with the settings in
force, and returns the figure. `save` writes it as PDF, SVG or PNG; equal figures give equal bytes.

>>> import carillon
>>> result = carillon.sweep(
...     {
...         "name": "example",
...         "network": {"kind": "lan"},
...         "protocol": {"name": "msaw"},
...         "workload": {"messages": 10, "message_bytes": 500},
...         "run": {"replications": 3},
...     },
...     {"group.receivers": [2, 4, 8]},
...     progress=False,
... )
>>> figure = lines(result, "message_latency_s")
>>> figure.axes[0].get_xlabel()
'Receivers'
"""

from carillon.plots.described import described, published
from carillon.plots.network import topology
from carillon.plots.sequence import sequence
from carillon.plots.style import save, style
from carillon.plots.sweeps import bars, boxes, distribution, lines, scatter

__all__ = [
    "bars",
    "boxes",
    "described",
    "distribution",
    "lines",
    "published",
    "save",
    "scatter",
    "sequence",
    "style",
    "topology",
]
