/** Selection: what all views mark. */
import type { Run } from "./run.ts";

export type Selection =
  /** Packet, loss or another event. */
  | { kind: "event"; event: number }
  /** Node by index. */
  | { kind: "node"; node: number }
  | { kind: "message"; message: number };

/** True if an event belongs to the selection: the event itself, its frame or loss, or one of the selected message. */
export function isSelectedEvent(run: Run, selection: Selection, event: number): boolean {
  if (selection.kind === "event") return selection.event === event || run.lossOf[selection.event]! - 1 === event;
  if (selection.kind === "message") return run.message(event) === selection.message;
  return run.nodeOf(event) === selection.node;
}
