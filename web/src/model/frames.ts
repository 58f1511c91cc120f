/**
 * Events that are drawn as packets: frames of the network or, in the trace of a real endpoint, which does not see the
 * network, the packets that it sends.
 */
import type { Columns } from "../schema/columns.ts";
import type { PacketKind } from "../schema/header.ts";
import type { Codes } from "./codes.ts";

/** Time that a packet is drawn if the recording does not tell its arrival: a part of the run, within bounds, ns. */
const DRAWN_PART = 1 / 300;
const DRAWN_BOUNDS = [20_000, 50_000_000] as const;

/** For each code of an event, 1 if it is drawn as a packet. */
export function frameCodes(codes: Codes): Uint8Array {
  const isFrame = new Uint8Array(256);
  const sending = codes.frame_sent >= 0 ? [codes.frame_sent] : [codes.sent, codes.continued, codes.repair_sent, codes.forwarded, codes.control_sent];
  for (const code of sending) if (code >= 0) isFrame[code] = 1;
  return isFrame;
}

/** Kind of an event that names no packet. */
export function kindOfEvent(code: number, codes: Codes): PacketKind | undefined {
  if (code < 0) return undefined;
  if (code === codes.sent || code === codes.continued || code === codes.forwarded) return "data";
  return code === codes.repair_sent ? "repair" : undefined;
}

/** Sets start and arrival of packets for which the recording does not tell them. */
export function completeFlights(columns: Columns, isFrame: Uint8Array, duration: number): void {
  const drawn = Math.min(Math.max(duration * DRAWN_PART, DRAWN_BOUNDS[0]), DRAWN_BOUNDS[1]);
  for (let at = 0; at < columns.time.length; at += 1) {
    if (!isFrame[columns.event[at]!]) continue;
    if (Number.isNaN(columns.start[at]!)) columns.start[at] = columns.time[at]!;
    if (Number.isNaN(columns.arrival[at]!)) columns.arrival[at] = columns.start[at]! + drawn;
  }
}
