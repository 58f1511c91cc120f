/** Clock of the animation. */
import type { State } from "./state.ts";

/** Time that a quiet time takes at most, s. */
const QUIET_SECONDS = 0.35;
/** Longest step of the clock, s: after a pause of the browser the animation goes on where it was. */
const MAX_STEP = 0.1;

export class Player {
  private last: number | undefined;
  /** Times between frames, ms, since `measure` was called. */
  frameTimes: number[] | undefined;

  constructor(private readonly state: State, private readonly draw: () => void) {
    requestAnimationFrame((now) => this.frame(now));
  }

  private frame(now: number): void {
    const begin = performance.now();
    if (this.state.playing) {
      const elapsed = Math.min((now - (this.last ?? now)) / 1000, MAX_STEP);
      if (this.frameTimes && this.last !== undefined) this.frameTimes.push(now - this.last);
      this.advance(elapsed);
      this.last = now;
    } else {
      this.last = undefined;
    }
    this.draw();
    this.workTimes?.push(performance.now() - begin);
    requestAnimationFrame((next) => this.frame(next));
  }

  /** Times that drawing took, ms, if measured. */
  workTimes: number[] | undefined;

  private advance(elapsed: number): void {
    const { state } = this;
    let time = state.time + elapsed * state.speed;
    if (state.skipQuiet) time = this.skip(state.time, time, elapsed);
    if (time >= state.duration) {
      if (state.loop) time = 0;
      else {
        state.seek(state.duration);
        state.play(false);
        return;
      }
    }
    state.seek(time);
  }

  /** Passes a quiet time in a third of a second. */
  private skip(from: number, to: number, elapsed: number): number {
    let next = this.state.duration;
    for (const { run } of this.state.panes) {
      let busy = false;
      run.frames.visit(from, from, () => {
        busy = true;
        return false;
      });
      const first = run.countUntil(from);
      if (busy || (first > 0 && from - run.columns.time[first - 1]! < run.usualFlight * 0.4)) return to;
      if (first < run.count) next = Math.min(next, run.columns.time[first]!);
    }
    const quiet = next - from;
    if (quiet < this.state.speed * QUIET_SECONDS) return to;
    if (this.quietFrom === undefined || this.quietFrom > from || next !== this.quietNext) {
      this.quietFrom = from;
      this.quietNext = next;
    }
    const step = ((next - this.quietFrom) / QUIET_SECONDS) * elapsed;
    return Math.min(next, from + Math.max(step, elapsed * this.state.speed));
  }

  private quietFrom: number | undefined;
  private quietNext: number | undefined;
}
