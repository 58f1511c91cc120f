#!/usr/bin/env node
// Compares traces and recordings of the simulator in the page (target/web/carillon.wasm, built by scripts/wasm.sh) with those
// of the command line: the same scenario, version and seed must give the same bytes.
//
//     scripts/check-web-trace.mjs CARILLON [MODULE]

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [carillon, module = "target/web/carillon.wasm"] = process.argv.slice(2);
if (!carillon || carillon.startsWith("-")) {
  console.log("usage: scripts/check-web-trace.mjs CARILLON [MODULE]");
  process.exit(carillon === "--help" ? 0 : 2);
}
if (!existsSync(module)) {
  console.error(`there is no ${module}: scripts/wasm.sh builds it`);
  process.exit(2);
}

const LIST_PROTOCOLS = 0;
const RUN = 1;
const TRACE = 2;

// Networks and losses that draw random numbers and compute with fractions in many ways.
const NETWORKS = {
  lan: `[network]\nkind = "lan"\n[loss]\nmodel = "gilbert-elliott"\nto_bad = 0.02\nto_good = 0.4\nloss_good = 0.01\nloss_bad = 0.5\n[group]\nreceivers = 5`,
  star: `[network]\nkind = "star"\nlatency = "5 ms"\n[loss]\nmodel = "bernoulli"\np = 0.05\n[group]\nreceivers = 6`,
  tree: `[network]\nkind = "graph"\ntopology = "btree-h3"\nlink_rate = "1.5 Mbit/s"\n[loss]\nmodel = "bernoulli"\np = 0.02`,
  waxman: `[network]\nkind = "graph"\ntopology = "waxman"\nrouters = 12\nlink_rate = "10 Mbit/s"\n[loss]\nmodel = "two-level"\ncalm_p = 0.01\ncongested_p = 0.2\ncalm_time = "500 ms"\ncongested_time = "100 ms"\nburst = 1.5\n[group]\nreceivers = 7`,
};

const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
const { memory, carillon_alloc, carillon_call, carillon_free } = instance.exports;

/** Answer of the module: status, bytes, and milliseconds. */
function call(operation, request) {
  const bytes = new TextEncoder().encode(request);
  const begin = performance.now();
  const at = carillon_alloc(bytes.length);
  new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
  const answer = carillon_call(operation, at, bytes.length);
  carillon_free(at, bytes.length);
  const [status, length] = new Uint32Array(memory.buffer.slice(answer, answer + 8));
  const result = Buffer.from(memory.buffer.slice(answer + 8, answer + 8 + length));
  carillon_free(answer, length + 8);
  return { status, result, took: performance.now() - begin };
}

const folder = mkdtempSync(join(tmpdir(), "carillon-web-"));
const protocols = JSON.parse(call(LIST_PROTOCOLS, "").result.toString());
const counts = {};
let slowest = { took: 0 };
let different = 0;
try {
  for (const [network, text] of Object.entries(NETWORKS)) {
    counts[network] = 0;
    for (const { name } of protocols) {
      const scenario = `name = "x"\n${text}\n[protocol]\nname = "${name}"\n[workload]\nmessages = 60\nmessage_bytes = 500\nrate = "50 packet/s"\n`;
      const [file, trace] = [join(folder, "x.toml"), join(folder, "x.jsonl")];
      writeFileSync(file, scenario);
      rmSync(trace, { force: true });
      let failure;
      try {
        execFileSync(carillon, ["run", file, "--seed", "7", "--trace", trace], { stdio: ["ignore", "ignore", "pipe"] });
      } catch (error) {
        failure = String(error.stderr);
      }
      const request = JSON.stringify({ scenario, seed: 7 });
      const { status, result } = call(TRACE, request);
      if (failure !== undefined || status !== 0) {
        // Not every protocol runs on every network: then both say so.
        if (failure === undefined || status === 0) {
          console.log(`${network}, ${name}: ${failure ?? "the command line succeeds"}; in the module: ${status ? result : "success"}`);
          different += 1;
        }
        continue;
      }
      const expected = readFileSync(trace);
      const events = expected.toString().split("\n").length - 1;
      if (!expected.equals(result)) {
        const [a, b] = [expected.toString().split("\n"), result.toString().split("\n")];
        const line = a.findIndex((text, number) => text !== b[number]);
        console.log(`${network}, ${name}: line ${line + 1} differs\n  ${a[line]}\n  ${b[line]}`);
        different += 1;
      }
      const { result: recording, took } = call(RUN, request);
      const whole = join(folder, "x.carr");
      execFileSync(carillon, ["run", file, "--seed", "7", "--trace", whole], { stdio: "ignore" });
      if (!readFileSync(whole).equals(recording)) {
        const header = JSON.parse(recording.toString("utf8", 12, 12 + recording.readUInt32LE(8)));
        console.log(`${network}, ${name}: the recording differs; it has ${header.count} of ${events} events`);
        different += 1;
      }
      counts[network] += 1;
      if (took > slowest.took) slowest = { took, network, name, events };
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
const list = Object.entries(counts).map(([network, count]) => `${network} ${count}`);
console.log(`traces and recordings compared: ${list.join(", ")}; ${different} differ`);
console.log(`slowest recording: ${slowest.network}, ${slowest.name}, ${slowest.events} events in ${slowest.took.toFixed(0)} ms`);
const few = Object.values(counts).some((count) => count < 5);
if (few) console.log("fewer than 5 protocols ran on a network");
process.exit(different || few ? 1 : 0);
