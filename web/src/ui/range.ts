/** Part of the time axis that a plot shows, changed with wheel and drag. */
import type { State } from "./state.ts";

export class Range {
  from = 0;
  to = 1;
  private runs: unknown;

  constructor(private readonly state: State, element: HTMLElement, left: () => [number, number], changed: () => void) {
    state.onChange((change) => {
      if (change === "runs" && this.runs !== state.run) this.reset();
    });
    element.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [begin, end] = left();
      const place = (event.offsetX - begin) / (end - begin);
      const centre = this.from + (this.to - this.from) * place;
      const factor = Math.exp(event.deltaY / 400);
      this.set(centre - (centre - this.from) * factor, centre + (this.to - centre) * factor);
      changed();
    }, { passive: false });
    element.addEventListener("pointermove", (event) => {
      if (event.buttons !== 1) return;
      const [begin, end] = left();
      const shift = (-event.movementX / (end - begin)) * (this.to - this.from);
      this.set(this.from + shift, this.to + shift);
      changed();
    });
    element.addEventListener("dblclick", () => {
      this.reset();
      changed();
    });
  }

  private set(from: number, to: number): void {
    const least = 1000;
    const wide = Math.max(least, Math.min(to - from, this.state.duration));
    this.from = Math.min(Math.max(from, 0), this.state.duration - wide);
    this.to = this.from + wide;
  }

  private reset(): void {
    this.runs = this.state.run;
    this.from = 0;
    this.to = this.state.duration;
  }
}
