"""Topologies between files, networkx and scenarios."""

import pickle
from pathlib import Path

import networkx
import pytest

import carillon
from carillon import Link, Topology

SCENARIO = {
    "name": "topology",
    "network": {"kind": "graph"},
    "group": {"receivers": 5},
    "protocol": {"name": "pgm"},
    "workload": {"messages": 20, "message_bytes": 500, "rate": "100 packet/s"},
}


def test_networkx_graphs_come_back_as_they_were() -> None:
    graph = networkx.random_regular_graph(3, 20, seed=1)
    for number, (a, b) in enumerate(graph.edges):
        graph.edges[a, b]["delay_s"] = 0.001 * (number + 1)
        graph.edges[a, b]["rate_bps"] = 1_000_000 * (number + 1)
    topology = Topology.from_networkx(graph, source=3, receivers=[7, 5])
    assert (topology.nodes, topology.sources, topology.receivers) == (20, [3], [5, 7])
    back = topology.to_networkx()
    assert {frozenset(edge) for edge in back.edges} == {frozenset(edge) for edge in graph.edges}
    for a, b, attributes in graph.edges(data=True):
        assert back.edges[a, b]["rate_bps"] == attributes["rate_bps"]
        assert back.edges[a, b]["delay_s"] == pytest.approx(attributes["delay_s"])
    assert back.nodes[3]["role"] == "source"


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    topology = Topology.read("rand0-r20")
    path = topology.write(tmp_path / "copy.edges")
    copy = Topology.read(path)
    assert (copy.links, copy.sources, copy.receivers) == (topology.links, topology.sources, topology.receivers)
    graph = topology.to_networkx()
    networkx.write_graphml(graph, tmp_path / "copy.graphml")
    assert len(Topology.read(tmp_path / "copy.graphml").links) == len(topology.links)


def test_links_keep_their_queue_and_loss(tmp_path: Path) -> None:
    topology = Topology(3, [Link(0, 1, 0.01, None, 7), Link(1, 2, 0.01, 1_000_000, None, 0.25)])
    assert Topology.read(topology.write(tmp_path / "own.edges")).links == topology.links
    assert Topology.from_networkx(topology.to_networkx()).links == topology.links


def test_a_topology_gives_the_results_of_its_file(tmp_path: Path) -> None:
    topology = Topology(4, [Link(0, 1, 0.01), Link(1, 2, 0.02, 2_000_000), Link(2, 3, 0.03)])
    path = topology.write(tmp_path / "chain.edges")
    of_object = carillon.run(SCENARIO, network__topology=topology, progress=False)
    of_file = carillon.run(SCENARIO, network__topology=str(path), progress=False)
    assert list(of_object.summary) == list(of_file.summary)
    again = pickle.loads(pickle.dumps(of_object.scenario))
    assert list(carillon.run(again, progress=False).summary) == list(of_object.summary)


def test_wrong_topologies_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="node 9"):
        Topology(2, [Link(0, 9, 0.1)]).write(tmp_path / "x.edges")
    with pytest.raises(ValueError, match="itself"):
        carillon.run(SCENARIO, network__topology=Topology(2, [Link(1, 1, 0.1)]))
    (tmp_path / "broken.gml").write_text("graph [\n  node [ id 1\n")
    with pytest.raises(carillon.ScenarioError, match=r"broken\.gml.*line"):
        Topology.read(tmp_path / "broken.gml")
