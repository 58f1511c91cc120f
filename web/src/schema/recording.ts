/**
 * Recording of a run: a header in JSON and typed columns, as in a `.carr` file.
 *
 * The columns are views of the file's bytes, so that a million events open without copies.
 */
import { COLUMN_NAMES, COLUMN_TYPES, type Columns } from "./columns.ts";
import type { Header } from "./header.ts";

export interface Recording {
  header: Header;
  columns: Columns;
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
  const header = readHeader(new TextDecoder().decode(aligned.subarray(PREFIX, base)));
  const columns = readColumns(header, aligned, base);
  return { header: header.header, columns };
}

interface ColumnPlaces {
  header: Header;
  columns: Record<string, { type: string; offset: number }>;
}

function readHeader(text: string): ColumnPlaces {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new Error(`the header is not JSON: ${(error as Error).message}`);
  }
  const header = json as Header & { columns: ColumnPlaces["columns"] };
  const isCount = Number.isInteger(header.count) && header.count >= 0 && header.count <= MAX_EVENTS;
  if (!isCount) throw new Error(`count ${header.count} is not a number from 0 to ${MAX_EVENTS}`);
  for (const key of ["events", "packets", "strings"] as const) {
    if (!Array.isArray(header[key])) throw new Error(`the header has no list ${key}`);
  }
  if (!Array.isArray(header.network?.nodes) || !Array.isArray(header.network.links)) {
    throw new Error("the header has no network with nodes and links");
  }
  if (typeof header.columns !== "object" || header.columns === null) throw new Error("the header has no columns");
  header.metrics ??= [];
  return { header, columns: header.columns };
}

function readColumns(places: ColumnPlaces, bytes: Uint8Array, base: number): Columns {
  const { count } = places.header;
  const columns: Partial<Record<keyof Columns, Columns[keyof Columns]>> = {};
  for (const name of COLUMN_NAMES) {
    const [type, Type] = COLUMN_TYPES[name];
    const place = places.columns[name];
    if (!place) throw new Error(`column ${name} is missing`);
    if (place.type !== type) throw new Error(`column ${name} has type ${place.type}, not ${type}`);
    const { offset } = place;
    const isInside = Number.isInteger(offset) && offset >= 0 && base + offset + count * Type.BYTES_PER_ELEMENT <= bytes.length;
    if (!isInside || offset % 8 !== 0) throw new Error(`column ${name} at ${offset} is not inside the file`);
    columns[name] = new Type(bytes.buffer as ArrayBuffer, bytes.byteOffset + base + offset, count);
  }
  return columns as Columns;
}

/** Writes a recording as the bytes of a `.carr` file. */
export function writeRecording({ header, columns }: Recording): Uint8Array {
  const places: ColumnPlaces["columns"] = {};
  let size = 0;
  for (const name of COLUMN_NAMES) {
    const [type, Type] = COLUMN_TYPES[name];
    places[name] = { type, offset: size };
    size += Math.ceil((header.count * Type.BYTES_PER_ELEMENT) / 8) * 8;
  }
  let text = new TextEncoder().encode(JSON.stringify({ ...header, columns: places }));
  const padded = Math.ceil((PREFIX + text.length) / 8) * 8 - PREFIX;
  const out = new Uint8Array(PREFIX + padded + size).fill(32, PREFIX, PREFIX + padded);
  out.set(new TextEncoder().encode(MAGIC));
  new DataView(out.buffer).setUint32(4, VERSION, true);
  new DataView(out.buffer).setUint32(8, padded, true);
  out.set(text, PREFIX);
  for (const name of COLUMN_NAMES) {
    const column = columns[name];
    const used = new Uint8Array(column.buffer, column.byteOffset, header.count * column.BYTES_PER_ELEMENT);
    out.set(used, PREFIX + padded + places[name]!.offset);
  }
  return out;
}
