/** Chart of a measure over time, of all nodes or of the selected one. */
import { type Chart, MEASURES } from "../model/series.ts";
import type { Painter } from "../render/painter.ts";
import { Layer } from "../render/layer.ts";
import { stateColour } from "../render/palette.ts";
import { type Axes, frameOf, paintAxes, xOf, yOf } from "./axes.ts";
import { CanvasView } from "./canvas-view.ts";
import { h } from "./dom.ts";
import { Range } from "./range.ts";
import type { State } from "./state.ts";

export class ChartView extends CanvasView {
  private readonly range: Range;
  private chart: Chart | undefined;
  private key = "";
  private charted: unknown;
  private version = 0;
  private readonly layer = new Layer();

  constructor(state: State) {
    super(state, "Chart");
    this.range = new Range(state, this.element, () => [58, this.element.clientWidth - 14], () => (this.stale = true));
    const choose = h("select", { label: "Measure", onchange: () => {
      state.measure = Number(choose.value);
      this.stale = true;
      state.emit("view");
    } }, ...MEASURES.map(({ name }, at) => h("option", { value: String(at) }, name)));
    state.onChange(() => (choose.value = String(state.measure)));
    this.controls.append(choose);
    let moved = 0;
    this.element.addEventListener("pointerdown", () => (moved = 0));
    this.element.addEventListener("pointermove", (event) => (moved += event.buttons ? Math.abs(event.movementX) : 0));
    this.element.addEventListener("click", (event) => {
      if (moved < 4) state.seek(this.range.from + ((event.offsetX - 58) / (this.element.clientWidth - 72)) * (this.range.to - this.range.from));
    });
  }

  paint(painter: Painter): void {
    const { run, theme, selection, time, measure } = this.state;
    if (!run) return;
    const frame = frameOf(painter);
    const node = selection?.kind === "node" ? selection.node : -1;
    const bins = Math.max(10, Math.min(300, Math.floor((frame.right - frame.left) / 4)));
    const key = [this.range.from, this.range.to, bins, node, measure, run.header.title, run.count].join();
    if (key !== this.key || !this.chart || this.charted !== run) {
      this.key = key;
      this.charted = run;
      this.version += 1;
      this.chart = MEASURES[measure]!.chart(run, this.range.from, this.range.to, bins, node);
    }
    const { series, unit } = this.chart;
    const high = Math.max(1e-9, ...series.map(({ values }) => values.reduce((max, value) => Math.max(max, value), 0)));
    const axes: Axes = { from: this.range.from, to: this.range.to, low: 0, high: high * 1.08 };
    this.layer.draw(painter, [this.key, theme.background, this.version], (layer) => this.paintSeries(layer, axes, `${unit}${node >= 0 ? `, node ${run.topology.label(node)}` : ""}`));
    const now = xOf(frame, axes, time);
    if (now >= frame.left && now <= frame.right) painter.line([now, frame.top, now, frame.bottom], { colour: theme.select, width: 1.5 });
  }

  private paintSeries(painter: Painter, axes: Axes, unit: string): void {
    const { theme } = this.state;
    const { series } = this.chart!;
    const frame = frameOf(painter);
    const bins = series[0]?.values.length ?? 1;
    paintAxes(painter, frame, axes, unit, theme);
    const step = (axes.to - axes.from) / bins;
    let legendX = frame.left + 130;
    for (const [at, { name, kind, values }] of series.entries()) {
      const colour = kind ? theme.kinds[kind] : stateColour(at);
      if (!values.some((value) => value > 0)) continue;
      const points: number[] = [];
      for (const [bin, value] of values.entries()) {
        const y = yOf(frame, axes, value);
        points.push(xOf(frame, axes, axes.from + step * bin), y, xOf(frame, axes, axes.from + step * (bin + 1)), y);
      }
      painter.polygon([frame.left, frame.bottom, ...points, frame.right, frame.bottom], colour, undefined, 0.1);
      painter.line(points, { colour, width: 1.5 });
      painter.rect(legendX, frame.top - 2, 9, 9, colour);
      painter.text(name, legendX + 13, frame.top + 3, { colour: theme.ink, size: 11 });
      legendX += name.length * 6 + 34;
    }
  }
}
