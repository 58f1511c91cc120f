/** Summary metrics of the runs, side by side. */
import { h } from "./dom.ts";
import type { State } from "./state.ts";

export class Metrics {
  readonly element = h("div");

  constructor(private readonly state: State) {
    state.onChange((change) => {
      if (change !== "time" && state.side === "metrics") this.update();
    });
  }

  private update(): void {
    const runs = this.state.panes.map(({ run }) => run);
    const rows = new Map<string, (string | undefined)[]>();
    const set = (name: string, at: number, value: string): void => {
      const row = rows.get(name) ?? [];
      row[at] = value;
      rows.set(name, row);
    };
    for (const [at, run] of runs.entries()) {
      for (const { name, unit, value } of run.header.metrics) set(unit ? `${name} (${unit})` : name, at, number(value));
      for (const [code, name] of run.header.events.entries()) set(`events: ${name.replaceAll("_", " ")}`, at, countOf(run.columns.event, code).toLocaleString("en"));
    }
    const heads = runs.map((run) => h("th", {}, runs.length > 1 ? run.header.protocol : "value"));
    const body = [...rows].map(([name, values]) => h("tr", {}, h("td", {}, name), ...runs.map((_, at) => h("td", { class: "number" }, values[at] ?? ""))));
    this.element.replaceChildren(h("h2", {}, "Metrics of the whole run"), h("table", {}, h("tr", {}, h("th", {}, "metric"), ...heads), ...body));
  }
}

function countOf(events: Uint8Array, code: number): number {
  let count = 0;
  for (const event of events) if (event === code) count += 1;
  return count;
}

function number(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
}
