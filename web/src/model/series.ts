/** Series over time for charts: events of a kind for each interval, or a level at its end. */
import type { PacketKind } from "../schema/header.ts";
import { KINDS } from "../schema/header.ts";
import type { Run } from "./run.ts";
import { upperBound } from "./search.ts";

export interface Series {
  name: string;
  kind?: PacketKind;
  /** A value for each interval. */
  values: Float64Array;
}

export interface Chart {
  series: Series[];
  unit: string;
}

export interface Measure {
  name: string;
  chart: (run: Run, from: number, to: number, bins: number, node: number) => Chart;
}

/** Sums `weight` of the events of an interval by the series that `series` gives, or -1. */
function sum(run: Run, from: number, to: number, bins: number, node: number, names: { name: string; kind?: PacketKind }[],
  series: (event: number) => number, weight: (event: number) => number): Series[] {
  const result: Series[] = names.map((name) => ({ ...name, values: new Float64Array(bins) }));
  const scale = bins / Math.max(to - from, 1e-9);
  const id = node < 0 ? -1 : run.topology.nodes[node]!.id;
  const end = run.countUntil(to);
  for (let event = run.firstAt(from); event < end; event += 1) {
    if (id >= 0 && run.columns.node[event] !== id) continue;
    const which = series(event);
    if (which < 0) continue;
    const bin = Math.min(bins - 1, Math.max(0, ((run.columns.time[event]! - from) * scale) | 0));
    result[which]!.values[bin]! += weight(event);
  }
  return result;
}

const BY_KIND = KINDS.map((kind) => ({ name: kind, kind }));

function frames(weight: (run: Run, event: number, perSecond: number) => number, unit: string): Measure["chart"] {
  return (run, from, to, bins, node) => {
    const perSecond = bins / ((to - from) / 1e9);
    const kindOf = (event: number): number => (run.isFrame(event) ? KINDS.indexOf(run.kindOf(event) ?? "control") : -1);
    return { series: sum(run, from, to, bins, node, BY_KIND, kindOf, (event) => weight(run, event, perSecond)), unit };
  };
}

function events(names: [keyof Run["codes"], string, PacketKind?][]): Measure["chart"] {
  return (run, from, to, bins, node) => {
    const codes = names.map(([code]) => run.codes[code]);
    const series = names.map(([, name, kind]) => (kind ? { name, kind } : { name }));
    return { series: sum(run, from, to, bins, node, series, (event) => codes.indexOf(run.columns.event[event]!), () => 1), unit: "per interval" };
  };
}

function missing(run: Run, from: number, to: number, bins: number, node: number): Chart {
  const values = new Float64Array(bins);
  const { times, values: totals } = run.missing.total;
  for (let bin = 0; bin < bins; bin += 1) {
    const time = from + ((to - from) * (bin + 1)) / bins;
    if (node >= 0) values[bin] = run.missing.at(node, time).missing;
    else values[bin] = totals[upperBound(times, time) - 1] ?? 0;
  }
  return { series: [{ name: "missing messages", kind: "request", values }], unit: "messages" };
}

function drops(run: Run, from: number, to: number, bins: number, node: number): Chart {
  const reasons = [...new Set(run.header.strings.keys())];
  const isDrop = (event: number): number => (run.columns.event[event] === run.codes.dropped ? run.columns.text[event]! : -1);
  const series = sum(run, from, to, bins, node, reasons.map((text) => ({ name: run.header.strings[text]!.replaceAll("_", " ") })), isDrop, () => 1);
  return { series: series.filter(({ values }) => values.some((value) => value > 0)).slice(0, 8), unit: "per interval" };
}

export const MEASURES: Measure[] = [
  { name: "Packets sent", chart: frames((_run, _event, perSecond) => perSecond, "packet/s") },
  { name: "Bit rate", chart: frames((run, event, perSecond) => (run.columns.bytes[event]! * 8 * perSecond) / 1e6, "Mbit/s") },
  { name: "Losses", chart: events([["frame_lost", "lost by the network", "request"], ["frame_discarded", "discarded by queues", "control"], ["collision", "collisions", "repair"]]) },
  { name: "Missing messages", chart: missing },
  { name: "Recovery", chart: events([["loss_found", "found missing", "control"], ["requested", "requested", "request"], ["request_suppressed", "suppressed"], ["repair_sent", "repair sent", "repair"], ["loss_repaired", "repaired", "acknowledgment"]]) },
  { name: "Messages", chart: events([["offered", "offered", "control"], ["sent", "sent", "data"], ["delivered", "delivered", "acknowledgment"], ["completed", "completed", "repair"]]) },
  { name: "Packets dropped by nodes", chart: drops },
  { name: "Timers", chart: events([["timer_armed", "armed", "control"], ["timer_fired", "fired", "data"]]) },
];
