/**
 * Numbers of messages for frames that do not carry any, such as the ones of protocols that number by one bit.
 *
 * A node hands packets to the network in order: the frame of a packet takes the number of the oldest event `sent`,
 * `repair_sent`, `forwarded` or `control_sent` of its node that has no frame yet. A router's frame takes the number of
 * the frame that arrives at the same time.
 */
import type { Columns } from "../schema/columns.ts";
import { NONE32 } from "../schema/columns.ts";
import type { Header } from "../schema/header.ts";
import type { Codes } from "./codes.ts";

interface Waiting {
  time: number;
  message: number;
  /** Packet type of a control packet; -1 for a packet with a message. */
  packet: number;
}

/** Frame that took a number last at a node: its copies to other links have the same one. */
interface Last {
  time: number;
  packet: number;
  message: number;
}

/** Events that wait for their frame at one node; more are packets that the network never carried. */
const MAX_WAITING = 1000;

/** Sets the missing numbers of frames, and of their losses. `partner` is the result of `matchLosses`. */
export function numberFrames(columns: Columns, codes: Codes, header: Header, partner: Uint32Array): void {
  const count = columns.time.length;
  if (!lacksNumbers(columns, codes, header)) return;
  const waiting = new Map<number, Waiting[]>();
  const last = new Map<number, Last>();
  /** Latest arrivals by node and packet type. */
  const arrivals = new Map<number, Last[]>();
  let seen = 0;
  for (let at = 0; at < count; at += 1) {
    const time = columns.time[at]!;
    // Events of one time have no fixed order: an event may follow its frame.
    for (; seen < count && columns.time[seen]! <= time; seen += 1) note(seen);
    const code = columns.event[at]!;
    if (code === codes.frame_sent) {
      if (columns.message[at] === NONE32) columns.message[at] = numberOf(at, time);
      arrive(at);
    } else if (code === codes.frame_lost && partner[at] === 0 && columns.message[at] === NONE32) {
      columns.message[at] = take(columns.node[at]!, columns.packet[at]!) ?? NONE32;
    } else if (code === codes.frame_lost && partner[at]! > 0 && columns.message[at] === NONE32) {
      columns.message[at] = columns.message[partner[at]! - 1]!;
    }
  }

  function note(event: number): void {
    const code = columns.event[event]!;
    const isControl = code === codes.control_sent;
    if (!isControl && code !== codes.sent && code !== codes.continued && code !== codes.repair_sent && code !== codes.forwarded) return;
    const list = waiting.get(columns.node[event]!) ?? [];
    if (list.length >= MAX_WAITING) list.shift();
    list.push({ time: columns.time[event]!, message: columns.message[event]!, packet: isControl ? columns.packet[event]! : -1 });
    waiting.set(columns.node[event]!, list);
  }

  function numberOf(frame: number, time: number): number {
    const node = columns.node[frame]!;
    const packet = columns.packet[frame]!;
    const copy = last.get(node);
    if (columns.link[frame]! >= 0 && copy && copy.time === time && copy.packet === packet) return copy.message;
    const message = take(node, packet) ?? arrivals.get(node * 256 + packet)?.find((arrival) => Math.abs(arrival.time - time) <= 1)?.message ?? NONE32;
    last.set(node, { time, packet, message });
    return message;
  }

  function take(node: number, packet: number): number | undefined {
    const list = waiting.get(node);
    const kind = header.packets[packet]?.kind;
    const isMessage = kind === "data" || kind === "repair";
    const found = list?.findIndex((event) => (event.packet < 0 ? isMessage : header.packets[event.packet]?.name === header.packets[packet]?.name)) ?? -1;
    return found < 0 ? undefined : list!.splice(found, 1)[0]!.message;
  }

  function arrive(frame: number): void {
    const link = header.network.links[columns.link[frame]! >> 1];
    if (!link || columns.link[frame]! < 0) return;
    const key = (columns.link[frame]! % 2 === 0 ? link.b : link.a) * 256 + columns.packet[frame]!;
    const list = arrivals.get(key) ?? [];
    if (list.length >= 64) list.shift();
    list.push({ time: columns.arrival[frame]!, packet: columns.packet[frame]!, message: columns.message[frame]! });
    arrivals.set(key, list);
  }
}

/** True if a frame with a message has no number. */
function lacksNumbers(columns: Columns, codes: Codes, header: Header): boolean {
  for (let at = 0; at < columns.time.length; at += 1) {
    if (columns.event[at] !== codes.frame_sent || columns.message[at] !== NONE32) continue;
    const kind = header.packets[columns.packet[at]!]?.kind;
    if (kind === "data" || kind === "repair") return true;
  }
  return false;
}
