/** State of the page, and the notification of its changes. */
import { type Picture } from "../layout/picture.ts";
import { layout } from "../layout/layout.ts";
import type { Run } from "../model/run.ts";
import type { Selection } from "../model/selection.ts";
import { States } from "../model/states.ts";
import { type Story, followLoss } from "../model/story.ts";
import { DARK, LIGHT, type Theme } from "../render/palette.ts";
import type { Camera } from "../render/network.ts";

/** A run with its picture. */
export interface Pane {
  run: Run;
  states: States;
  picture: Picture;
  camera: Camera;
  /** Parents whose leaves are drawn one by one. */
  open: Set<number>;
}

export type DockView = "sequence" | "plot" | "chart" | "events";
export const DOCK_VIEWS: DockView[] = ["sequence", "plot", "chart", "events"];
export type SideView = "details" | "loss" | "metrics" | "scenario";

/** Kind of a change: what listeners have to draw again. */
export type Change = "runs" | "time" | "selection" | "view" | "playing";

export class State {
  panes: Pane[] = [];
  /** Number of the pane that the other views show. */
  active = 0;
  time = 0;
  playing = false;
  loop = false;
  /** Quiet times pass quickly. */
  skipQuiet = true;
  /** Simulated nanoseconds per real second. */
  speed = 1e8;
  selection: Selection | null = null;
  story: Story | null = null;
  dock: DockView = "sequence";
  side: SideView = "details";
  measure = 0;
  theme: Theme = LIGHT;
  private readonly listeners: ((change: Change) => void)[] = [];

  onChange(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }

  emit(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }

  get pane(): Pane | undefined {
    return this.panes[this.active];
  }

  get run(): Run | undefined {
    return this.pane?.run;
  }

  /** Duration of the longest run, ns. */
  get duration(): number {
    return Math.max(1, ...this.panes.map(({ run }) => run.duration));
  }

  /** Shows runs from their begin. */
  show(runs: Run[], keepTime = false): void {
    this.panes = runs.map((run) => ({ run, states: new States(run), picture: layout(run.topology), camera: { zoom: 1, x: 0, y: 0 }, open: new Set() }));
    this.active = 0;
    this.selection = null;
    this.story = null;
    const first = runs[0];
    if (!keepTime) {
      this.time = 0;
      this.playing = false;
      if (this.side === "loss") this.side = "details";
      if (first) this.speed = usualSpeed(first);
    }
    this.time = Math.min(this.time, this.duration);
    this.emit("runs");
  }

  seek(time: number): void {
    this.time = Math.min(Math.max(time, 0), this.duration);
    this.emit("time");
  }

  select(selection: Selection | null): void {
    this.selection = selection;
    this.emit("selection");
  }

  play(playing: boolean): void {
    if (playing && this.time >= this.duration) this.time = 0;
    this.playing = playing;
    this.emit("playing");
  }

  setActive(pane: number): void {
    if (pane === this.active || !this.panes[pane]) return;
    this.active = pane;
    this.selection = null;
    this.story = null;
    this.emit("runs");
  }

  /** Follows a loss and moves to its first step. */
  follow(loss: number, receiver?: number): void {
    const { run } = this;
    if (!run) return;
    this.story = followLoss(run, loss, receiver);
    this.selection = { kind: "event", event: loss };
    this.side = "loss";
    this.playing = false;
    this.seek(this.story.steps[0]!.time);
    this.emit("selection");
    this.emit("view");
    this.emit("playing");
  }

  /** Moves to a step of the story. */
  step(at: number): void {
    const step = this.story?.steps[at];
    if (!step) return;
    this.selection = { kind: "event", event: step.event };
    this.seek(step.time);
    this.emit("selection");
  }

  /** Draws the members of a group one by one, or together again. */
  toggleGroup(pane: Pane, parent: number): void {
    if (pane.open.has(parent)) pane.open.delete(parent);
    else pane.open.add(parent);
    pane.picture = layout(pane.run.topology, pane.open);
    this.emit("view");
  }

  setTheme(dark: boolean): void {
    this.theme = dark ? DARK : LIGHT;
    document.documentElement.dataset["theme"] = dark ? "dark" : "light";
    this.emit("view");
  }
}

/** Speed at which a usual flight takes 1.2 s. */
function usualSpeed(run: Run): number {
  return run.usualFlight / 1.2;
}
