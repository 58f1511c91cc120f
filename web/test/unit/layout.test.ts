import assert from "node:assert/strict";
import { test } from "node:test";
import { layout } from "../../src/layout/layout.ts";
import { Topology } from "../../src/model/topology.ts";
import type { NetworkInfo } from "../../src/schema/header.ts";
import { numbersFrom, treeRun } from "../data/generate.ts";

function randomNetwork(nodes: number, links: number): NetworkInfo {
  const random = numbersFrom(nodes);
  return {
    kind: "graph", bit_rate: null,
    nodes: Array.from({ length: nodes }, (_, id) => ({ id, role: id === 0 ? "source" : "receiver" })),
    links: Array.from({ length: links }, (_, at) => ({ a: at + 1 < nodes ? Math.floor(random() * (at + 1)) : Math.floor(random() * nodes), b: at + 1 < nodes ? at + 1 : Math.floor(random() * nodes), rate: null, latency_ns: 1 })),
  };
}

function check(network: NetworkInfo): ReturnType<typeof layout> {
  const topology = new Topology(network);
  const picture = layout(topology);
  const members = picture.nodes.flatMap((node) => node.members).sort((a, b) => a - b);
  assert.deepEqual(members, topology.nodes.map((_, at) => at), "each node is drawn once");
  for (const { x, y } of picture.nodes) assert.ok(x >= 0 && x <= 1 && y >= 0 && y <= 1, `${x} ${y}`);
  assert.deepEqual(layout(topology), picture, "the same network gives the same picture");
  return picture;
}

test("a tree has layers, and no two nodes at one place", () => {
  const picture = check(treeRun({ fanout: [3, 4], messages: 0, loss: 0, interval: 1 }).header.network);
  assert.equal(picture.shape, "layers");
  assert.equal(new Set(picture.nodes.map(({ x, y }) => `${x} ${y}`)).size, 16);
});

test("a large tree is drawn with groups", () => {
  const picture = check(treeRun({ fanout: [10, 10, 100], messages: 0, loss: 0, interval: 1 }).header.network);
  assert.ok(picture.nodes.length <= 320, String(picture.nodes.length));
  assert.ok(picture.nodes.some(({ members }) => members.length === 100));
});

test("a star of ten thousand is drawn with groups", () => {
  const nodes = Array.from({ length: 10001 }, (_, id) => ({ id, role: id === 0 ? ("source" as const) : ("receiver" as const) }));
  const links = nodes.slice(1).map(({ id }) => ({ a: 0, b: id, rate: null, latency_ns: 1 }));
  const picture = check({ kind: "star", bit_rate: null, nodes, links });
  assert.ok(picture.nodes.length <= 49);
});

test("other graphs have places of their own for all nodes", () => {
  const picture = check(randomNetwork(60, 110));
  assert.equal(picture.shape, "force");
  for (const [at, a] of picture.nodes.entries()) for (const b of picture.nodes.slice(at + 1)) assert.ok(Math.hypot(a.x - b.x, a.y - b.y) > 0.005);
});

test("networks without nodes or links are drawn", () => {
  check({ kind: "real", bit_rate: null, nodes: [], links: [] });
  check({ kind: "real", bit_rate: null, nodes: [{ id: 9, role: "node" }, { id: 4, role: "node" }], links: [] });
  check({ kind: "lan", bit_rate: 1e7, nodes: [{ id: 0, role: "source" }], links: [] });
});
