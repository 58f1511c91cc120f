/** Panel at the side: details, loss, metrics and, with a simulator, the scenario. */
import { Details } from "./details.ts";
import { h } from "./dom.ts";
import { Metrics } from "./metrics.ts";
import type { SideView, State } from "./state.ts";
import type { StoryPanel } from "./story-panel.ts";

export class Side {
  readonly element: HTMLElement;
  private readonly content = h("div", { class: "content" });
  private readonly tabs = new Map<SideView, HTMLButtonElement>();
  private readonly panels: Record<SideView, HTMLElement>;

  constructor(private readonly state: State, story: StoryPanel, scenario: HTMLElement) {
    this.panels = { details: new Details(state).element, loss: story.element, metrics: new Metrics(state).element, scenario };
    const names: [SideView, string][] = [["details", "Details"], ["loss", "Loss"], ["metrics", "Metrics"], ["scenario", "Scenario"]];
    for (const [view, name] of names) {
      this.tabs.set(view, h("button", { type: "button", role: "tab", onclick: () => {
        state.side = view;
        state.emit("view");
      } }, name));
    }
    this.element = h("aside", { class: "side" }, h("div", { class: "tabs", role: "tablist" }, ...this.tabs.values()), this.content);
    state.onChange((change) => {
      if (change === "view" || change === "selection" || change === "runs") this.update(change);
    });
    this.update("view");
  }

  private update(change: string): void {
    const { state } = this;
    // A selection shows its details, unless a loss is followed or a scenario is being changed.
    if (change === "selection" && state.selection && state.side === "metrics") state.side = "details";
    for (const [view, tab] of this.tabs) tab.setAttribute("aria-selected", String(view === state.side));
    const panel = this.panels[state.side];
    if (this.content.firstChild !== panel) {
      this.content.replaceChildren(panel);
      if (change !== "view") state.emit("view");
    }
  }
}
