/** Painter: the few shapes that the views draw, on a canvas or as SVG. */

export interface Stroke {
  colour: string;
  width?: number;
  dash?: number[];
  alpha?: number;
}

export interface TextStyle {
  colour: string;
  size?: number;
  align?: "left" | "center" | "right";
  bold?: boolean;
  alpha?: number;
  mono?: boolean;
}

export interface Painter {
  readonly width: number;
  readonly height: number;
  line(points: number[], stroke: Stroke): void;
  /** Lines that are not joined: x, y of both ends of each, in one stroke. */
  segments(points: number[], stroke: Stroke): void;
  /** Closed shape of points x, y, x, y, … */
  polygon(points: number[], fill: string | null, stroke?: Stroke, alpha?: number): void;
  rect(x: number, y: number, width: number, height: number, fill: string | null, stroke?: Stroke, alpha?: number): void;
  circle(x: number, y: number, radius: number, fill: string | null, stroke?: Stroke, alpha?: number): void;
  /** Part of a circle from the top clockwise, in turns. */
  arc(x: number, y: number, radius: number, turns: number, stroke: Stroke): void;
  text(text: string, x: number, y: number, style: TextStyle): void;
}

export const FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif";
export const MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";
