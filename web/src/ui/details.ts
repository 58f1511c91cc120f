/** Details of the selection: a packet, a loss, a node or a message, at the time of the clock. */
import { pendingRequests } from "../model/pending.ts";
import { describe } from "../model/story.ts";
import { formatSpan, formatTime } from "../model/time.ts";
import type { Run } from "../model/run.ts";
import { button, h } from "./dom.ts";
import type { State } from "./state.ts";

/** Real time between two updates while the clock runs, ms. */
const UPDATE_INTERVAL = 200;
const LATEST = 8;

export class Details {
  readonly element = h("div");
  private updated = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly state: State) {
    state.onChange((change) => {
      if (change !== "time") return this.update();
      // Only what a node has done so far changes with the time.
      if (state.side !== "details" || state.selection?.kind !== "node" || this.timer !== undefined) return;
      const wait = Math.max(0, UPDATE_INTERVAL - (performance.now() - this.updated));
      this.timer = setTimeout(() => this.update(), wait);
    });
  }

  private update(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.updated = performance.now();
    const { run, selection } = this.state;
    if (!run || this.state.side !== "details") return;
    if (!selection) this.element.replaceChildren(...this.overview(run));
    else if (selection.kind === "node") this.element.replaceChildren(...this.node(run, selection.node));
    else if (selection.kind === "message") this.element.replaceChildren(...this.message(run, selection.message));
    else this.element.replaceChildren(...this.event(run, selection.event));
  }

  private overview(run: Run): HTMLElement[] {
    const { header } = run;
    const receivers = header.network.nodes.filter(({ role }) => role === "receiver").length;
    const losses = [...run.losses.subarray(0, 400)];
    return [
      h("h2", {}, "Run"),
      facts([
        ["protocol", header.protocol || "not recorded"],
        ["network", `${header.network.nodes.length} nodes, ${header.network.links.length} links, ${receivers} receivers`],
        ["duration", formatSpan(run.duration)],
        ["seed", header.seed === null ? "not recorded" : String(header.seed)],
        ["events", `${run.count.toLocaleString("en")}${header.truncated ? " (the recording was cut)" : ""}`],
        ["losses", String(run.losses.length)],
      ]),
      h("p", { class: "muted" }, "Select a packet, a loss or a node to see it in all views. Double-click a group to open it."),
      h("h3", {}, losses.length < run.losses.length ? `First ${losses.length} of ${run.losses.length} losses` : "Losses"),
      h("ol", { class: "story" }, ...losses.map((loss) => h("li", {}, this.eventButton(run, loss, () => this.state.follow(loss))))),
      losses.length === 0 && h("p", { class: "muted" }, "The network lost nothing."),
    ].filter((element): element is HTMLElement => element !== false);
  }

  private event(run: Run, event: number): HTMLElement[] {
    const { columns, topology } = run;
    const message = run.message(event);
    const loss = columns.event[event] === run.codes.frame_lost ? event : run.lossOf[event]! - 1;
    const [from, to] = topology.ends(columns.link[event]!);
    const name = run.packetName(event);
    const list: [string, string][] = [
      ["time", formatTime(columns.time[event]!)],
      ["node", topology.label(run.nodeOf(event))],
      ["event", run.eventName(event).replaceAll("_", " ")],
    ];
    if (name) list.push(["packet", `${name} (${run.kindOf(event)})`]);
    if (message !== undefined) list.push(["message", String(message)]);
    if (from >= 0) list.push(["link", `${topology.label(from)} → ${topology.label(to)}`]);
    if (columns.bytes[event]! > 0) list.push(["bytes", String(columns.bytes[event])]);
    if (Number.isFinite(columns.start[event]!)) {
      const waits = columns.start[event]! - columns.time[event]!;
      if (waits > 0) list.push(["waits in queue", formatSpan(waits)]);
      list.push(["travels", formatSpan(columns.arrival[event]! - columns.start[event]!)], ["arrives", formatTime(columns.arrival[event]!)]);
    }
    if (run.text(event)) list.push(["detail", run.text(event)]);
    const actions = h("div", { class: "row" },
      button("Node", "Select the node of this event", () => this.state.select({ kind: "node", node: run.nodeOf(event) })),
      message !== undefined && button(`Message ${message}`, "Select all events of this message", () => this.state.select({ kind: "message", message })),
      loss >= 0 && button("Follow this loss", "Step from the loss to the delivery (f)", () => this.state.follow(loss)));
    return [h("h2", {}, describe(run, event)), facts(list), actions];
  }

  private node(run: Run, node: number): HTMLElement[] {
    const { topology } = run;
    const info = topology.nodes[node];
    const members = this.state.pane?.picture.nodes[this.state.pane.picture.nodeOf[node] ?? -1]?.members ?? [node];
    const events = run.byNode.of(node);
    const until = countUntil(run, events, this.state.time);
    const status = run.missing.at(node, this.state.time);
    const machine = this.state.pane?.states.at(node, this.state.time);
    const counts = countEvents(run, events.subarray(0, until));
    const latest = [...events.subarray(Math.max(0, until - LATEST), until)].reverse();
    const list: [string, string][] = [["role", info?.role ?? "?"]];
    if (machine) list.push(["state", machine.name]);
    list.push(["missing", `${status.missing}${status.requested ? ", requested" : ""}`]);
    for (const [name, count] of counts) list.push([name.replaceAll("_", " "), count.toLocaleString("en")]);
    const parent = topology.parent[node]!;
    const losses = [...run.losses].filter((loss) => run.otherOf(loss) === node || run.nodeOf(loss) === node).slice(0, 30);
    return [
      h("h2", {}, members.length > 1 ? `Group of ${members.length} nodes; first: node ${topology.label(node)}` : `Node ${topology.label(node)}`),
      facts(list),
      h("div", { class: "row" },
        members.length > 1 && parent >= 0 && button("Open the group", "Draw its members one by one", () => this.state.pane && this.state.toggleGroup(this.state.pane, parent))),
      ...this.repairState(run, node),
      h("h3", {}, "Latest events"),
      h("ol", { class: "story" }, ...latest.map((event) => h("li", {}, this.eventButton(run, event, () => this.state.select({ kind: "event", event }))))),
      ...notes(run, events.subarray(0, until)),
      ...(losses.length > 0 ? [h("h3", {}, "Losses of this node"), h("ol", { class: "story" }, ...losses.map((loss) => h("li", {}, this.eventButton(run, loss, () => this.state.follow(loss)))))] : []),
    ];
  }

  /** Requests that a node has to answer or to forward. */
  private repairState(run: Run, node: number): HTMLElement[] {
    const { topology } = run;
    const list = pendingRequests(run, node, this.state.time);
    if (list.length === 0) return [];
    const rows = list.slice(0, 30).map(({ message, since, from }) => h("tr", {},
      h("td", {}, String(message)), h("td", {}, formatTime(since, run.usualFlight / 20)), h("td", {}, from.map((other) => topology.label(other)).join(", "))));
    return [h("h3", {}, "Repair state: open requests"), h("table", {}, h("tr", {}, h("th", {}, "message"), h("th", {}, "since"), h("th", {}, "asked by")), ...rows)];
  }

  private message(run: Run, message: number): HTMLElement[] {
    let [sent, repairs, requests, delivered, lost] = [0, 0, 0, 0, 0];
    const { columns, codes } = run;
    let last = NaN;
    let first = NaN;
    for (let event = 0; event < run.count; event += 1) {
      if (run.message(event) !== message) continue;
      const code = columns.event[event]!;
      if (code === codes.sent) [sent, first] = [sent + 1, columns.time[event]!];
      else if (code === codes.repair_sent) repairs += 1;
      else if (code === codes.requested) requests += 1;
      else if (code === codes.delivered) [delivered, last] = [delivered + 1, columns.time[event]!];
      else if (code === codes.frame_lost) lost += 1;
    }
    return [
      h("h2", {}, `Message ${message}`),
      facts([["first sent", formatTime(first)], ["transmissions", String(sent + repairs)], ["packets lost", String(lost)], ["requests", String(requests)],
        ["deliveries", String(delivered)], ["last delivery", formatTime(last)]]),
    ];
  }

  private eventButton(run: Run, event: number, onclick: () => void): HTMLButtonElement {
    const dot = h("span", { class: "dot", style: `background:${colourOf(run, event, this.state)}` });
    const time = h("span", { class: "time" }, formatTime(run.columns.time[event]!, run.usualFlight / 20));
    return h("button", { type: "button", onclick }, dot, time, h("span", {}, describe(run, event)));
  }
}

/** Colour of an event in lists. */
export function colourOf(run: Run, event: number, state: State): string {
  const { theme } = state;
  const code = run.columns.event[event]!;
  if (code === run.codes.frame_lost || code === run.codes.frame_discarded) return theme.lost;
  const kind = run.kindOf(event);
  if (code === run.codes.delivered) return theme.good;
  if (code === run.codes.requested || code === run.codes.loss_found) return theme.kinds.request;
  if (code === run.codes.repair_sent || code === run.codes.loss_repaired) return theme.kinds.repair;
  if (code === run.codes.sent || code === run.codes.continued) return theme.kinds.data;
  return kind ? theme.kinds[kind] : theme.muted;
}

function countUntil(run: Run, events: Uint32Array, time: number): number {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (run.columns.time[events[middle]!]! <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function countEvents(run: Run, events: Uint32Array): [string, number][] {
  const counts = new Map<number, number>();
  for (const event of events) counts.set(run.columns.event[event]!, (counts.get(run.columns.event[event]!) ?? 0) + 1);
  return [...counts].map(([code, count]) => [run.header.events[code]!, count]);
}

/** Last notes of a node: what its protocol tells of its state. */
function notes(run: Run, events: Uint32Array): HTMLElement[] {
  const latest: string[] = [];
  for (let at = events.length - 1; at >= 0 && latest.length < 5 && events.length - at < 5000; at -= 1) {
    if (run.columns.event[events[at]!] === run.codes.note) latest.push(run.text(events[at]!));
  }
  if (latest.length === 0) return [];
  return [h("h3", {}, "Notes of the protocol"), ...latest.map((text) => h("p", {}, text))];
}

export function facts(list: [string, string][]): HTMLElement {
  return h("dl", {}, ...list.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
