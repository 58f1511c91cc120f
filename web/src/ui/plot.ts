/** Sequence plot: numbers of messages over time as they are sent, lost, requested, repaired and delivered. */
import type { Painter } from "../render/painter.ts";
import { Layer } from "../render/layer.ts";
import { isSelectedEvent } from "../model/selection.ts";
import { drawSign } from "../render/shapes.ts";
import type { Theme } from "../render/palette.ts";
import type { PacketKind } from "../schema/header.ts";
import { type Axes, frameOf, paintAxes, xOf, yOf } from "./axes.ts";
import { CanvasView } from "./canvas-view.ts";
import { h } from "./dom.ts";
import { Range } from "./range.ts";
import type { State } from "./state.ts";

type Mark = { event: number; x: number; y: number; layer: number };
const LAYERS: { name: string; kind: PacketKind | "lost"; colour: (theme: Theme) => string }[] = [
  { name: "delivered", kind: "acknowledgment", colour: (theme) => theme.good },
  { name: "sent", kind: "data", colour: (theme) => theme.kinds.data },
  { name: "requested", kind: "request", colour: (theme) => theme.kinds.request },
  { name: "repair sent", kind: "repair", colour: (theme) => theme.kinds.repair },
  { name: "lost", kind: "lost", colour: (theme) => theme.lost },
];

export class PlotView extends CanvasView {
  private readonly range: Range;
  private marks: Mark[] = [];
  private key = "";
  private readonly layer = new Layer();
  private collected: unknown;
  private version = 0;
  private numbersOf: unknown;
  private numbers: { key: string; low: number; high: number } | undefined;
  private readonly hidden = new Set<number>();

  constructor(state: State) {
    super(state, "Sequence plot");
    this.range = new Range(state, this.element, () => [58, this.element.clientWidth - 14], () => (this.stale = true));
    for (const [at, layer] of LAYERS.entries()) {
      const box = h("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => {
        if (box.checked) this.hidden.delete(at);
        else this.hidden.add(at);
        this.key = "";
        this.stale = true;
      });
      this.controls.append(h("label", { class: "row", style: "gap:3px" }, box, layer.name));
    }
    let moved = 0;
    this.element.addEventListener("pointerdown", () => (moved = 0));
    this.element.addEventListener("pointermove", (event) => (moved += event.buttons ? Math.abs(event.movementX) : 0));
    this.element.addEventListener("click", (event) => {
      if (moved < 4) this.pick(event.offsetX, event.offsetY);
    });
  }

  private pick(x: number, y: number): void {
    let best: Mark | undefined;
    let least = 8;
    for (const mark of this.marks) {
      const distance = Math.hypot(mark.x - x, mark.y - y);
      if (distance < least) [best, least] = [mark, distance];
    }
    if (best) this.state.select({ kind: "event", event: best.event });
    else this.state.seek(this.range.from + ((x - 58) / (this.element.clientWidth - 72)) * (this.range.to - this.range.from));
  }

  paint(painter: Painter): void {
    const { run, theme, selection, time } = this.state;
    if (!run) return;
    const frame = frameOf(painter);
    const axes: Axes = { from: this.range.from, to: this.range.to, ...this.messages() };
    this.collect(painter, axes);
    this.layer.draw(painter, [this.version, theme.background], (layer) => this.paintMarks(layer, axes));
    if (selection) {
      for (const { event, x, y } of this.marks) {
        const isMarked = selection.kind === "node" ? run.nodeOf(event) === selection.node || run.otherOf(event) === selection.node : isSelectedEvent(run, selection, event);
        if (isMarked) painter.circle(x, y, 6, null, { colour: theme.select, width: 1.5 });
      }
    }
    const now = xOf(frame, axes, time);
    if (now >= frame.left && now <= frame.right) painter.line([now, frame.top, now, frame.bottom], { colour: theme.select, width: 1.5 });
  }

  private paintMarks(painter: Painter, axes: Axes): void {
    const { theme } = this.state;
    paintAxes(painter, frameOf(painter), axes, "message", theme);
    const size = this.marks.length > 3000 ? 3 : 6;
    for (const { x, y, layer } of this.marks) {
      const { kind, colour } = LAYERS[layer]!;
      if (kind === "lost") painter.segments([x - 3.5, y - 3.5, x + 3.5, y + 3.5, x - 3.5, y + 3.5, x + 3.5, y - 3.5], { colour: theme.lost, width: 1.5 });
      else drawSign(painter, kind, x, y, kind === "acknowledgment" ? size * 0.7 : size, colour(theme));
    }
  }

  /** Range of the numbers in sight. */
  private messages(): { low: number; high: number } {
    const run = this.state.run!;
    const key = [this.range.from, this.range.to, run.header.title, run.count].join();
    if (this.numbers?.key === key && this.numbersOf === run) return this.numbers;
    this.numbersOf = run;
    let low = Infinity;
    let high = -Infinity;
    const end = run.countUntil(this.range.to);
    const begin = run.firstAt(this.range.from);
    const step = Math.max(1, Math.floor((end - begin) / 200_000));
    for (let event = begin; event < end; event += step) {
      const message = run.columns.message[event]!;
      if (message === 0xffffffff) continue;
      low = Math.min(low, message);
      high = Math.max(high, message);
    }
    this.numbers = Number.isFinite(low) ? { key, low: low - 0.5, high: high + 0.5 } : { key, low: 0, high: 1 };
    return this.numbers;
  }

  /** Marks in sight, one for each place and layer. */
  private collect(painter: Painter, axes: Axes): void {
    const run = this.state.run!;
    const key = [painter.width, painter.height, axes.from, axes.to, run.header.title, run.count, [...this.hidden].join("-")].join();
    if (key === this.key && this.collected === run) return;
    this.key = key;
    this.collected = run;
    this.version += 1;
    const frame = frameOf(painter);
    const { columns, codes } = run;
    const layerOf = new Map<number, number>([[codes.delivered, 0], [codes.sent, 1], [codes.requested, 2], [codes.repair_sent, 3], [codes.frame_lost, 4]]);
    const wide = Math.ceil(painter.width);
    const seen = new Uint8Array(wide * Math.ceil(painter.height));
    this.marks = [];
    const end = run.countUntil(axes.to);
    for (let event = run.firstAt(axes.from); event < end; event += 1) {
      const layer = layerOf.get(columns.event[event]!);
      if (layer === undefined || this.hidden.has(layer)) continue;
      const message = run.message(event);
      if (message === undefined) continue;
      const x = xOf(frame, axes, columns.time[event]!);
      const y = yOf(frame, axes, message);
      const cell = (y | 0) * wide + (x | 0);
      if (seen[cell]! & (1 << layer)) continue;
      seen[cell]! |= 1 << layer;
      this.marks.push({ event, x, y, layer });
    }
    this.marks.sort((a, b) => a.layer - b.layer);
  }
}
