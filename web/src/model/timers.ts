/** Timers of nodes as intervals from arming to firing. */
import type { Columns } from "../schema/columns.ts";
import type { Codes } from "./codes.ts";
import { Intervals } from "./intervals.ts";
import type { Topology } from "./topology.ts";

export interface Timer {
  node: number;
  text: number;
  /** Part of the time that is over, from 0 to 1. */
  elapsed: number;
}

export class Timers {
  private readonly intervals: Intervals;
  private readonly nodes: Uint32Array;
  private readonly texts: Uint16Array;
  private readonly fires: Uint8Array;

  constructor(columns: Columns, codes: Codes, topology: Topology) {
    const begins: number[] = [];
    const ends: number[] = [];
    const nodes: number[] = [];
    const texts: number[] = [];
    const fires: number[] = [];
    /** Interval that is open for each node and timer. */
    const open = new Map<number, number>();
    for (let at = 0; at < columns.time.length; at += 1) {
      const event = columns.event[at]!;
      if (event !== codes.timer_armed && event !== codes.timer_fired) continue;
      const key = columns.node[at]! * 65536 + columns.text[at]!;
      const armed = open.get(key);
      if (armed !== undefined) {
        ends[armed] = columns.time[at]!;
        fires[armed] = event === codes.timer_fired ? 1 : 0;
        open.delete(key);
      }
      if (event !== codes.timer_armed) continue;
      open.set(key, begins.length);
      begins.push(columns.time[at]!);
      ends.push(NaN);
      nodes.push(topology.indexOf(columns.node[at]!));
      texts.push(columns.text[at]!);
      fires.push(0);
    }
    this.intervals = new Intervals(Float64Array.from(begins), Float64Array.from(ends));
    this.nodes = Uint32Array.from(nodes);
    this.texts = Uint16Array.from(texts);
    this.fires = Uint8Array.from(fires);
  }

  /** Calls `visit` for each timer that runs at a time and fires later. */
  visit(time: number, visit: (timer: Timer) => void): void {
    const { begins, ends } = this.intervals;
    this.intervals.visit(time, time, (at) => {
      if (!this.fires[at]) return;
      const elapsed = (time - begins[at]!) / (ends[at]! - begins[at]!);
      visit({ node: this.nodes[at]!, text: this.texts[at]!, elapsed });
    });
  }
}
