/** Frames that the network lost, matched to the events `frame_lost`. */
import type { Columns } from "../schema/columns.ts";
import type { Header } from "../schema/header.ts";
import type { Codes } from "./codes.ts";

/** Events to look back for the frame of a loss: its copies to other links may lie between. */
const LOOK_BACK = 1024;

/** For each event: of a frame that was lost, the number of its loss plus 1; of a loss, the number of its frame plus 1. */
export function matchLosses(columns: Columns, codes: Codes, packets: Header["packets"]): Uint32Array {
  // A packet type may have two entries: first transmissions and repairs. A loss need not tell which one it is.
  const names = packets.map(({ name }) => packets.findIndex((other) => other.name === name));
  const partner = new Uint32Array(columns.time.length);
  for (let at = 0; at < columns.time.length; at += 1) {
    if (columns.event[at] !== codes.frame_lost) continue;
    const frame = frameOf(at, columns, codes, partner, names);
    if (frame === undefined) continue;
    partner[at] = frame + 1;
    partner[frame] ||= at + 1;
  }
  return partner;
}

function frameOf(loss: number, columns: Columns, codes: Codes, partner: Uint32Array, names: number[]): number | undefined {
  const onLink = columns.link[loss]! >= 0;
  for (let at = loss - 1; at >= 0 && at >= loss - LOOK_BACK; at -= 1) {
    if (columns.event[at] !== codes.frame_sent) continue;
    // A frame on a link is lost once. On a shared medium several receivers may lose the same frame.
    if (onLink && partner[at] !== 0) continue;
    const isSame = columns.link[at] === columns.link[loss] && names[columns.packet[at]!] === names[columns.packet[loss]!];
    const isOfNode = columns.node[at] === columns.node[loss];
    if (isSame && (isOfNode || (!onLink && columns.arrival[at]! >= columns.time[loss]!))) return at;
    if (onLink && columns.time[at]! < columns.time[loss]! - 10e9) return undefined;
  }
  return undefined;
}
