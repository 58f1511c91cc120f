/** Dock below the network: the linked views. */
import { ChartView } from "./chart.ts";
import { h } from "./dom.ts";
import { PlotView } from "./plot.ts";
import { SequenceView } from "./sequence.ts";
import { DOCK_VIEWS, type DockView, type State } from "./state.ts";
import { TableView } from "./table.ts";
import type { View } from "./view.ts";

const NAMES: Record<DockView, string> = { sequence: "Sequence diagram", plot: "Sequence plot", chart: "Chart", events: "Events" };

export class Dock {
  readonly element: HTMLElement;
  private readonly views: Record<DockView, View>;
  private readonly body = h("div", { class: "body" });
  private readonly controls = h("div", { class: "row" });
  private readonly tabs: HTMLButtonElement[];

  constructor(private readonly state: State) {
    this.views = { sequence: new SequenceView(state), plot: new PlotView(state), chart: new ChartView(state), events: new TableView(state) };
    this.tabs = DOCK_VIEWS.map((view, at) => h("button", { type: "button", role: "tab", title: `${NAMES[view]} (${at + 1})`, onclick: () => this.show(view) }, NAMES[view]));
    const grip = h("div", { class: "grip", title: "Change the height" });
    grip.addEventListener("pointerdown", (event) => grip.setPointerCapture(event.pointerId));
    grip.addEventListener("pointermove", (event) => {
      if (event.buttons === 0) return;
      const tall = Math.min(Math.max(window.innerHeight - 52 - event.clientY, 90), window.innerHeight - 240);
      document.getElementById("app")!.style.setProperty("--dock", `${tall}px`);
    });
    this.element = h("section", { class: "dock", label: "Linked views" }, grip,
      h("div", { class: "tabs", role: "tablist" }, ...this.tabs, h("span", { class: "spacer" }), this.controls), this.body);
    state.onChange((change) => {
      if (change === "view" || change === "runs") this.update();
    });
    this.update();
  }

  /** View in sight. */
  get current(): View {
    return this.views[this.state.dock];
  }

  show(view: DockView): void {
    this.state.dock = view;
    this.state.emit("view");
  }

  draw(): void {
    this.current.draw();
  }

  private update(): void {
    for (const [at, view] of DOCK_VIEWS.entries()) this.tabs[at]!.setAttribute("aria-selected", String(view === this.state.dock));
    const { element, controls } = this.current;
    if (this.body.firstChild !== element) this.body.replaceChildren(element);
    if (this.controls.firstChild !== controls) this.controls.replaceChildren(controls);
  }
}
