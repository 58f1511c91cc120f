/** Recordings for tests: runs in the manner of a NAK protocol on a tree, an Ethernet and a star. Always the same ones. */
import { type Columns, COLUMN_NAMES, emptyColumns } from "../../src/schema/columns.ts";
import type { Header, LinkInfo, NetworkInfo, NodeInfo } from "../../src/schema/header.ts";
import type { Recording } from "../../src/schema/recording.ts";

const EVENTS = ["offered", "sent", "frame_sent", "frame_lost", "received", "delivered", "loss_found", "requested", "repair_sent", "loss_repaired", "timer_armed", "timer_fired", "collision", "control_sent", "completed", "state_changed"] as const;
type Name = (typeof EVENTS)[number];
const PACKETS: Header["packets"] = [
  { name: "odata", kind: "data" }, { name: "rdata", kind: "repair" }, { name: "nak", kind: "request" }, { name: "ack", kind: "acknowledgment" }, { name: "spm", kind: "control" },
];
const STRINGS = ["backoff", "acknowledged", "retransmission", "BackOff", "WaitNcf", "WaitData"];
const DATA = 1000;
const SMALL = 64;

interface Row {
  time: number;
  node: number;
  event: Name;
  packet?: number;
  link?: number;
  message?: number;
  bytes?: number;
  other?: number;
  text?: number;
  start?: number;
  arrival?: number;
}

/** Numbers from 0 to 1 that are the same in each test (xorshift). */
export function numbersFrom(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

function recordingOf(title: string, protocol: string, network: NetworkInfo, rows: Row[]): Recording {
  const order = [...rows.keys()].sort((a, b) => rows[a]!.time - rows[b]!.time || a - b);
  const columns = emptyColumns(rows.length);
  for (const [at, from] of order.entries()) {
    const row = rows[from]!;
    for (const name of COLUMN_NAMES) {
      if (name === "event") columns.event[at] = EVENTS.indexOf(row.event);
      else if (row[name as keyof Row] !== undefined) (columns[name] as Columns["time"])[at] = row[name as keyof Row] as number;
    }
  }
  const last = rows.length > 0 ? columns.time[rows.length - 1]! : 0;
  const header: Header = {
    title, version: "test", protocol, seed: 1, scenario: null, duration_ns: last, count: rows.length, truncated: false, network,
    packets: PACKETS, events: [...EVENTS], strings: STRINGS, metrics: [{ name: "delivered share", unit: "", value: 1 }],
  };
  return { header, columns };
}

export interface TreeOptions {
  fanout: number[];
  messages: number;
  /** Probability of loss on each link. */
  loss: number;
  /** Time between messages, ns. */
  interval: number;
}

/** Run of a NAK protocol on a tree: receivers ask, the source repeats along the path. */
export function treeRun({ fanout, messages, loss, interval }: TreeOptions): Recording {
  const random = numbersFrom(7);
  const nodes: NodeInfo[] = [{ id: 0, role: "source" }];
  const links: LinkInfo[] = [];
  const children: number[][] = [[]];
  let level = [0];
  for (const [depth, count] of fanout.entries()) {
    const next: number[] = [];
    for (const parent of level) {
      for (let at = 0; at < count; at += 1) {
        const id = nodes.length;
        nodes.push({ id, role: depth === fanout.length - 1 ? "receiver" : "router" });
        children.push([]);
        links.push({ a: parent, b: id, rate: 1.5e6, latency_ns: 10e6 });
        children[parent]!.push(id);
        next.push(id);
      }
    }
    level = next;
  }
  const parent = new Map(links.map(({ a, b }) => [b, a]));
  const rows: Row[] = [];
  const free = new Float64Array(links.length * 2);

  /** A frame on a link; returns its arrival, or `undefined` if it is lost. */
  const send = (time: number, link: number, packet: number, bytes: number, message: number, canLose: boolean): number | undefined => {
    const info = links[link >> 1]!;
    const [from, to] = link % 2 === 0 ? [info.a, info.b] : [info.b, info.a];
    // Repairs are made before later messages, so they take no place in the queue.
    const start = canLose ? Math.max(time, free[link]!) : time;
    const end = start + (bytes * 8e9) / info.rate!;
    if (canLose) free[link] = end;
    const arrival = end + info.latency_ns;
    rows.push({ time, node: from, event: "frame_sent", packet, link, message, bytes, start, arrival });
    if (!canLose || random() >= loss) return arrival;
    rows.push({ time, node: from, event: "frame_lost", packet, link, other: to });
    return undefined;
  };
  const linkTo = (node: number): number => 2 * (node - 1);

  const recover = (time: number, receiver: number, message: number): void => {
    rows.push({ time, node: receiver, event: "loss_found", other: 0, message });
    rows.push({ time, node: receiver, event: "state_changed", text: 3 });
    rows.push({ time, node: receiver, event: "timer_armed", text: 0 });
    let at = time + 5e6 + random() * 30e6;
    rows.push({ time: at, node: receiver, event: "timer_fired", text: 0 }, { time: at, node: receiver, event: "requested", other: 0, message }, { time: at, node: receiver, event: "state_changed", text: 4 });
    const path: number[] = [];
    for (let node = receiver; node !== 0; node = parent.get(node)!) path.push(node);
    for (const node of path) at = send(at, linkTo(node) + 1, 2, SMALL, message, false)!;
    rows.push({ time: at, node: 0, event: "repair_sent", message, bytes: DATA });
    for (const node of path.reverse()) at = send(at, linkTo(node), 1, DATA, message, false)!;
    rows.push({ time: at, node: receiver, event: "received", packet: 1, message, link: linkTo(receiver) }, { time: at, node: receiver, event: "loss_repaired", other: 0, message },
      { time: at, node: receiver, event: "state_changed", text: 5 }, { time: at, node: receiver, event: "delivered", other: 0, message });
  };
  const spread = (time: number, node: number, message: number): void => {
    for (const child of children[node]!) {
      const arrival = send(time, linkTo(child), 0, DATA, message, true);
      if (arrival === undefined) {
        const lost = [child];
        for (let at = 0; at < lost.length; at += 1) lost.push(...children[lost[at]!]!);
        for (const receiver of lost) if (nodes[receiver]!.role === "receiver") recover(time + interval * (1 + random()), receiver, message);
      } else if (nodes[child]!.role === "receiver") {
        rows.push({ time: arrival, node: child, event: "received", packet: 0, message, link: linkTo(child) }, { time: arrival, node: child, event: "delivered", other: 0, message });
      } else spread(arrival, child, message);
    }
  };
  for (let message = 0; message < messages; message += 1) {
    const time = message * interval;
    rows.push({ time, node: 0, event: "offered", message }, { time, node: 0, event: "sent", message, bytes: DATA });
    spread(time, 0, message);
  }
  return recordingOf(`tree ${fanout.join(" × ")}, test`, "pgm", { kind: "graph", bit_rate: null, nodes, links }, rows);
}

/** Run of stop-and-wait on an Ethernet, with collisions of acknowledgments. */
export function lanRun(receivers: number, messages: number): Recording {
  const random = numbersFrom(3);
  const nodes: NodeInfo[] = [{ id: 0, role: "source" }, ...Array.from({ length: receivers }, (_, at): NodeInfo => ({ id: at + 1, role: "receiver" }))];
  const rows: Row[] = [];
  const nanosPerByte = 800;
  const frame = (start: number, node: number, packet: number, bytes: number, message: number): number => {
    const arrival = start + bytes * nanosPerByte;
    rows.push({ time: start, node, event: "frame_sent", packet, bytes, message, start, arrival });
    return arrival;
  };
  let time = 0;
  for (let message = 0; message < messages; message += 1) {
    rows.push({ time, node: 0, event: "offered", message }, { time, node: 0, event: "sent", message, bytes: DATA });
    let missing = nodes.slice(1).map(({ id }) => id);
    let packet = 0;
    while (missing.length > 0) {
      time = frame(time, 0, packet, DATA, message);
      const lost = missing.filter(() => random() < 0.12);
      for (const id of missing) {
        if (lost.includes(id)) rows.push({ time, node: 0, event: "frame_lost", packet, other: id, message });
        else rows.push({ time, node: id, event: "received", packet, message }, { time, node: id, event: "delivered", other: 0, message });
      }
      if (missing.length - lost.length > 1) rows.push({ time, node: missing[0]!, event: "collision", bytes: missing.length - lost.length });
      for (const id of missing) {
        if (lost.includes(id)) continue;
        time += 51_200 * Math.ceil(random() * 3);
        time = frame(time, id, 3, SMALL, message);
        rows.push({ time, node: 0, event: "received", packet: 3, message });
      }
      if (lost.length > 0) {
        rows.push({ time, node: 0, event: "timer_armed", text: 2 });
        time += 2e6;
        rows.push({ time, node: 0, event: "timer_fired", text: 2 }, { time, node: 0, event: "repair_sent", message, bytes: DATA });
        packet = 1;
      }
      missing = lost;
    }
    rows.push({ time, node: 0, event: "completed", message, text: 1 });
    time += 100_000;
  }
  return recordingOf(`Ethernet, ${receivers} receivers, test`, "msaw", { kind: "lan", bit_rate: 1e7, nodes, links: [] }, rows);
}

/** Run on a star, in which every child acknowledges. */
export function starRun(children: number, messages: number): Recording {
  const random = numbersFrom(5);
  const nodes: NodeInfo[] = [{ id: 0, role: "source" }, ...Array.from({ length: children }, (_, at): NodeInfo => ({ id: at + 1, role: "receiver" }))];
  const links: LinkInfo[] = nodes.slice(1).map(({ id }) => ({ a: 0, b: id, rate: 1e7, latency_ns: 20e6 }));
  const rows: Row[] = [];
  for (let message = 0; message < messages; message += 1) {
    const time = message * 50e6;
    rows.push({ time, node: 0, event: "offered", message }, { time, node: 0, event: "sent", message, bytes: DATA });
    for (const { id } of nodes.slice(1)) {
      const start = time;
      const arrival = start + DATA * 800 + 20e6 + random() * 4e6;
      rows.push({ time, node: 0, event: "frame_sent", packet: 0, link: 2 * (id - 1), bytes: DATA, message, start, arrival });
      if (random() < 0.03) {
        rows.push({ time, node: 0, event: "frame_lost", packet: 0, link: 2 * (id - 1), other: id });
        continue;
      }
      rows.push({ time: arrival, node: id, event: "received", packet: 0, message, link: 2 * (id - 1) }, { time: arrival, node: id, event: "delivered", other: 0, message });
      rows.push({ time: arrival, node: id, event: "frame_sent", packet: 3, link: 2 * (id - 1) + 1, bytes: SMALL, message, start: arrival, arrival: arrival + SMALL * 800 + 20e6 });
    }
  }
  return recordingOf(`star, ${children} children, test`, "ff", { kind: "star", bit_rate: null, nodes, links }, rows);
}

/** Run of a million events: 1000 receivers below 110 routers. */
export function millionEvents(): Recording {
  return treeRun({ fanout: [10, 10, 10], messages: 305, loss: 0.004, interval: 20e6 });
}
