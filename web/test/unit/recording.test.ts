import assert from "node:assert/strict";
import { test } from "node:test";
import { readRecording, writeRecording } from "../../src/schema/recording.ts";
import { treeRun } from "../data/generate.ts";

const RUN = treeRun({ fanout: [2, 2], messages: 5, loss: 0.2, interval: 50e6 });

test("a recording survives writing and reading", () => {
  const read = readRecording(writeRecording(RUN));
  assert.equal(read.header.title, RUN.header.title);
  assert.deepEqual(read.columns, RUN.columns);
});

test("a recording at an odd place in memory is read", () => {
  const bytes = writeRecording(RUN);
  const shifted = new Uint8Array(bytes.length + 3);
  shifted.set(bytes, 3);
  assert.deepEqual(readRecording(shifted.subarray(3)).columns, RUN.columns);
});

test("damaged recordings give errors that name the damage", () => {
  const bytes = writeRecording(RUN);
  const change = (edit: (bytes: Uint8Array) => Uint8Array): (() => unknown) => () => readRecording(edit(bytes.slice()));
  assert.throws(change(() => new Uint8Array()), /does not begin with CARR/);
  assert.throws(change((copy) => copy.fill(9, 4, 5)), /version 9/);
  assert.throws(change((copy) => copy.subarray(0, copy.length - 8)), /is not inside the file/);
  assert.throws(change((copy) => copy.fill(255, 8, 12)), /longer than the file/);
  const header = (from: string, to: string) => change((copy) => {
    const text = Buffer.from(copy).toString("latin1");
    assert.ok(text.includes(from), from);
    return new Uint8Array(Buffer.from(text.replace(from, to.padEnd(from.length)), "latin1"));
  });
  assert.throws(header('"type":"f64"', '"type":"u64"'), /column time has type u64, not f64/);
  assert.throws(header('"count":', '"count":-'), /JSON|count/);
});

test("any cut of a recording is an error and nothing else", () => {
  const bytes = writeRecording(RUN);
  for (let length = 0; length < bytes.length; length += 37) assert.throws(() => readRecording(bytes.subarray(0, length)), Error);
});
