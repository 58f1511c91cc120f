/** Bookmarks: the place in a run as the fragment of the address. */
import { DOCK_VIEWS, type State } from "./state.ts";

/** Text of the fragment for time, selection, loss and views. */
export function writeHash(state: State): string {
  const parts = new URLSearchParams();
  parts.set("t", String(Math.round(state.time)));
  const { selection, story } = state;
  if (selection?.kind === "event") parts.set("e", String(selection.event));
  if (selection?.kind === "node") parts.set("n", String(selection.node));
  if (selection?.kind === "message") parts.set("m", String(selection.message));
  if (story) parts.set("loss", `${story.loss}.${story.receiver}`);
  parts.set("view", state.dock);
  if (state.measure > 0) parts.set("chart", String(state.measure));
  if (state.active > 0) parts.set("pane", String(state.active));
  return parts.toString();
}

/** Restores what a fragment tells. Numbers that do not fit the run are ignored. */
export function readHash(state: State, text: string): void {
  const parts = new URLSearchParams(text.replace(/^#/, ""));
  const { run } = state;
  if (!run) return;
  const number = (key: string, limit: number): number | undefined => {
    const value = parts.get(key);
    const parsed = Number(value);
    return value !== null && Number.isInteger(parsed) && parsed >= 0 && parsed < limit ? parsed : undefined;
  };
  const dock = DOCK_VIEWS.find((view) => view === parts.get("view"));
  if (dock) state.dock = dock;
  state.measure = number("chart", 8) ?? state.measure;
  const pane = number("pane", state.panes.length);
  if (pane !== undefined) state.setActive(pane);
  const [loss, receiver] = (parts.get("loss") ?? "").split(".").map(Number);
  if (loss !== undefined && run.columns.event[loss] === run.codes.frame_lost) state.follow(loss, receiver);
  const event = number("e", run.count);
  const node = number("n", run.topology.nodes.length);
  const message = number("m", 2 ** 32 - 1);
  if (event !== undefined) state.selection = { kind: "event", event };
  if (node !== undefined) state.selection = { kind: "node", node };
  if (message !== undefined) state.selection = { kind: "message", message };
  const time = Number(parts.get("t"));
  if (parts.has("t") && Number.isFinite(time)) state.seek(time);
  state.emit("view");
  state.emit("selection");
}
