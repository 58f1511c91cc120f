/** Timeline: the whole run at a glance, and the place to seek in it. */
import { paintOn } from "../render/canvas-painter.ts";
import { Layer } from "../render/layer.ts";
import type { Painter } from "../render/painter.ts";
import { formatTime } from "../model/time.ts";
import { KINDS } from "../schema/header.ts";
import { h } from "./dom.ts";
import type { State } from "./state.ts";
import type { Run } from "../model/run.ts";

export class Timeline {
  readonly element = h("canvas", { class: "timeline", tabIndex: 0, role: "slider", label: "Time" });
  private stale = true;
  private readonly layer = new Layer();
  private version = 0;
  private drawn: Run | undefined;
  private duration = 0;

  constructor(private readonly state: State) {
    state.onChange(() => (this.stale = true));
    new ResizeObserver(() => (this.stale = true)).observe(this.element);
    const seek = (event: PointerEvent): void => state.seek(((event.offsetX - 6) / (this.element.clientWidth - 12)) * state.duration);
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      seek(event);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (event.buttons > 0) seek(event);
    });
  }

  draw(): void {
    if (!this.stale) return;
    this.stale = false;
    const { state } = this;
    const { theme, run } = state;
    const painter = paintOn(this.element, theme.panel);
    if (!run) return;
    if (this.drawn !== run || this.duration !== state.duration) this.version += 1;
    this.drawn = run;
    this.duration = state.duration;
    this.layer.draw(painter, [this.version, theme.background], (layer) => this.paintDensity(layer, run));
    const x = 6 + (state.time / state.duration) * (painter.width - 12);
    painter.line([x, 0, x, painter.height], { colour: theme.select, width: 2 });
    painter.polygon([x - 5, 0, x + 5, 0, x, 7], theme.select);
    if (!state.playing) this.announce();
  }

  /** Tells the place to programs that read the page. */
  announce(): void {
    const { time, duration } = this.state;
    this.element.setAttribute("aria-valuenow", String(Math.round(time)));
    this.element.setAttribute("aria-valuemax", String(Math.round(duration)));
    this.element.setAttribute("aria-valuetext", formatTime(time));
  }

  /** Draws packets and losses of the whole run. */
  private paintDensity(painter: Painter, run: Run): void {
    const { theme } = this.state;
    const wide = Math.max(1, Math.floor(painter.width - 12));
    const density = this.densityOf(run, wide);
    const top = Math.max(1, ...density.bins[0]!.map((_, bin) => density.bins.reduce((sum, kind) => sum + kind[bin]!, 0)));
    const base = painter.height - 5;
    for (let bin = 0; bin < wide; bin += 1) {
      let y = base;
      for (const [at, kind] of KINDS.entries()) {
        const tall = (Math.sqrt(density.bins[at]![bin]! / top)) * (painter.height - 14);
        if (tall > 0) painter.rect(6 + bin, y - tall, 1, tall, theme.kinds[kind], undefined, 0.75);
        y -= tall * 0.5;
      }
      if (density.losses[bin]) painter.rect(6 + bin - 0.5, base + 1, 2, 4, theme.lost);
    }
  }

  private densityOf(run: Run, wide: number): { bins: Float64Array[]; losses: Uint8Array } {
    const { duration } = this.state;
    const bins = KINDS.map(() => new Float64Array(wide));
    const losses = new Uint8Array(wide);
    const { columns, codes } = run;
    for (let event = 0; event < run.count; event += 1) {
      const code = columns.event[event]!;
      if (!run.isFrame(event) && code !== codes.frame_lost) continue;
      const bin = Math.min(wide - 1, ((columns.time[event]! / duration) * wide) | 0);
      if (code === codes.frame_lost) losses[bin] = 1;
      else bins[KINDS.indexOf(run.kindOf(event) ?? "control")]![bin]! += 1;
    }
    return { bins, losses };
  }
}
