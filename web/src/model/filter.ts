/** Filter of the event table. */
import { NONE32 } from "../schema/columns.ts";
import type { Run } from "./run.ts";

export interface Filter {
  /** Name of an event, or empty. */
  event: string;
  /** Number of a packet type, or empty. */
  packet: string;
  /** Numbers of nodes, or empty. */
  node: string;
  message: string;
  /** Part of the detail, or empty. */
  text: string;
}

export const NO_FILTER: Filter = { event: "", packet: "", node: "", message: "", text: "" };

/** Events that pass a filter; `undefined` for all. */
export function filterEvents(run: Run, filter: Filter): Uint32Array | undefined {
  if (Object.values(filter).every((value) => value === "")) return undefined;
  const { columns, header } = run;
  const event = filter.event === "" ? -1 : header.events.indexOf(filter.event);
  const packet = filter.packet === "" ? -1 : Number(filter.packet);
  const nodes = numbers(filter.node);
  const messages = numbers(filter.message);
  const texts = filter.text === "" ? undefined : new Set([...header.strings.keys()].filter((at) => header.strings[at]!.toLowerCase().includes(filter.text.toLowerCase())));
  const found: number[] = [];
  for (let at = 0; at < run.count; at += 1) {
    if (event >= 0 && columns.event[at] !== event) continue;
    if (packet >= 0 && columns.packet[at] !== packet) continue;
    if (nodes && !nodes(columns.node[at]!) && !(columns.other[at] !== NONE32 && nodes(columns.other[at]!))) continue;
    if (messages && !messages(run.message(at) ?? -1)) continue;
    if (texts && !texts.has(columns.text[at]!)) continue;
    found.push(at);
  }
  return Uint32Array.from(found);
}

/** Test for a list such as "3, 7-9". */
export function numbers(text: string): ((value: number) => boolean) | undefined {
  const ranges: [number, number][] = [];
  for (const part of text.split(/[,\s]+/).filter(Boolean)) {
    const match = /^(\d+)(?:(?:-|\.\.)(\d+))?$/.exec(part);
    if (match) ranges.push([Number(match[1]), Number(match[2] ?? match[1])]);
  }
  if (ranges.length === 0) return undefined;
  return (value) => ranges.some(([from, to]) => value >= from && value <= to);
}
