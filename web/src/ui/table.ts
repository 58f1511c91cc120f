/** Table of all events. Only the lines in sight are elements of the page. */
import { type Filter, NO_FILTER, filterEvents } from "../model/filter.ts";
import { lowerBound, upperBound } from "../model/search.ts";
import { isSelectedEvent } from "../model/selection.ts";
import { describe } from "../model/story.ts";
import { formatTime } from "../model/time.ts";
import { colourOf } from "./details.ts";
import { h } from "./dom.ts";
import type { State } from "./state.ts";
import type { View } from "./view.ts";

const LINE = 22;
/** Time between two updates while the clock runs, ms. */
const UPDATE_INTERVAL = 120;
/** Height that every browser scrolls; longer tables scroll in larger steps. */
const MAX_HEIGHT = 8_000_000;
const HEADS = ["time", "event", "node", "packet", "link", "message", "bytes", "what happens"];

export class TableView implements View {
  readonly controls = h("div", { class: "row" });
  readonly element = h("div", { class: "events", tabIndex: 0, label: "Events" });
  private readonly rows = h("div", { class: "rows" });
  private readonly room = h("div");
  private readonly count = h("span", { class: "muted" });
  private filter: Filter = { ...NO_FILTER };
  private found: Uint32Array | undefined;
  private stale = true;
  private drawn = 0;
  /** True while the table follows the clock. */
  private follows = true;
  private scrolledByUs = false;

  constructor(private readonly state: State) {
    this.element.append(this.rows, this.room);
    this.element.addEventListener("scroll", () => {
      if (!this.scrolledByUs) this.follows = false;
      this.scrolledByUs = false;
      this.stale = true;
    });
    new ResizeObserver(() => (this.stale = true)).observe(this.element);
    state.onChange((change) => {
      if (change === "runs") this.rebuild();
      if (change === "time" || change === "selection") this.follows = true;
      this.stale = true;
    });
  }

  private rebuild(): void {
    const { run } = this.state;
    this.filter = { ...NO_FILTER };
    this.found = undefined;
    if (!run) return;
    const choice = (key: "event" | "packet", all: string, names: [value: string, name: string][]): HTMLSelectElement => {
      const select = h("select", { label: `Filter by ${key}`, onchange: () => this.setFilter(key, select.value) },
        h("option", { value: "" }, all), ...names.map(([value, name]) => h("option", { value }, name)));
      return select;
    };
    const field = (key: "node" | "message" | "text", hint: string, size: number): HTMLInputElement => {
      const input = h("input", { type: "search", placeholder: hint, size, label: `Filter by ${key}`, oninput: () => this.setFilter(key, input.value) });
      return input;
    };
    this.controls.replaceChildren(
      choice("event", "all events", run.header.events.map((name) => [name, name.replaceAll("_", " ")])),
      choice("packet", "all packets", run.header.packets.map(({ name, kind }, at) => [String(at), name === kind ? name : `${name} (${kind})`])),
      field("node", "nodes: 3, 7-9", 11), field("message", "messages", 8), field("text", "detail", 8), this.count);
    this.apply();
  }

  private setFilter(key: keyof Filter, value: string): void {
    this.filter[key] = value;
    this.apply();
  }

  private apply(): void {
    const { run } = this.state;
    if (!run) return;
    this.found = filterEvents(run, this.filter);
    this.count.textContent = `${this.length.toLocaleString("en")} events`;
    this.room.style.height = `${Math.max(0, Math.min(MAX_HEIGHT, (this.length + 1) * LINE) - this.element.clientHeight)}px`;
    this.follows = true;
    this.stale = true;
  }

  private get length(): number {
    return this.found?.length ?? this.state.run?.count ?? 0;
  }

  draw(): void {
    const { run } = this;
    if (!this.stale || !run || this.element.clientHeight === 0) return;
    if (this.state.playing && performance.now() - this.drawn < UPDATE_INTERVAL) return;
    this.drawn = performance.now();
    this.stale = false;
    const visible = Math.max(1, Math.floor(this.element.clientHeight / LINE) - 1);
    const last = Math.max(0, this.length - visible);
    this.room.style.height = `${Math.max(0, Math.min(MAX_HEIGHT, (this.length + 1) * LINE) - this.element.clientHeight)}px`;
    const scrollable = Math.max(1, this.element.scrollHeight - this.element.clientHeight);
    const now = this.nowRow();
    let first = Math.round((this.element.scrollTop / scrollable) * last);
    if (this.follows) {
      const wanted = Math.min(last, Math.max(0, now - Math.floor(visible * 0.6)));
      if (Math.abs(wanted - first) > 0) {
        const top = last === 0 ? 0 : (wanted / last) * scrollable;
        if (Math.abs(top - this.element.scrollTop) >= 1) {
          this.scrolledByUs = true;
          this.element.scrollTop = top;
        }
        first = wanted;
      }
    }
    const lines: HTMLElement[] = [h("div", { class: "line header" }, ...HEADS.map((head) => h("span", {}, head)))];
    for (let row = first; row < Math.min(this.length, first + visible + 1); row += 1) lines.push(this.line(row, row === now));
    this.rows.replaceChildren(...lines);
  }

  private get run(): State["run"] {
    return this.state.run;
  }

  /** Row of the selected event, or of the last event before the clock. */
  private nowRow(): number {
    const { selection, time } = this.state;
    const run = this.run!;
    const event = selection?.kind === "event" && run.columns.time[selection.event] === time ? selection.event : run.countUntil(time) - 1;
    if (!this.found) return event;
    return this.found[lowerBound(this.found, event)] === event ? lowerBound(this.found, event) : upperBound(this.found, event) - 1;
  }

  private line(row: number, isNow: boolean): HTMLElement {
    const run = this.run!;
    const event = this.found ? this.found[row]! : row;
    const { columns, topology } = run;
    const [from, to] = topology.ends(columns.link[event]!);
    const message = run.message(event);
    const cells = [
      formatTime(columns.time[event]!, 1000), run.eventName(event).replaceAll("_", " "), topology.label(run.nodeOf(event)), run.packetName(event),
      from >= 0 ? `${topology.label(from)} → ${topology.label(to)}` : "", message === undefined ? "" : String(message),
      columns.bytes[event]! > 0 ? String(columns.bytes[event]) : "", describe(run, event),
    ];
    const spans = cells.map((cell) => h("span", {}, cell));
    spans[1]!.prepend(h("span", { class: "sign", style: `background:${colourOf(run, event, this.state)}` }));
    const { selection } = this.state;
    const isSelected = selection !== null && isSelectedEvent(run, selection, event);
    const line = h("div", { class: `line${isSelected ? " selected" : ""}${isNow ? " now" : ""}` }, ...spans);
    line.addEventListener("click", () => {
      this.state.selection = { kind: "event", event };
      this.state.seek(columns.time[event]!);
      this.state.emit("selection");
    });
    return line;
  }
}
