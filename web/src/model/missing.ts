/**
 * Missing messages of each node over time.
 *
 * Where receivers record that they found a loss, this is what they know. For other protocols it is what the network
 * lost: a message counts as missing from its loss until its delivery.
 */
import type { Columns } from "../schema/columns.ts";
import { NONE32 } from "../schema/columns.ts";
import type { Codes } from "./codes.ts";
import { upperBound } from "./search.ts";
import type { Topology } from "./topology.ts";

/** Status of a node. */
export interface Status {
  /** Number of missing messages. */
  missing: number;
  /** True if one of them was requested. */
  requested: boolean;
}

interface Timeline {
  times: number[];
  missing: number[];
  requested: number[];
}

const NOTHING: Status = { missing: 0, requested: false };
/** Factor that makes one key of node and message. */
const NODE = 2 ** 32;

export class MissingMessages {
  private readonly timelines = new Map<number, Timeline>();
  /** Total of all nodes at each change. */
  readonly total: { times: number[]; values: number[] } = { times: [], values: [] };

  constructor(columns: Columns, codes: Codes, topology: Topology) {
    const knows = codes.loss_found >= 0;
    /** Missing messages by node and message; true once requested. */
    const open = new Map<number, boolean>();
    const delivered = new Set<number>();
    let sum = 0;
    const change = (time: number, node: number, missing: number, requested: number): void => {
      let timeline = this.timelines.get(node);
      if (!timeline) this.timelines.set(node, (timeline = { times: [], missing: [], requested: [] }));
      timeline.times.push(time);
      timeline.missing.push((timeline.missing.at(-1) ?? 0) + missing);
      timeline.requested.push((timeline.requested.at(-1) ?? 0) + requested);
      sum += missing;
      if (missing !== 0) {
        this.total.times.push(time);
        this.total.values.push(sum);
      }
    };
    const lose = (time: number, node: number, message: number): void => {
      const key = node * NODE + message;
      if (open.has(key) || delivered.has(key)) return;
      open.set(key, false);
      change(time, node, 1, 0);
    };
    const heal = (time: number, node: number, message: number): void => {
      const key = node * NODE + message;
      const requested = open.get(key);
      if (requested === undefined) return;
      open.delete(key);
      change(time, node, -1, requested ? -1 : 0);
    };
    const children = knows ? [] : receiversBelow(topology);
    for (let at = 0; at < columns.time.length; at += 1) {
      const event = columns.event[at]!;
      const message = columns.message[at]!;
      if (message === NONE32) continue;
      const time = columns.time[at]!;
      const node = topology.indexOf(columns.node[at]!);
      if (event === codes.delivered || event === codes.loss_repaired || event === codes.loss_final) {
        if (!knows && event === codes.delivered) delivered.add(node * NODE + message);
        heal(time, node, message);
      } else if (event === codes.loss_found) {
        lose(time, node, message);
      } else if (event === codes.requested) {
        const key = node * NODE + message;
        if (open.get(key) === false) {
          open.set(key, true);
          change(time, node, 0, 1);
        }
      } else if (event === codes.frame_lost && !knows && columns.other[at] !== NONE32) {
        const to = topology.indexOf(columns.other[at]!);
        for (const receiver of children[to] ?? []) lose(time, receiver, message);
      }
    }
  }

  /** Calls `visit` with begin and end of each time between `from` and `to` in which a node misses messages. */
  visit(node: number, from: number, to: number, visit: (begin: number, end: number) => void): void {
    const timeline = this.timelines.get(node);
    if (!timeline) return;
    const { times, missing } = timeline;
    let begin = NaN;
    for (let change = Math.max(0, upperBound(times, from) - 1); change < times.length && times[change]! < to; change += 1) {
      if (missing[change]! > 0 && Number.isNaN(begin)) begin = Math.max(from, times[change]!);
      if (missing[change]! > 0 || Number.isNaN(begin)) continue;
      if (times[change]! > from) visit(begin, times[change]!);
      begin = NaN;
    }
    if (!Number.isNaN(begin)) visit(begin, to);
  }

  /** Status of a node at a time. */
  at(node: number, time: number): Status {
    const timeline = this.timelines.get(node);
    if (!timeline) return NOTHING;
    const change = upperBound(timeline.times, time) - 1;
    if (change < 0) return NOTHING;
    return { missing: timeline.missing[change]!, requested: timeline.requested[change]! > 0 };
  }
}

/** Receivers that each node leads to, itself included. */
function receiversBelow(topology: Topology): number[][] {
  const below: number[][] = topology.nodes.map((node, at) => (node.role === "receiver" ? [at] : []));
  // A node that leads to more is a backbone; a loss there is drawn on its link only.
  for (const node of [...topology.order].reverse()) {
    const parent = topology.parent[node]!;
    if (parent >= 0 && below[node]!.length <= 1000) below[parent]!.push(...below[node]!);
  }
  return below;
}
