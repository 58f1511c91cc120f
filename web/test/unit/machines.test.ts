import assert from "node:assert/strict";
import { test } from "node:test";
import { Run } from "../../src/model/run.ts";
import { States } from "../../src/model/states.ts";
import { NONE16 } from "../../src/schema/columns.ts";
import { readRecording, writeRecording } from "../../src/schema/recording.ts";
import { starRun } from "../data/generate.ts";

/** A star whose node 1 has a machine of its own and two missing messages. */
function recording() {
  const { header, columns } = starRun(3, 4);
  const strings = ["member", "Idle", "Busy", "a missing message", "Waiting", "Requested"];
  const changes: [number, number, string, string | undefined][] = [
    [0, 0, "member", "Idle"],
    [10, 7, "a missing message", "Waiting"],
    [20, 8, "a missing message", "Waiting"],
    [30, 7, "a missing message", "Requested"],
    [40, 7, "a missing message", undefined],
    [50, 8, "a missing message", undefined],
    [60, 0, "member", "Busy"],
  ];
  const code = (text: string | undefined): number => (text === undefined ? NONE16 : strings.indexOf(text));
  return {
    header: { ...header, strings },
    columns,
    states: {
      time: Float64Array.from(changes, ([time]) => time),
      node: new Uint32Array(changes.length).fill(1),
      about: Uint32Array.from(changes, ([, about]) => about),
      machine: Uint16Array.from(changes, ([, , machine]) => code(machine)),
      state: Uint16Array.from(changes, ([, , , state]) => code(state)),
    },
    timers: {
      since: Float64Array.from([0, 5]),
      deadline: Float64Array.from([100, 25]),
      end: Float64Array.from([50, 25]),
      node: Uint32Array.from([1, 2]),
    },
  };
}

test("tables of states and timers are written and read", () => {
  const given = recording();
  const read = readRecording(writeRecording(given));
  assert.deepEqual(read.states, given.states);
  assert.deepEqual(read.timers, given.timers);
  const bytes = writeRecording(given);
  assert.throws(() => readRecording(bytes.slice(0, bytes.length - 8)), /is not inside the file/);
});

test("a node has the state that an instance entered last and has not left", () => {
  const run = new Run(readRecording(writeRecording(recording())));
  const states = new States(run);
  const node = run.topology.indexOf(1);
  const at = (time: number): string | undefined => states.at(node, time)?.name;
  assert.deepEqual([0, 12, 25, 30, 45, 55, 60].map(at), ["Idle", "Waiting", "Waiting", "Requested", "Waiting", "Idle", "Busy"]);
  assert.equal(states.at(run.topology.indexOf(2), 30), undefined);
  const of = (message: number, time: number): string | undefined => states.of(node, "a missing message", message, time);
  assert.deepEqual([of(7, 35), of(8, 35), of(7, 45), of(9, 35)], ["Requested", "Waiting", undefined, undefined]);
  assert.equal(states.of(node, "member", 7, 35), "Idle");
  assert.deepEqual(states.names.map(({ name }) => name), ["Idle", "Waiting", "Requested", "Busy"]);
});

test("a timer shows until it fires or is cancelled", () => {
  const run = new Run(readRecording(writeRecording(recording())));
  const visible = (time: number): [number, number][] => {
    const found: [number, number][] = [];
    run.timers.visit(time, ({ node, elapsed }) => found.push([run.topology.nodes[node]!.id, elapsed]));
    return found.sort(([a], [b]) => a - b);
  };
  assert.deepEqual(visible(15), [[1, 0.15], [2, 0.5]]);
  assert.deepEqual(visible(49), [[1, 0.49]]);
  assert.deepEqual(visible(50), []);
});
