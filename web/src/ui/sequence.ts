/** Time–sequence diagram: a line for each node, an arrow for each packet, time from left to right or downwards. */
import { chooseLanes } from "../model/lanes.ts";
import { lossTime } from "../model/scene.ts";
import { isSelectedEvent } from "../model/selection.ts";
import { formatTime, ticks } from "../model/time.ts";
import type { Painter } from "../render/painter.ts";
import { drawSign } from "../render/shapes.ts";
import { CanvasView } from "./canvas-view.ts";
import { h } from "./dom.ts";
import { KINDS, type PacketKind } from "../schema/header.ts";
import type { State } from "./state.ts";

/** Arrows that are drawn at most. */
const MAX_ARROWS = 2500;
/** Arrows with a head and a number; further ones are lines. */
const MAX_HEADS = 500;
const LANE = 21;
const LEFT = 64;
const TOP = 20;

export class SequenceView extends CanvasView {
  /** Simulated time across the view, in usual flights. */
  private span = 14;
  private lanes: number[] = [];
  /** Places of the numbers that are drawn: left end, middle, width. */
  private numbers: [number, number, number][] = [];
  private hits: { x: number; y: number; event: number }[] = [];

  constructor(state: State) {
    super(state, "Time–sequence diagram");
    const zoom = h("input", { type: "range", min: "0.5", max: "10", step: "0.1", value: String(Math.log2(this.span)), label: "Time in sight", title: "Time in sight" });
    zoom.addEventListener("input", () => {
      this.span = 2 ** Number(zoom.value);
      this.stale = true;
    });
    this.controls.append("Time in sight", zoom);
    this.element.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) {
        this.span = Math.min(1024, Math.max(1.4, this.span * Math.exp(event.deltaY / 300)));
        zoom.value = String(Math.log2(this.span));
      } else {
        state.seek(state.time + ((event.deltaY + event.deltaX) / 800) * this.window());
      }
      this.stale = true;
    }, { passive: false });
    this.element.addEventListener("click", (event) => this.pick(event.offsetX, event.offsetY));
    let last: number | undefined;
    this.element.addEventListener("pointermove", (event) => {
      if (event.buttons === 1 && last !== undefined) state.seek(state.time - ((event.offsetX - last) / Math.max(1, this.element.clientWidth - LEFT)) * this.window());
      last = event.buttons === 1 ? event.offsetX : undefined;
    });
  }

  /** Time across the view, ns. */
  private window(): number {
    return Math.min((this.state.run?.usualFlight ?? 1) * this.span, this.state.duration * 1.02);
  }

  private pick(x: number, y: number): void {
    let best = -1;
    let least = 9;
    for (const hit of this.hits) {
      const distance = Math.hypot(hit.x - x, hit.y - y);
      if (distance < least) [best, least] = [hit.event, distance];
    }
    if (best >= 0) this.state.select({ kind: "event", event: best });
    else if (x < LEFT) {
      const node = this.lanes[Math.floor((y - TOP) / this.laneHeight(this.element.clientHeight))];
      if (node !== undefined) this.state.select({ kind: "node", node });
    }
  }

  private laneHeight(height: number): number {
    return (height - TOP - 6) / Math.max(this.lanes.length, 1);
  }

  paint(painter: Painter): void {
    const { run, theme, time, story, selection } = this.state;
    this.hits = [];
    this.numbers = [];
    if (!run) return;
    this.lanes = chooseLanes(run, story, selection, Math.max(2, Math.floor((painter.height - TOP) / LANE)));
    const lane = this.laneHeight(painter.height);
    const wide = painter.width - LEFT - 10;
    const window = this.window();
    // The clock stands at two thirds, so that more of the past is in sight than of the future.
    const from = Math.min(Math.max(time - window * 0.62, -window * 0.02), Math.max(this.state.duration - window * 0.98, -window * 0.02));
    const xOf = (at: number): number => LEFT + ((at - from) / window) * wide;
    const yOf = new Map(this.lanes.map((node, at) => [node, TOP + (at + 0.5) * lane]));
    for (const at of ticks(Math.max(from, 0), from + window, wide / 110)) {
      painter.line([xOf(at), TOP - 4, xOf(at), painter.height], { colour: theme.faint });
      painter.text(formatTime(at, window / 40), xOf(at), 9, { colour: theme.muted, size: 10.5, align: "center" });
    }
    const isSelectedNode = (node: number): boolean => selection?.kind === "node" && selection.node === node;
    for (const [node, y] of yOf) painter.line([LEFT, y, LEFT + wide, y], { colour: isSelectedNode(node) ? theme.select : theme.line, width: isSelectedNode(node) ? 2 : 1 });
    this.paintMissing(painter, from, window, xOf, yOf, lane);
    this.paintArrows(painter, from, window, xOf, yOf);
    // The names cover the arrows that begin before the time in sight.
    painter.rect(0, TOP - 6, LEFT, painter.height, theme.background);
    for (const [node, y] of yOf) {
      const isSelected = isSelectedNode(node);
      const role = run.topology.nodes[node]!.role;
      const name = role === "source" ? `source ${run.topology.label(node)}` : role === "router" || role === "helper" ? `${role} ${run.topology.label(node)}` : `node ${run.topology.label(node)}`;
      painter.text(name, LEFT - 8, y, { colour: isSelected ? theme.select : theme.ink, size: 11, align: "right", bold: role === "source" });
    }
    painter.line([xOf(time), TOP - 6, xOf(time), painter.height], { colour: theme.select, width: 1.5 });
  }

  /** Times at which a node misses a message, as bands. */
  private paintMissing(painter: Painter, from: number, window: number, xOf: (at: number) => number, yOf: Map<number, number>, lane: number): void {
    const { run, theme } = this.state;
    for (const [node, y] of yOf) {
      run!.missing.visit(node, from, from + window, (begin, end) => painter.rect(xOf(begin), y - lane * 0.3, xOf(end) - xOf(begin), lane * 0.6, theme.missing, undefined, 0.6));
    }
  }

  private paintArrows(painter: Painter, from: number, window: number, xOf: (at: number) => number, yOf: Map<number, number>): void {
    const { run, theme, selection, story } = this.state;
    const { columns, topology } = run!;
    let arrows = 0;
    /** Plain arrows of each kind, which are drawn in one stroke. */
    const plain = new Map<PacketKind, number[]>(KINDS.map((kind) => [kind, []]));
    const storyEvents = new Set(story?.steps.map(({ event }) => event));
    const isMarked = (event: number): boolean => (selection !== null && selection.kind !== "node" && isSelectedEvent(run!, selection, event)) || storyEvents.has(event);
    run!.frames.visit(from, from + window, (event) => {
      if (!run!.isFrame(event)) return true;
      const link = columns.link[event]!;
      const a = link < 0 ? -1 : topology.sender[link]!;
      const b = link < 0 ? -1 : topology.receiver[link]!;
      if (a >= 0 && !(yOf.has(a) && yOf.has(b))) return true;
      const kind = run!.kindOf(event) ?? "control";
      const colour = theme.kinds[kind];
      const start = columns.start[event]!;
      const arrival = columns.arrival[event]!;
      const fromY = yOf.get(a >= 0 ? a : run!.nodeOf(event));
      if (fromY === undefined) return true;
      const marked = isMarked(event) || (selection?.kind === "event" && run!.lossOf[event]! - 1 === selection.event);
      if (a < 0) {
        // A frame on a shared medium reaches all nodes: a bar while it is on the medium.
        painter.rect(xOf(start), fromY - 4, Math.max(2, xOf(arrival) - xOf(start)), 8, colour, marked ? { colour: theme.select, width: 2 } : undefined, 0.85);
        painter.line([xOf(arrival), Math.min(...yOf.values()), xOf(arrival), Math.max(...yOf.values())], { colour, width: marked ? 1.5 : 0.7, alpha: 0.5 });
        this.hits.push({ x: (xOf(start) + xOf(arrival)) / 2, y: fromY, event });
        arrows += 1;
        return arrows < MAX_ARROWS;
      }
      const toY = yOf.get(b);
      if (toY === undefined) return true;
      const isLost = run!.lossOf[event]! > 0;
      const end = isLost ? lossTime(run!, event) : arrival;
      const endY = isLost ? fromY + (toY - fromY) * 0.6 : toY;
      const [x1, x2] = [xOf(start), xOf(end)];
      if (marked) {
        painter.line([x1, fromY, x2, endY], { colour: theme.select, width: 4, alpha: 0.5 });
        painter.line([x1, fromY, x2, endY], { colour, width: 2 });
      } else plain.get(kind)!.push(x1, fromY, x2, endY);
      if (isLost) {
        painter.line([x2 - 4, endY - 4, x2 + 4, endY + 4], { colour: theme.lost, width: 2 });
        painter.line([x2 - 4, endY + 4, x2 + 4, endY - 4], { colour: theme.lost, width: 2 });
      } else if (arrows < MAX_HEADS) {
        const angle = Math.atan2(endY - fromY, x2 - x1);
        painter.polygon([x2, endY, x2 - 6 * Math.cos(angle - 0.4), endY - 6 * Math.sin(angle - 0.4), x2 - 6 * Math.cos(angle + 0.4), endY - 6 * Math.sin(angle + 0.4)], colour);
      }
      if (arrows < MAX_HEADS) drawSign(painter, kind, x1, fromY, 5.5, colour);
      if (arrows < MAX_HEADS && Math.abs(x2 - x1) > 26) this.paintNumber(painter, event, x1, fromY, x2, endY);
      this.hits.push({ x: (x1 + x2) / 2, y: (fromY + endY) / 2, event }, { x: x2, y: endY, event }, { x: x1, y: fromY, event });
      arrows += 1;
      return arrows < MAX_ARROWS;
    });
    for (const [kind, points] of plain) painter.segments(points, { colour: theme.kinds[kind], width: 1.2 });
    this.paintDeliveries(painter, from, window, xOf, yOf);
    if (arrows >= MAX_ARROWS) painter.text("More packets than are drawn: show less time", LEFT + 8, painter.height - 10, { colour: theme.muted, size: 11 });
  }

  private paintNumber(painter: Painter, event: number, x1: number, y1: number, x2: number, y2: number): void {
    const { run, theme } = this.state;
    const message = run!.message(event);
    const place = 0.36;
    const text = message === undefined ? run!.packetName(event) : `${run!.packetName(event)} ${message}`;
    const room = text.length * 5.4;
    const [x, y] = [x1 + (x2 - x1) * place + 4, y1 + (y2 - y1) * place - 5];
    const overlaps = ([otherX, otherY, otherRoom]: [number, number, number]): boolean => Math.abs(otherY - y) < 10 && x < otherX + otherRoom && otherX < x + room;
    if (x < LEFT || this.numbers.some(overlaps)) return;
    this.numbers.push([x, y, room]);
    painter.text(text, x, y, { colour: theme.muted, size: 9.5 });
  }

  private paintDeliveries(painter: Painter, from: number, window: number, xOf: (at: number) => number, yOf: Map<number, number>): void {
    const { run, theme } = this.state;
    const { columns, codes } = run!;
    const end = Math.min(run!.countUntil(from + window), run!.firstAt(from) + 60000);
    for (let event = run!.firstAt(from); event < end; event += 1) {
      if (columns.event[event] !== codes.delivered) continue;
      const y = yOf.get(run!.nodeOf(event));
      if (y !== undefined) painter.circle(xOf(columns.time[event]!), y, 2.6, theme.good, { colour: theme.background, width: 0.8 });
    }
  }
}
