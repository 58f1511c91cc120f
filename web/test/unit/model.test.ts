import assert from "node:assert/strict";
import { test } from "node:test";
import { filterEvents, NO_FILTER, numbers } from "../../src/model/filter.ts";
import { Intervals } from "../../src/model/intervals.ts";
import { Run } from "../../src/model/run.ts";
import { lossTime, sceneAt } from "../../src/model/scene.ts";
import { followLoss } from "../../src/model/story.ts";
import { MEASURES } from "../../src/model/series.ts";
import { layout } from "../../src/layout/layout.ts";
import { lanRun, numbersFrom, starRun, treeRun } from "../data/generate.ts";

const TREE = new Run(treeRun({ fanout: [2, 3], messages: 40, loss: 0.05, interval: 50e6 }));

test("intervals find the same ones as a search of all", () => {
  const random = numbersFrom(1);
  const begins = Float64Array.from({ length: 3000 }, () => Math.floor(random() * 10000)).sort();
  const ends = begins.map((begin) => begin + (random() < 0.01 ? 5000 : random() * 30));
  const intervals = new Intervals(begins, ends);
  for (let time = 0; time < 12000; time += 97) {
    const found: number[] = [];
    intervals.visit(time, time, (at) => void found.push(at));
    const expected = [...begins.keys()].filter((at) => begins[at]! <= time && ends[at]! > time);
    assert.deepEqual(found.sort((a, b) => a - b), expected);
  }
});

test("a scene has exactly the packets in flight at its time", () => {
  const picture = layout(TREE.topology);
  const { columns, codes } = TREE;
  for (let time = 0; time < TREE.duration; time += TREE.duration / 150) {
    const expected: number[] = [];
    for (let event = 0; event < TREE.count; event += 1) {
      if (columns.event[event] !== codes.frame_sent || !(columns.start[event]! <= time)) continue;
      const end = TREE.lossOf[event]! > 0 ? lossTime(TREE, event) : columns.arrival[event]!;
      if (end > time) expected.push(event);
    }
    const scene = sceneAt(TREE, picture, time);
    assert.deepEqual(scene.packets.map(({ event }) => event).sort((a, b) => a - b), expected);
    for (const { tail, head } of scene.packets) assert.ok(tail >= 0 && tail <= head && head <= 1, `${tail} ${head}`);
  }
});

test("each loss belongs to the frame that was lost", () => {
  assert.ok(TREE.losses.length > 5);
  for (const loss of TREE.losses) {
    const frame = TREE.lossOf[loss]! - 1;
    assert.ok(frame >= 0);
    assert.equal(TREE.columns.link[frame], TREE.columns.link[loss]);
    assert.equal(TREE.lossOf[frame], loss + 1);
    assert.equal(TREE.message(loss), TREE.columns.message[frame]);
  }
});

test("a story leads from the loss by request and repair to the delivery", () => {
  for (const loss of TREE.losses) {
    const first = followLoss(TREE, loss);
    assert.ok(first.receivers.length >= 1);
    for (const receiver of first.receivers) {
      const { steps } = followLoss(TREE, loss, receiver);
      const stages = steps.map(({ stage }) => stage);
      assert.equal(stages[0], "lost");
      assert.equal(stages.at(-1), "delivered");
      for (const stage of ["found", "requested", "repair", "received"] as const) assert.ok(stages.includes(stage), `${stage} of ${stages.join()}`);
      const times = steps.map(({ time }) => time);
      assert.deepEqual(times, [...times].sort((a, b) => a - b));
      assert.equal(TREE.nodeOf(steps.at(-1)!.event), receiver);
    }
  }
});

test("missing messages are counted from loss to repair", () => {
  const { columns, codes } = TREE;
  const found = [...columns.event.keys()].find((event) => columns.event[event] === codes.loss_found)!;
  const node = TREE.nodeOf(found);
  assert.equal(TREE.missing.at(node, columns.time[found]! - 1).missing, 0);
  assert.equal(TREE.missing.at(node, columns.time[found]!).missing, 1);
  assert.equal(TREE.missing.at(node, columns.time[found]!).requested, false);
  assert.equal(TREE.missing.at(node, TREE.duration).missing, 0);
});

test("without events of receivers, a loss counts as missing until the delivery", () => {
  const run = new Run(lanRun(4, 30));
  const loss = run.losses[0]!;
  const receiver = run.otherOf(loss);
  assert.equal(run.missing.at(receiver, run.columns.time[loss]!).missing, 1);
  assert.equal(run.missing.at(receiver, run.duration).missing, 0);
});

test("losses of one frame on an Ethernet all belong to it", () => {
  const run = new Run(lanRun(12, 30));
  for (const loss of run.losses) {
    const frame = run.lossOf[loss]! - 1;
    assert.equal(run.columns.message[frame], run.message(loss));
    assert.equal(run.columns.arrival[frame], run.columns.time[loss]);
  }
});

test("charts count every packet once", () => {
  const { series } = MEASURES[0]!.chart(TREE, 0, TREE.duration, 50, -1);
  const perSecond = 50 / (TREE.duration / 1e9);
  const total = series.reduce((sum, { values }) => sum + values.reduce((a, b) => a + b, 0), 0) / perSecond;
  const frames = TREE.columns.event.reduce((count, event) => count + (event === TREE.codes.frame_sent ? 1 : 0), 0);
  assert.ok(Math.abs(total - frames) < 1e-6, `${total} ${frames}`);
  for (const measure of MEASURES) measure.chart(TREE, 0, TREE.duration, 10, 1);
});

test("filters agree with a search of all", () => {
  assert.equal(filterEvents(TREE, NO_FILTER), undefined);
  const found = filterEvents(TREE, { ...NO_FILTER, event: "delivered", node: "3, 5-6", message: "0..9" })!;
  assert.ok(found.length > 0);
  for (const event of found) {
    assert.equal(TREE.eventName(event), "delivered");
    assert.ok([3, 5, 6].includes(TREE.columns.node[event]!));
    assert.ok(TREE.message(event)! <= 9);
  }
  assert.equal(numbers("x"), undefined);
  assert.equal(numbers("1-3")!(2), true);
});

test("star: a frame reaches the child of its link", () => {
  const run = new Run(starRun(8, 5));
  const picture = layout(run.topology);
  assert.equal(picture.shape, "star");
  const scene = sceneAt(run, picture, 5e6);
  assert.equal(scene.packets.length, 8);
});

test("frames without numbers take the ones of the events that caused them", () => {
  const recording = lanRun(5, 20);
  const numbered = new Run(recording);
  const expected = [...numbered.columns.event.keys()].map((event) => numbered.message(event));
  const columns = { ...recording.columns, message: recording.columns.message.slice() };
  const frames = [...columns.event.keys()].filter((event) => columns.event[event] === numbered.codes.frame_sent || columns.event[event] === numbered.codes.frame_lost);
  for (const event of frames) columns.message[event] = 0xffffffff;
  const run = new Run({ header: recording.header, columns });
  // Acknowledgments of this run have no event of their own.
  for (const event of frames) if (run.kindOf(event) !== "acknowledgment") assert.equal(run.message(event), expected[event], String(event));
});
