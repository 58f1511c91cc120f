/**
 * Timers of nodes as intervals from arming to firing.
 *
 * The simulator records them with their deadlines, so that a timer that is cancelled shows too. A trace of a real
 * session has events instead: then only a timer that fires is known in advance.
 */
import type { Columns, TimerColumns } from "../schema/columns.ts";
import type { Codes } from "./codes.ts";
import { Intervals } from "./intervals.ts";
import type { Topology } from "./topology.ts";

export interface Timer {
  node: number;
  /** Part of the time that is over, from 0 to 1. */
  elapsed: number;
}

export class Timers {
  private readonly intervals: Intervals;
  private readonly nodes: Uint32Array;
  private readonly deadlines: Float64Array;

  constructor(table: TimerColumns, topology: Topology) {
    this.intervals = new Intervals(table.since, table.end);
    this.nodes = table.node.map((node) => topology.indexOf(node));
    this.deadlines = table.deadline;
  }

  /** True if the run has timers. */
  get exist(): boolean {
    return this.nodes.length > 0;
  }

  /** Calls `visit` for each timer that runs at a time. */
  visit(time: number, visit: (timer: Timer) => void): void {
    this.intervals.visit(time, time, (at) => {
      const since = this.intervals.begins[at]!;
      visit({ node: this.nodes[at]!, elapsed: (time - since) / (this.deadlines[at]! - since) });
    });
  }
}

/** Timers that fire, from the events of a trace. */
export function timersOf(columns: Columns, codes: Codes): TimerColumns {
  const [since, end, node]: number[][] = [[], [], []];
  /** Interval that is open for each node and timer. */
  const open = new Map<number, number>();
  for (let at = 0; at < columns.time.length; at += 1) {
    const event = columns.event[at]!;
    if (event !== codes.timer_armed && event !== codes.timer_fired) continue;
    const key = columns.node[at]! * 65536 + columns.text[at]!;
    const armed = open.get(key);
    if (armed !== undefined) {
      if (event === codes.timer_fired) end![armed] = columns.time[at]!;
      open.delete(key);
    }
    if (event !== codes.timer_armed) continue;
    open.set(key, since!.length);
    since!.push(columns.time[at]!);
    end!.push(NaN);
    node!.push(columns.node[at]!);
  }
  const ends = Float64Array.from(end!);
  return { since: Float64Array.from(since!), deadline: ends, end: ends, node: Uint32Array.from(node!) };
}
