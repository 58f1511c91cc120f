"""Scenarios: descriptions of the simulations to run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from carillon import _carillon
from carillon.loss import named_fates
from carillon.topology import named_topology


class Scenario:
    """A checked scenario: network, losses, group, protocol, workload, and the keys to sweep.

    Every key is described in `docs/reference/scenario.md`. A scenario never changes: `replace` and `sweep` return a new
    one.

    >>> scenario = Scenario({
    ...     "name": "example",
    ...     "network": {"kind": "lan"},
    ...     "loss": {"model": "bernoulli", "p": 0.0},
    ...     "group": {"receivers": 4},
    ...     "protocol": {"name": "msaw"},
    ...     "workload": {"messages": 10, "message_bytes": 500},
    ... })
    >>> scenario.replace({"group.receivers": 8}).to_dict()["group"]
    {'receivers': 8}
    >>> scenario.sweep({"loss.p": [0.0, 0.01]}).points
    2
    """

    def __init__(
        self, document: Mapping[str, Any], *, folder: str | PathLike[str] = ".", origin: str = "scenario"
    ) -> None:
        """Check a document with the sections of a scenario file.

        Args:
            document: Sections with their keys. At the top level `"group.receivers": 5` means the same as
                `"group": {"receivers": 5}`.
            folder: Folder of the files that the scenario names, such as topologies.
            origin: Name of the scenario in error messages.

        Raises:
            ScenarioError: A key or a value is wrong.
        """
        self._folder = Path(folder)
        files: dict[str, bytes] = {}
        plain = _without_objects(_nested(document), files)
        self._inner = _carillon.Scenario.from_json(origin, _to_json(plain), self._folder, files)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Scenario:
        """Read a scenario file in TOML.

        Raises:
            OSError: The file cannot be read.
            ScenarioError: A key or a value is wrong; the message has its line.
        """
        text = Path(path).read_text(encoding="utf-8")
        return cls.parse(text, origin=str(path))

    @classmethod
    def parse(cls, text: str, *, origin: str = "scenario") -> Scenario:
        """Read a scenario from TOML text; `origin` is its path or name in error messages."""
        scenario = cls.__new__(cls)
        scenario._folder = Path(origin).parent
        scenario._inner = _carillon.Scenario.parse(origin, text)
        return scenario

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self._inner.name

    @property
    def seed(self) -> int:
        """Seed of all random streams."""
        return self._inner.seed

    @property
    def points(self) -> int:
        """Number of points of the sweep; 1 without a sweep."""
        return self._inner.points

    @property
    def replications(self) -> int:
        """Number of runs at each point."""
        return self._inner.replications

    @property
    def runs(self) -> int:
        """Number of all runs."""
        return self.points * self.replications

    @property
    def keys(self) -> list[str]:
        """Swept keys, which are the first columns of every table of results."""
        return self._inner.axes

    @property
    def protocols(self) -> set[str]:
        """Names of the protocols that it runs: one, unless the protocol is swept."""
        document = self.to_dict()
        swept = document.get("sweep", {}).get("protocol.name", [])
        return {*(str(name) for name in swept), str(document.get("protocol", {}).get("name", ""))}

    def to_dict(self) -> dict[str, Any]:
        """Return the document as a dictionary."""
        document: dict[str, Any] = json.loads(self._inner.to_json())
        return document

    def to_toml(self) -> str:
        """Return the document as TOML text, for `carillon run`."""
        return self._inner.to_toml()

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the scenario for `carillon run`, and beside it the files that it names; return its path.

        Existing files of these names are replaced.

        >>> import carillon, tempfile
        >>> ring = carillon.Topology(4, [carillon.Link(node, (node + 1) % 4, 0.002) for node in range(4)])
        >>> scenario = Scenario({
        ...     "name": "ring",
        ...     "network": {"kind": "graph", "topology": ring},
        ...     "group": {"receivers": 6},
        ...     "protocol": {"name": "pgm"},
        ...     "workload": {"messages": 10, "message_bytes": 500, "rate": "100 packet/s"},
        ... })
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = scenario.write(Path(folder) / "ring.toml")
        ...     sorted(file.suffix for file in path.parent.iterdir())
        ['.edges', '.roles', '.toml']
        """
        target = Path(path)
        for name, content in self._inner.files().items():
            beside = target.parent / name
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(content)
        target.write_text(self.to_toml(), encoding="utf-8")
        return target

    def replace(self, values: Mapping[str, Any] | None = None, **overrides: Any) -> Scenario:
        """Return the scenario with other values of some keys; a swept key among them is no longer swept.

        Args:
            values: Values by key, such as `{"group.receivers": 20}`.
            overrides: The same with two underscores for the dot, such as `group__receivers=20`.
        """
        return as_scenario(self, {**(values or {}), **overrides})

    def sweep(self, values: Mapping[str, Any]) -> Scenario:
        """Return the scenario with a sweep over these keys, beside those that it sweeps already.

        Args:
            values: For each key a list of values, or a range such as `{"from": 5, "to": 60, "step": 5}`.
        """
        return as_scenario(self, sweep=values)

    def __repr__(self) -> str:
        return f"Scenario({self.name!r}, {self.points} points, {self.replications} replications)"

    def __reduce__(self) -> tuple[object, tuple[str, dict[str, Any], Path, dict[str, bytes]]]:
        # Scenarios travel to other machines as their documents, with the files that these name.
        return _build, (self._inner.origin, self.to_dict(), self._folder.absolute(), self._inner.files())


ScenarioLike: TypeAlias = "Scenario | Mapping[str, Any] | str | PathLike[str]"
"""A scenario, its document, or the path of its file."""


def as_scenario(
    scenario: ScenarioLike, overrides: Mapping[str, Any] | None = None, sweep: Mapping[str, Any] | None = None
) -> Scenario:
    """Return a scenario from any of its forms, with other values of some keys and a sweep.

    Everything is set before anything is checked, so that overrides may supply what a document lacks.
    """
    if not overrides and not sweep:
        if isinstance(scenario, Scenario):
            return scenario
        return Scenario(scenario) if isinstance(scenario, Mapping) else Scenario.read(scenario)
    folder, origin = Path(), "scenario"
    files: dict[str, bytes] = {}
    if isinstance(scenario, Scenario):
        document, folder, origin = scenario.to_dict(), scenario._folder, scenario._inner.origin
        files = scenario._inner.files()
    elif isinstance(scenario, Mapping):
        document = _nested(scenario)
    else:
        folder, origin = Path(scenario).parent, str(scenario)
        try:
            document = tomllib.loads(Path(scenario).read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError:
            # Its message has the line and an excerpt.
            return Scenario.read(scenario)
    _change(document, overrides or {}, sweep or {})
    return _build(origin, _nested(document), folder, files)


def _change(document: dict[str, Any], values: Mapping[str, Any], sweep: Mapping[str, Any]) -> None:
    """Set keys of a document, and the values over which others are swept."""
    for key, value in values.items():
        dotted = key.replace("__", ".")
        document.get("sweep", {}).pop(dotted, None)
        _set(document, dotted, value)
    for key, swept in sweep.items():
        section = document.setdefault("sweep", {})
        section[key.replace("__", ".")] = dict(swept) if isinstance(swept, Mapping) else list(swept)


def _build(origin: str, document: dict[str, Any], folder: Path, files: dict[str, bytes]) -> Scenario:
    """Build a scenario that names files with known contents."""
    scenario = Scenario.__new__(Scenario)
    scenario._folder = folder
    plain = _without_objects(document, files)
    scenario._inner = _carillon.Scenario.from_json(origin, _to_json(plain), folder, files)
    return scenario


def _without_objects(document: dict[str, Any], files: dict[str, bytes]) -> dict[str, Any]:
    """Replace topologies and arrays of a document by names of files, and add their contents to the files."""
    plain = named_topology(document, files)
    loss = plain.get("loss")
    if isinstance(loss, Mapping):
        plain["loss"] = named_fates(loss, files)
    elif isinstance(loss, list):
        plain["loss"] = [named_fates(section, files) for section in loss]
    return plain


def _nested(document: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a document, with dotted keys of the top level in their sections and without keys that are `None`."""
    nested: dict[str, Any] = {}
    for key, value in document.items():
        if value is not None:
            _set(nested, key, dict(value) if isinstance(value, Mapping) else value)
    return nested


def _set(document: dict[str, Any], key: str, value: object) -> None:
    section, dot, name = key.partition(".")
    if not dot:
        document[section] = value
        return
    inner = document.setdefault(section, {})
    if not isinstance(inner, dict):
        raise _carillon.ScenarioError(f"{key}: {section} is not a section")
    inner[name] = value


def _to_json(document: dict[str, Any]) -> str:
    def plain(value: object) -> object:
        # Numbers and arrays of numpy.
        item = getattr(value, "tolist", None)
        if item is None:
            raise _carillon.ScenarioError(
                f"{value!r} has no place in a scenario: give text, numbers, lists or dictionaries"
            )
        return item()

    return json.dumps(document, default=plain, allow_nan=False)
