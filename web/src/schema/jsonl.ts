/**
 * Recording from a trace in JSON lines, as `carillon run --trace run.jsonl` writes it.
 *
 * Such a trace has no network, no times of arrival and no message numbers of frames. They are inferred: links from the
 * names of links, an arrival from the next event that the same packet causes at the far end, and a message number from
 * the event `sent` beside a frame or from the frame that a router forwards.
 */
import { NONE16, NONE32, NONE8, emptyColumns } from "./columns.ts";
import type { Header, NodeInfo, PacketKind } from "./header.ts";
import { kindOfName } from "./kinds.ts";
import type { Recording } from "./recording.ts";

/** Line of the trace. */
interface Line {
  time_ns: number;
  node: number;
  event: string;
  message?: number;
  bytes?: number;
  packet?: string;
  link?: string;
  receiver?: number | null;
  source?: number | null;
  member?: number;
  timer?: string;
  state?: string;
  reason?: string;
  outcome?: string;
  name?: string;
  fields?: unknown;
  frames?: number;
  messages?: number;
}

/** Reads a trace in JSON lines. Throws an error with the number of the first line that is not an event. */
export function readJsonLines(text: string, title = "trace"): Recording {
  const lines = parseLines(text);
  const columns = emptyColumns(lines.length);
  const strings = new Names(NONE16);
  const packets = new Names(NONE8);
  const events = new Names(256);
  const links = new Map<string, number>();
  const linkList: { a: number; b: number }[] = [];
  const nodes = new Set<number>();
  for (const [at, line] of lines.entries()) {
    columns.time[at] = line.time_ns;
    columns.node[at] = line.node;
    nodes.add(line.node);
    columns.event[at] = events.code(line.event);
    if (line.packet !== undefined) columns.packet[at] = packets.code(line.packet);
    if (line.message !== undefined) columns.message[at] = line.message;
    columns.bytes[at] = line.bytes ?? line.frames ?? line.messages ?? 0;
    if (line.member !== undefined) nodes.add(line.member);
    const other = line.receiver ?? line.source ?? line.member;
    if (other !== undefined && other !== null) columns.other[at] = other;
    const text = line.timer ?? line.state ?? line.reason ?? line.outcome ?? noteText(line);
    if (text !== undefined) columns.text[at] = strings.code(text);
    if (line.link !== undefined) columns.link[at] = directionOf(line.link, links, linkList, nodes);
  }
  const sources = new Set(lines.filter((line) => line.event === "offered").map((line) => line.node));
  // The trace of a real sender has no offers.
  if (sources.size === 0) for (const line of lines) if (line.event === "sent") sources.add(line.node);
  const receivers = new Set(lines.filter((line) => line.event === "delivered").map((line) => line.node));
  const role = (id: number): NodeInfo["role"] => (sources.has(id) ? "source" : receivers.has(id) || linkList.length === 0 ? "receiver" : "router");
  const count = lines.length;
  const hasFrames = events.list.includes("frame_sent");
  const header: Header = {
    title,
    version: "",
    protocol: "",
    seed: null,
    scenario: null,
    duration_ns: count > 0 ? columns.time[count - 1]! : 0,
    count,
    truncated: false,
    network: {
      kind: linkList.length > 0 ? "graph" : hasFrames ? "lan" : "real",
      bit_rate: linkList.length === 0 && hasFrames ? 1e7 : null,
      nodes: [...nodes].sort((a, b) => a - b).map((id) => ({ id, role: role(id) })),
      links: linkList.map(({ a, b }) => ({ a, b, rate: null, latency_ns: 0 })),
    },
    packets: packets.list.map((name) => ({ name, kind: kindOfName(name) })),
    events: events.list,
    strings: strings.list,
    metrics: [],
  };
  const recording = { header, columns };
  if (linkList.length > 0) inferFlights(recording);
  else if (hasFrames) inferFrames(recording);
  return recording;
}

function parseLines(text: string): Line[] {
  const lines: Line[] = [];
  let number = 0;
  for (const raw of text.split("\n")) {
    number += 1;
    if (raw.trim() === "") continue;
    let line: Line;
    try {
      line = JSON.parse(raw) as Line;
    } catch (error) {
      throw new Error(`line ${number} is not JSON: ${(error as Error).message}`);
    }
    const isEvent = typeof line.time_ns === "number" && typeof line.node === "number" && typeof line.event === "string";
    if (!isEvent) throw new Error(`line ${number} has no time_ns, node and event`);
    lines.push(line);
  }
  return lines;
}

/** Numbers for names, in the order of their first use. */
class Names {
  readonly list: string[] = [];
  private readonly codes = new Map<string, number>();

  constructor(private readonly limit: number) {}

  code(name: string): number {
    const known = this.codes.get(name);
    if (known !== undefined) return known;
    if (this.list.length >= this.limit) return this.limit;
    this.codes.set(name, this.list.length);
    return this.list.push(name) - 1;
  }
}

function noteText(line: Line): string | undefined {
  if (line.event !== "note" || line.name === undefined) return undefined;
  const fields = line.fields === undefined ? "" : ` ${JSON.stringify(line.fields)}`;
  return line.name + fields;
}

function directionOf(name: string, links: Map<string, number>, list: { a: number; b: number }[], nodes: Set<number>): number {
  const [from, to] = name.split(">").map(Number) as [number, number];
  const [a, b] = from < to ? [from, to] : [to, from];
  let index = links.get(`${a}-${b}`);
  if (index === undefined) {
    index = list.push({ a, b }) - 1;
    links.set(`${a}-${b}`, index);
    nodes.add(a).add(b);
  }
  return 2 * index + (from === a ? 0 : 1);
}

/** Frames towards a node whose arrival is not known yet. */
interface Pending {
  at: number;
  packet: number;
}

/** Sets start, arrival and message of frames on links. */
function inferFlights({ header, columns }: Recording): void {
  const { links } = header.network;
  const code = (name: string): number => header.events.indexOf(name);
  const [frameSent, frameLost, received] = [code("frame_sent"), code("frame_lost"), code("received")];
  const originated = new Set(["sent", "continued", "repair_sent", "forwarded", "control_sent"].map(code));
  const pending = new Map<number, Pending[]>();
  const shortest = new Float64Array(links.length).fill(Infinity);
  /** Frames of the current instant at each node, which a following `sent` numbers. */
  let recent: number[] = [];
  for (let at = 0; at < header.count; at += 1) {
    const node = columns.node[at]!;
    const time = columns.time[at]!;
    if (columns.event[at] === frameSent) {
      recent = recent.filter((earlier) => columns.time[earlier] === time);
      recent.push(at);
      columns.start[at] = time;
      forward(at, node, time);
      const to = farEnd(columns.link[at]!, links);
      const queue = pending.get(to) ?? [];
      queue.push({ at, packet: columns.packet[at]! });
      pending.set(to, queue);
    } else if (columns.event[at] === received) {
      const frame = take(node, columns.packet[at]!, columns.link[at]!, time);
      if (frame !== undefined && columns.message[frame] === NONE32) columns.message[frame] = columns.message[at]!;
    } else if (columns.event[at] === frameLost && columns.link[at]! >= 0) {
      lose(at, time);
    } else if (originated.has(columns.event[at]!)) {
      const isControl = columns.event[at] === code("control_sent");
      for (const frame of recent) {
        const isOwn = columns.node[frame] === node && columns.time[frame] === time && columns.message[frame] === NONE32;
        const isKind = isControl ? columns.packet[frame] === columns.packet[at] : isMessage(header.packets[columns.packet[frame]!]?.kind);
        if (isOwn && isKind) columns.message[frame] = columns.message[at]!;
      }
    }
  }
  finish();

  function take(node: number, packet: number, link: number, time: number): number | undefined {
    const queue = pending.get(node) ?? [];
    const found = queue.findIndex((frame) => frame.packet === packet && columns.link[frame.at] === link && columns.time[frame.at]! < time);
    if (found < 0) return undefined;
    const [frame] = queue.splice(found, 1) as [Pending];
    arrive(frame.at, time);
    return frame.at;
  }

  /** A lost frame never arrives. */
  function lose(loss: number, time: number): void {
    const queue = pending.get(farEnd(columns.link[loss]!, links)) ?? [];
    const isIt = ({ at, packet }: Pending): boolean => packet === columns.packet[loss] && columns.link[at] === columns.link[loss] && columns.time[at] === time;
    const found = queue.findLastIndex(isIt);
    if (found < 0) return;
    queue.splice(found, 1);
  }

  function forward(at: number, node: number, time: number): void {
    const queue = pending.get(node) ?? [];
    const back = columns.link[at]! ^ 1;
    const found = queue.findIndex((frame) => frame.packet === columns.packet[at] && columns.link[frame.at] !== back && columns.time[frame.at]! < time);
    if (found < 0) return;
    const frame = queue[found]!;
    if (Number.isNaN(columns.arrival[frame.at]!)) arrive(frame.at, time);
    // Copies to several links follow at once; a later frame is forwarded from another arrival.
    if (columns.arrival[frame.at]! < time) {
      queue.splice(found, 1);
      forward(at, node, time);
      return;
    }
    columns.message[at] = columns.message[frame.at]!;
  }

  function arrive(frame: number, time: number): void {
    columns.arrival[frame] = time;
    const link = columns.link[frame]! >> 1;
    shortest[link] = Math.min(shortest[link]!, time - columns.start[frame]!);
  }

  /** Frames that nothing follows, such as lost ones, take as long as the fastest frame of their link. */
  function finish(): void {
    const known = shortest.filter((value) => Number.isFinite(value));
    const usual = known.length > 0 ? known.reduce((sum, value) => sum + value, 0) / known.length : 1e6;
    for (let at = 0; at < header.count; at += 1) {
      if (columns.event[at] !== frameSent || !Number.isNaN(columns.arrival[at]!)) continue;
      const least = shortest[columns.link[at]! >> 1]!;
      columns.arrival[at] = columns.start[at]! + (Number.isFinite(least) ? least : usual);
    }
    for (const [index, link] of links.entries()) link.latency_ns = Number.isFinite(shortest[index]!) ? shortest[index]! : usual;
  }
}

function isMessage(kind: PacketKind | undefined): boolean {
  return kind === "data" || kind === "repair";
}

function farEnd(link: number, links: { a: number; b: number }[]): number {
  const { a, b } = links[link >> 1]!;
  return link % 2 === 0 ? b : a;
}

/** Sets start and arrival of frames on a shared medium of 10 Mbit/s. */
function inferFrames({ header, columns }: Recording): void {
  const frameSent = header.events.indexOf("frame_sent");
  const nanosPerByte = 8e9 / (header.network.bit_rate ?? 1e7);
  for (let at = 0; at < header.count; at += 1) {
    if (columns.event[at] !== frameSent) continue;
    columns.start[at] = columns.time[at]!;
    columns.arrival[at] = columns.time[at]! + columns.bytes[at]! * nanosPerByte;
  }
}
