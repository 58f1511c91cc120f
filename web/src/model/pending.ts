/** Repair state of a node: messages that were requested from it and not repaired through it yet. */
import { NONE32 } from "../schema/columns.ts";
import type { Run } from "./run.ts";

/** Events that are looked through at most: requests are answered or repeated within far fewer. */
const LOOK_BACK = 300_000;

export interface Pending {
  message: number;
  /** Time of the first request that is open, ns. */
  since: number;
  /** Nodes below that asked, by index. */
  from: number[];
}

/** Open requests of a node at a time, by the requests and repairs on its links. */
export function pendingRequests(run: Run, node: number, time: number): Pending[] {
  const { columns, codes, topology } = run;
  const open = new Map<number, Pending>();
  const end = run.countUntil(time);
  for (let event = Math.max(0, end - LOOK_BACK); event < end; event += 1) {
    const link = columns.link[event]!;
    const message = columns.message[event]!;
    if (columns.event[event] !== codes.frame_sent || link < 0 || message === NONE32) continue;
    const [from, to] = [topology.sender[link]!, topology.receiver[link]!];
    const kind = run.kindOf(event);
    if (kind === "request" && to === node && columns.arrival[event]! <= time && run.lossOf[event] === 0) {
      const known = open.get(message);
      if (!known) open.set(message, { message, since: columns.arrival[event]!, from: [from] });
      else if (!known.from.includes(from)) known.from.push(from);
    } else if (kind === "repair" && from === node) {
      const known = open.get(message);
      if (!known) continue;
      known.from = known.from.filter((other) => other !== to);
      if (known.from.length === 0) open.delete(message);
    }
  }
  return [...open.values()];
}
