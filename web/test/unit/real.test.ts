import assert from "node:assert/strict";
import { test } from "node:test";
import { layout } from "../../src/layout/layout.ts";
import { Run } from "../../src/model/run.ts";
import { sceneAt } from "../../src/model/scene.ts";
import { readJsonLines } from "../../src/schema/jsonl.ts";

/** Trace of a real sender, which does not see the network. */
const LINES = [
  { time_ns: 100, node: 0, event: "state_changed", state: "gathering" },
  { time_ns: 200, node: 0, event: "member_joined", member: 1 },
  { time_ns: 1_000_000, node: 0, event: "sent", message: 0, bytes: 900 },
  { time_ns: 2_000_000, node: 0, event: "repair_sent", message: 0, bytes: 900 },
  { time_ns: 3_000_000, node: 0, event: "received", packet: "status", message: 0 },
  { time_ns: 900_000_000, node: 0, event: "completed", message: 0, outcome: "acknowledged", window: 1 },
];

test("the packets of a real sender are drawn, to all members", () => {
  const run = new Run(readJsonLines(LINES.map((line) => JSON.stringify(line)).join("\n")));
  assert.equal(run.header.network.kind, "real");
  assert.deepEqual(run.header.network.nodes.map(({ role }) => role), ["source", "receiver"]);
  const picture = layout(run.topology);
  const { packets } = sceneAt(run, picture, 1_500_000);
  assert.deepEqual(packets.map(({ kind, from, to }) => [kind, from, to]), [["data", 0, -1]]);
  assert.equal(run.packetsUntil("repair", run.duration), 1);
});
