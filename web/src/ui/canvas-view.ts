/** View that is a canvas, drawn again when something changes. */
import { paintOn } from "../render/canvas-painter.ts";
import type { Painter } from "../render/painter.ts";
import { h } from "./dom.ts";
import type { State } from "./state.ts";
import type { View } from "./view.ts";

export abstract class CanvasView implements View {
  readonly controls = h("div", { class: "row" });
  readonly element: HTMLCanvasElement;
  protected stale = true;

  constructor(protected readonly state: State, label: string) {
    this.element = h("canvas", { tabIndex: 0, label });
    state.onChange(() => (this.stale = true));
    new ResizeObserver(() => (this.stale = true)).observe(this.element);
  }

  draw(): void {
    if (!this.stale || this.element.clientWidth === 0) return;
    this.stale = false;
    this.paint(paintOn(this.element, this.state.theme.background));
  }

  abstract paint(painter: Painter): void;
}
