/** Run: a recording with the indexes that all views share. */
import type { Columns, StateColumns } from "../schema/columns.ts";
import { NONE16, NONE32, NONE8 } from "../schema/columns.ts";
import { type Header, KINDS, type PacketKind } from "../schema/header.ts";
import type { Recording } from "../schema/recording.ts";
import { type Codes, codesOf } from "./codes.ts";
import { completeFlights, frameCodes, kindOfEvent } from "./frames.ts";
import { Groups } from "./groups.ts";
import { Intervals } from "./intervals.ts";
import { matchLosses } from "./losses.ts";
import { MissingMessages } from "./missing.ts";
import { numberFrames } from "./numbers.ts";
import { lowerBound, upperBound } from "./search.ts";
import { Timers, timersOf } from "./timers.ts";
import { Topology } from "./topology.ts";

export class Run {
  readonly header: Header;
  readonly columns: Columns;
  readonly codes: Codes;
  readonly topology: Topology;
  readonly count: number;
  /** End of the run, ns; at least 1. */
  readonly duration: number;
  /** Frames from the time at which they are handed to the network until they arrive, by number of the event. */
  readonly frames: Intervals;
  /** Loss of a frame and frame of a loss, each as the number of the event plus 1. */
  readonly lossOf: Uint32Array;
  readonly missing: MissingMessages;
  readonly timers: Timers;
  /** States that the simulator recorded. */
  readonly states: StateColumns | undefined;
  /** Events of losses. */
  readonly losses: Uint32Array;
  /** Usual time that a frame travels, ns: the mean of a sample. */
  readonly usualFlight: number;
  private readonly frameCodes: Uint8Array;
  private nodeEvents: Groups | undefined;
  private kindEvents: Groups | undefined;

  constructor(recording: Recording) {
    this.header = recording.header;
    this.columns = recording.columns;
    this.count = recording.header.count;
    this.codes = codesOf(recording.header.events, recording.columns.event);
    this.topology = new Topology(recording.header.network);
    const { columns, codes } = this;
    this.frameCodes = frameCodes(codes);
    const last = this.count > 0 ? columns.time[this.count - 1]! : 0;
    this.duration = Math.max(recording.header.duration_ns, last, 1);
    completeFlights(columns, this.frameCodes, this.duration);
    this.frames = new Intervals(columns.time, columns.arrival);
    this.lossOf = matchLosses(columns, codes, this.header.packets);
    numberFrames(columns, codes, this.header, this.lossOf);
    this.losses = new Groups(1, this.count, (row) => (columns.event[row] === codes.frame_lost ? 0 : -1)).rows;
    this.missing = new MissingMessages(columns, codes, this.topology);
    this.timers = new Timers(recording.timers ?? timersOf(columns, codes), this.topology);
    this.states = recording.states;
    this.usualFlight = usualFlight(columns, this.frameCodes, this.duration);
  }

  /** Events of each node. */
  get byNode(): Groups {
    this.nodeEvents ??= new Groups(this.topology.nodes.length, this.count, (row) => this.topology.indexOf(this.columns.node[row]!));
    return this.nodeEvents;
  }

  /** True if an event is drawn as a packet. */
  isFrame(event: number): boolean {
    return this.frameCodes[this.columns.event[event]!] === 1;
  }

  /** Number of packets of a kind that were sent until a time. */
  packetsUntil(kind: PacketKind, time: number): number {
    this.kindEvents ??= new Groups(KINDS.length, this.count, (row) => (this.isFrame(row) ? KINDS.indexOf(this.kindOf(row) ?? "control") : -1));
    return lowerBound(this.kindEvents.of(KINDS.indexOf(kind)), this.countUntil(time));
  }

  /** Number of the first event at or after a time. */
  firstAt(time: number): number {
    return lowerBound(this.columns.time, time);
  }

  /** Number of events until a time, included. */
  countUntil(time: number): number {
    return upperBound(this.columns.time, time);
  }

  kindOf(event: number): PacketKind | undefined {
    const packet = this.columns.packet[event]!;
    return packet === NONE8 ? kindOfEvent(this.columns.event[event]!, this.codes) : this.header.packets[packet]?.kind;
  }

  packetName(event: number): string {
    const packet = this.columns.packet[event]!;
    return packet === NONE8 ? "" : (this.header.packets[packet]?.name ?? "");
  }

  eventName(event: number): string {
    return this.header.events[this.columns.event[event]!] ?? "?";
  }

  text(event: number): string {
    const text = this.columns.text[event]!;
    return text === NONE16 ? "" : (this.header.strings[text] ?? "");
  }

  /** Number of the message of an event; of a loss without one, that of its frame. `undefined` if there is none. */
  message(event: number): number | undefined {
    const own = this.columns.message[event]!;
    if (own !== NONE32) return own;
    const frame = this.columns.event[event] === this.codes.frame_lost ? this.lossOf[event]! : 0;
    const message = frame > 0 ? this.columns.message[frame - 1]! : NONE32;
    return message === NONE32 ? undefined : message;
  }

  /** Number of frames of a collision; 0 if the recording does not tell. */
  framesOf(event: number): number {
    return this.columns.bytes[event]! || Number.parseInt(this.text(event), 10) || 0;
  }

  /** Index of the node of an event. */
  nodeOf(event: number): number {
    return this.topology.indexOf(this.columns.node[event]!);
  }

  /** Index of the other node of an event, or -1. */
  otherOf(event: number): number {
    const other = this.columns.other[event]!;
    return other === NONE32 ? -1 : this.topology.indexOf(other);
  }
}

function usualFlight(columns: Columns, isFrame: Uint8Array, duration: number): number {
  const sample: number[] = [];
  const step = Math.max(1, Math.floor(columns.time.length / 20000));
  for (let at = 0; at < columns.time.length; at += step) {
    const flight = columns.arrival[at]! - columns.start[at]!;
    if (isFrame[columns.event[at]!] && flight > 0) sample.push(flight);
  }
  return sample.length > 0 ? sample.reduce((sum, flight) => sum + flight, 0) / sample.length : duration / 50;
}
