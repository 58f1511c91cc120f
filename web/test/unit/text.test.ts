import assert from "node:assert/strict";
import { test } from "node:test";
import diagrams from "made:diagrams";
import items from "made:gallery";
import { packState, unpackState } from "../../src/live/link.ts";
import { valueOf, withoutProtocolSettings } from "../../src/live/scenario.ts";
import { layoutDiagram, readDiagram } from "../../src/model/diagram.ts";
import { formatSpan, formatTime, ticks } from "../../src/model/time.ts";
import { readJsonLines } from "../../src/schema/jsonl.ts";
import { Run } from "../../src/model/run.ts";

test("times have a unit that fits", () => {
  assert.equal(formatSpan(12_345_678), "12.3 ms");
  assert.equal(formatSpan(0), "0 ns");
  assert.equal(formatTime(1_500_000_000, 1e6), "1.500 s");
  assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
});

test("all diagrams of the documents have states, and each its place", () => {
  assert.ok(Object.keys(diagrams).length > 10);
  for (const [protocol, list] of Object.entries(diagrams)) {
    for (const { diagram } of list) {
      const { states } = layoutDiagram(readDiagram(diagram));
      assert.ok(states.length > 0, protocol);
      assert.equal(new Set(states.map(({ x, y }) => `${x} ${y}`)).size, states.length, protocol);
    }
  }
});

test("each run of the gallery has three sentences and a protocol", () => {
  assert.ok(items.length > 20);
  for (const { file, text, scenario, protocols } of items) {
    assert.equal(text.length, 3, file);
    for (const sentence of text) assert.ok(sentence.endsWith("."), file);
    assert.ok(valueOf(scenario, "protocol", "name"), file);
    assert.ok((protocols ?? []).length <= 4, file);
  }
});

const SCENARIO = `name = "x"\n[network]\nkind = "lan"      # Ethernet\n[protocol]\nname = "pgm"\nwindow = 16\n[protocol.srm]\nc1 = 2\n[loss]\np = 0.05\n`;

test("keys of a scenario are found in their section", () => {
  assert.equal(valueOf(SCENARIO, "", "name"), "x");
  assert.equal(valueOf(SCENARIO, "network", "kind"), "lan");
  assert.equal(valueOf(SCENARIO, "protocol", "window"), "16");
  assert.equal(valueOf(SCENARIO, "loss", "p"), "0.05");
  assert.equal(valueOf(SCENARIO, "loss", "q"), undefined);
});

test("settings of one protocol are left out for another one", () => {
  const text = withoutProtocolSettings(SCENARIO);
  assert.ok(!text.includes("window"));
  assert.ok(text.includes("c1 = 2") && text.includes("p = 0.05"));
});

test("a permanent link holds scenario, settings and seed", async () => {
  const state = { scenario: SCENARIO, set: { "loss.p": "0.1" }, seed: 7, protocols: ["pgm", "srm"] };
  const packed = await packState(state);
  assert.match(packed, /^[\w-]+$/);
  assert.deepEqual(await unpackState(packed), state);
  await assert.rejects(unpackState("AAAA"));
});

test("a JSON trace gives flights between the ends of links", () => {
  const lines = [
    { time_ns: 0, node: 0, event: "offered", message: 0, since_ns: 0 },
    { time_ns: 0, node: 0, event: "frame_sent", bytes: 1000, link: "0>1", packet: "odata" },
    { time_ns: 0, node: 0, event: "sent", message: 0, bytes: 972 },
    { time_ns: 15, node: 1, event: "frame_sent", bytes: 1000, link: "1>2", packet: "odata" },
    { time_ns: 15, node: 1, event: "frame_lost", receiver: 2, original: true, link: "1>2", packet: "odata" },
    { time_ns: 15, node: 1, event: "frame_sent", bytes: 1000, link: "1>3", packet: "odata" },
    { time_ns: 30, node: 3, event: "received", packet: "odata", message: 0, link: "1>3" },
    { time_ns: 30, node: 3, event: "delivered", source: 0, message: 0 },
  ];
  const run = new Run(readJsonLines(lines.map((line) => JSON.stringify(line)).join("\n")));
  assert.equal(run.columns.arrival[1], 15);
  assert.equal(run.columns.arrival[5], 30);
  assert.equal(run.columns.message[3], 0);
  assert.equal(run.message(4), 0);
  assert.equal(run.header.network.links.length, 3);
  assert.throws(() => readJsonLines('{"time_ns":0}\n'), /line 1 has no/);
  assert.throws(() => readJsonLines("\nx"), /line 2 is not JSON/);
});
