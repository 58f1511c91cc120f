/**
 * Recording of a run: a header in JSON and typed columns, as in a `.carr` file.
 *
 * The columns are views of the file's bytes, so that a million events open without copies.
 */
import {
  COLUMN_TYPES, STATE_TYPES, TIMER_TYPES, type Columns, type ColumnTypes, type StateColumns, type TimerColumns, type Values,
} from "./columns.ts";
import type { Header } from "./header.ts";

export interface Recording {
  header: Header;
  columns: Columns;
  /** States of machines; recordings of real sessions have none. */
  states?: StateColumns;
  /** Timers of machines. */
  timers?: TimerColumns;
}

const MAGIC = "CARR";
const VERSION = 1;
/** Magic, version, and length of the header. */
const PREFIX = 12;
const MAX_EVENTS = 50_000_000;

/** True if the bytes begin as a recording does. */
export function isRecording(bytes: Uint8Array): boolean {
  return bytes.length >= PREFIX && String.fromCharCode(...bytes.subarray(0, 4)) === MAGIC;
}

/** Reads a recording. Throws an error that says what is wrong and where. */
export function readRecording(bytes: Uint8Array): Recording {
  if (!isRecording(bytes)) throw new Error("not a recording: the file does not begin with CARR");
  const aligned = bytes.byteOffset % 8 === 0 ? bytes : bytes.slice();
  const view = new DataView(aligned.buffer, aligned.byteOffset, aligned.byteLength);
  const version = view.getUint32(4, true);
  if (version !== VERSION) throw new Error(`recording of version ${version}; this page reads version ${VERSION}`);
  const length = view.getUint32(8, true);
  const base = PREFIX + length;
  if (base > aligned.length) throw new Error(`the header of ${length} bytes is longer than the file`);
  if (base % 8 !== 0) throw new Error(`the header ends at byte ${base}, which is not a multiple of 8`);
  const { header, places, states, timers } = readHeader(new TextDecoder().decode(aligned.subarray(PREFIX, base)));
  const read = <T>(types: ColumnTypes, table: Table): T => readColumns(types, table, aligned, base) as T;
  return {
    header,
    columns: read(COLUMN_TYPES, { count: header.count, columns: places }),
    ...(states && { states: read<StateColumns>(STATE_TYPES, states) }),
    ...(timers && { timers: read<TimerColumns>(TIMER_TYPES, timers) }),
  };
}

type Places = Record<string, { type: string; offset: number }>;

/** Table as the header describes it. */
interface Table {
  count: number;
  columns: Places;
}

interface ReadHeader {
  header: Header;
  places: Places;
  states: Table | undefined;
  timers: Table | undefined;
}

function readHeader(text: string): ReadHeader {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new Error(`the header is not JSON: ${(error as Error).message}`);
  }
  const { columns, states, timers, ...header } = json as Header & { columns: Places; states?: Table; timers?: Table };
  for (const { count } of [header, states, timers].filter((table) => table !== undefined)) {
    const isCount = Number.isInteger(count) && count >= 0 && count <= MAX_EVENTS;
    if (!isCount) throw new Error(`count ${count} is not a number from 0 to ${MAX_EVENTS}`);
  }
  for (const key of ["events", "packets", "strings"] as const) {
    if (!Array.isArray(header[key])) throw new Error(`the header has no list ${key}`);
  }
  if (!Array.isArray(header.network?.nodes) || !Array.isArray(header.network.links)) {
    throw new Error("the header has no network with nodes and links");
  }
  for (const places of [columns, ...[states, timers].filter((table) => table !== undefined).map((table) => table.columns)]) {
    if (typeof places !== "object" || places === null) throw new Error("the header has no columns");
  }
  header.metrics ??= [];
  return { header, places: columns, states, timers };
}

function readColumns(types: ColumnTypes, { count, columns: places }: Table, bytes: Uint8Array, base: number): Record<string, Values> {
  const columns: Record<string, Values> = {};
  for (const [name, [type, Type]] of Object.entries(types)) {
    const place = places[name];
    if (!place) throw new Error(`column ${name} is missing`);
    if (place.type !== type) throw new Error(`column ${name} has type ${place.type}, not ${type}`);
    const { offset } = place;
    const isInside = Number.isInteger(offset) && offset >= 0 && base + offset + count * Type.BYTES_PER_ELEMENT <= bytes.length;
    if (!isInside || offset % 8 !== 0) throw new Error(`column ${name} at ${offset} is not inside the file`);
    columns[name] = new Type(bytes.buffer as ArrayBuffer, bytes.byteOffset + base + offset, count);
  }
  return columns;
}

/** Writes a recording as the bytes of a `.carr` file. */
export function writeRecording({ header, columns, states, timers }: Recording): Uint8Array {
  const written: { values: Values; count: number; offset: number }[] = [];
  let size = 0;
  const place = (types: ColumnTypes, table: object, count: number): Places => {
    const places: Places = {};
    for (const [name, [type, Type]] of Object.entries(types)) {
      places[name] = { type, offset: size };
      written.push({ values: (table as Record<string, Values>)[name]!, count, offset: size });
      size += Math.ceil((count * Type.BYTES_PER_ELEMENT) / 8) * 8;
    }
    return places;
  };
  const table = (types: ColumnTypes, values: object, count: number): Table => ({ count, columns: place(types, values, count) });
  const whole = {
    ...header,
    columns: place(COLUMN_TYPES, columns, header.count),
    ...(states && { states: table(STATE_TYPES, states, states.time.length) }),
    ...(timers && { timers: table(TIMER_TYPES, timers, timers.since.length) }),
  };
  const text = new TextEncoder().encode(JSON.stringify(whole));
  const padded = Math.ceil((PREFIX + text.length) / 8) * 8 - PREFIX;
  const out = new Uint8Array(PREFIX + padded + size).fill(32, PREFIX, PREFIX + padded);
  out.set(new TextEncoder().encode(MAGIC));
  new DataView(out.buffer).setUint32(4, VERSION, true);
  new DataView(out.buffer).setUint32(8, padded, true);
  out.set(text, PREFIX);
  for (const { values, count, offset } of written) {
    out.set(new Uint8Array(values.buffer, values.byteOffset, count * values.BYTES_PER_ELEMENT), PREFIX + padded + offset);
  }
  return out;
}
