/** Transport: play, pause, steps, speed, loop, and the time. */
import type { Run } from "../model/run.ts";
import { formatSpan, formatTime } from "../model/time.ts";
import { button, h } from "./dom.ts";
import type { State } from "./state.ts";
import { Timeline } from "./timeline.ts";

/** Range of the speed slider around the usual speed, in powers of two. */
const SPEED_RANGE = 8;
/** Time between two updates of the clock while it runs, ms. */
const UPDATE_INTERVAL = 80;

export class Transport {
  readonly timeline: Timeline;
  readonly element: HTMLElement;
  private readonly playButton = button("▶", "Play (space)", () => this.state.play(!this.state.playing), "play");
  private readonly clock = h("output", { class: "clock" });
  private readonly speed = h("input", { type: "range", min: String(-SPEED_RANGE), max: String(SPEED_RANGE), step: "0.25", value: "0", label: "Speed", title: "Speed" });
  private readonly speedText = h("output", { class: "speed-text" });
  private usual = 1;
  private updated = 0;

  constructor(private readonly state: State) {
    this.timeline = new Timeline(state);
    const loop = toggle("⟳", "Repeat from the begin at the end (l)", () => state.loop, (on) => (state.loop = on));
    const quiet = toggle("⇥", "Pass quiet times quickly (q)", () => state.skipQuiet, (on) => (state.skipQuiet = on));
    this.speed.addEventListener("input", () => this.setSpeed(Number(this.speed.value)));
    this.element = h("footer", { class: "transport" },
      h("div", { class: "buttons" },
        button("|◀", "To the begin (Home)", () => state.seek(0)),
        button("◀|", "Previous event (,)", () => stepEvent(state, -1)),
        this.playButton,
        button("▶|", "Next event (.)", () => stepEvent(state, 1), "small"),
        button("▶▶|", "Next packet (n)", () => stepPacket(state, 1), "small"),
        loop, quiet),
      this.clock,
      h("label", { class: "speed" }, this.speed, this.speedText),
      this.timeline.element);
    state.onChange((change) => {
      if (change === "runs") {
        this.usual = state.run ? state.run.usualFlight / 1.2 : 1;
        this.speed.value = String(Math.log2(state.speed / this.usual));
        this.showSpeed();
      }
      if (change === "time") this.updateClock();
      else this.update();
    });
    this.update();
  }

  /** Multiplies the speed. */
  changeSpeed(steps: number): void {
    this.speed.value = String(Number(this.speed.value) + steps);
    this.setSpeed(Number(this.speed.value));
  }

  private setSpeed(power: number): void {
    this.state.speed = this.usual * 2 ** power;
    this.showSpeed();
  }

  private showSpeed(): void {
    this.speedText.textContent = `${formatSpan(this.state.speed)} per s`;
  }

  private updateClock(): void {
    const { state } = this;
    if (state.playing && performance.now() - this.updated < UPDATE_INTERVAL) return;
    this.updated = performance.now();
    const step = Math.min(state.run?.usualFlight ?? 1e6, state.duration / 100) / 20;
    const text = `${formatTime(state.time, step)} / ${formatTime(state.duration, state.duration / 100)}`;
    if (this.clock.textContent !== text) this.clock.textContent = text;
  }

  private update(): void {
    const { state } = this;
    this.updated = 0;
    this.updateClock();
    this.timeline.announce();
    this.playButton.textContent = state.playing ? "❚❚" : "▶";
    this.playButton.title = state.playing ? "Pause (space)" : "Play (space)";
    this.playButton.setAttribute("aria-pressed", String(state.playing));
  }
}

function toggle(text: string, title: string, get: () => boolean, set: (on: boolean) => void): HTMLButtonElement {
  const element = button(text, title, () => {
    set(!get());
    element.setAttribute("aria-pressed", String(get()));
  }, "toggle");
  element.setAttribute("aria-pressed", String(get()));
  return element;
}

/** Moves to the time of the next or the previous event. */
export function stepEvent(state: State, direction: 1 | -1): void {
  const { run } = state;
  if (!run) return;
  state.play(false);
  const at = direction > 0 ? run.countUntil(state.time) : run.firstAt(state.time) - 1;
  if (at < 0 || at >= run.count) return;
  state.selection = { kind: "event", event: at };
  state.seek(run.columns.time[at]!);
  state.emit("selection");
}

/** Moves to the next or the previous packet that leaves, and selects it. */
export function stepPacket(state: State, direction: 1 | -1): void {
  stepTo(state, direction, (run, event) => run.isFrame(event));
}

/** Moves to the next or the previous round: a transmission or a repair of a message begins. */
export function stepRound(state: State, direction: 1 | -1): void {
  stepTo(state, direction, ({ codes, columns }, event) => columns.event[event] === codes.sent || columns.event[event] === codes.repair_sent);
}

function stepTo(state: State, direction: 1 | -1, isWanted: (run: Run, event: number) => boolean): void {
  const { run } = state;
  if (!run) return;
  state.play(false);
  let at = direction > 0 ? run.countUntil(state.time) : run.firstAt(state.time) - 1;
  while (at >= 0 && at < run.count && !isWanted(run, at)) at += direction;
  if (at < 0 || at >= run.count) return;
  state.selection = { kind: "event", event: at };
  state.seek(run.columns.time[at]!);
  state.emit("selection");
}
