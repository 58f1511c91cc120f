/** Tables of a recording, as columns: events in the order of the trace, changes of states, and timers. */

/** Value of a column without a node, message or member. */
export const NONE32 = 0xffffffff;
/** Value of `packet` without a packet. */
export const NONE8 = 255;
/** Value of `text` without a text. */
export const NONE16 = 65535;

export interface Columns {
  /** Time, ns. */
  time: Float64Array;
  node: Uint32Array;
  /** Index in `Header.events`. */
  event: Uint8Array;
  /** Index in `Header.packets`. */
  packet: Uint8Array;
  /** Twice the index in the network's links, plus 1 from b to a. */
  link: Int32Array;
  message: Uint32Array;
  bytes: Uint32Array;
  /** Receiver of a loss, source of a message, or member. */
  other: Uint32Array;
  /** Index in `Header.strings`. */
  text: Uint16Array;
  /** Time at which the first bit of a frame leaves, ns. */
  start: Float64Array;
  /** Time at which the last bit of a frame arrives, ns. */
  arrival: Float64Array;
}

/** Changes of states of machines. */
export interface StateColumns {
  /** Time, ns. */
  time: Float64Array;
  node: Uint32Array;
  /** Number of the instance, such as a message; 0 where a machine has one. */
  about: Uint32Array;
  /** Owner of the states: index in `Header.strings`. */
  machine: Uint16Array;
  /** Name: index in `Header.strings`; `NONE16` when the instance has no state any more. */
  state: Uint16Array;
}

/** Timers of machines, in the order of `since`. */
export interface TimerColumns {
  /** Time at which it was armed, ns. */
  since: Float64Array;
  /** Time at which it was to fire, ns. */
  deadline: Float64Array;
  /** Time at which it fired or changed, ns. */
  end: Float64Array;
  node: Uint32Array;
}

export type Values = Float64Array | Uint32Array | Int32Array | Uint16Array | Uint8Array;
type ArrayType = { new (buffer: ArrayBuffer, offset: number, length: number): Values; BYTES_PER_ELEMENT: number };
/** Type name and array of each column of a table. */
export type ColumnTypes = Record<string, [string, ArrayType]>;

export const COLUMN_TYPES = {
  time: ["f64", Float64Array],
  node: ["u32", Uint32Array],
  event: ["u8", Uint8Array],
  packet: ["u8", Uint8Array],
  link: ["i32", Int32Array],
  message: ["u32", Uint32Array],
  bytes: ["u32", Uint32Array],
  other: ["u32", Uint32Array],
  text: ["u16", Uint16Array],
  start: ["f64", Float64Array],
  arrival: ["f64", Float64Array],
} as const satisfies ColumnTypes;

export const STATE_TYPES = {
  time: ["f64", Float64Array],
  node: ["u32", Uint32Array],
  about: ["u32", Uint32Array],
  machine: ["u16", Uint16Array],
  state: ["u16", Uint16Array],
} as const satisfies ColumnTypes;

export const TIMER_TYPES = {
  since: ["f64", Float64Array],
  deadline: ["f64", Float64Array],
  end: ["f64", Float64Array],
  node: ["u32", Uint32Array],
} as const satisfies ColumnTypes;

export const COLUMN_NAMES = Object.keys(COLUMN_TYPES) as (keyof Columns)[];

/** Columns without values, for `count` events. */
export function emptyColumns(count: number): Columns {
  return {
    time: new Float64Array(count),
    node: new Uint32Array(count),
    event: new Uint8Array(count),
    packet: new Uint8Array(count).fill(NONE8),
    link: new Int32Array(count).fill(-1),
    message: new Uint32Array(count).fill(NONE32),
    bytes: new Uint32Array(count),
    other: new Uint32Array(count).fill(NONE32),
    text: new Uint16Array(count).fill(NONE16),
    start: new Float64Array(count).fill(NaN),
    arrival: new Float64Array(count).fill(NaN),
  };
}
