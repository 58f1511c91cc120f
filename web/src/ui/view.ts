/** View in the dock. */
import type { Painter } from "../render/painter.ts";

export interface View {
  readonly element: HTMLElement;
  /** Controls of the view beside its tab. */
  readonly controls: HTMLElement;
  /** Draws if anything changed since. Called for each frame while the view is in sight. */
  draw(): void;
  /** Paints the view on any painter, if it can be exported. */
  paint?(painter: Painter): void;
}
