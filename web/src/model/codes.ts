/** Codes of the events of one recording, by name. An event that does not occur has code -1. */
export interface Codes {
  offered: number;
  sent: number;
  continued: number;
  repair_sent: number;
  forwarded: number;
  repair_needed: number;
  control_sent: number;
  received: number;
  delivered: number;
  completed: number;
  loss_found: number;
  requested: number;
  loss_repaired: number;
  loss_final: number;
  request_suppressed: number;
  timer_armed: number;
  timer_fired: number;
  state_changed: number;
  dropped: number;
  member_joined: number;
  member_lost: number;
  frame_sent: number;
  frame_lost: number;
  frame_discarded: number;
  collision: number;
  note: number;
}

const NAMES: (keyof Codes)[] = [
  "offered", "sent", "continued", "repair_sent", "forwarded", "repair_needed", "control_sent", "received", "delivered",
  "completed", "loss_found", "requested", "loss_repaired", "loss_final", "request_suppressed", "timer_armed", "timer_fired",
  "state_changed", "dropped", "member_joined", "member_lost", "frame_sent", "frame_lost", "frame_discarded", "collision", "note",
];

/** Finds the codes of the event names of a header, for the events that occur in the column. */
export function codesOf(events: readonly string[], column: Uint8Array): Codes {
  const occurs = new Uint8Array(256);
  for (const code of column) occurs[code] = 1;
  const codeOf = (name: string): number => {
    const code = events.indexOf(name);
    return code >= 0 && occurs[code] ? code : -1;
  };
  return Object.fromEntries(NAMES.map((name) => [name, codeOf(name)])) as unknown as Codes;
}
