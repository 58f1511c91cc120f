/** Painter on a canvas. */
import { FONT, MONO, type Painter, type Stroke, type TextStyle } from "./painter.ts";

export class CanvasPainter implements Painter {
  constructor(private readonly context: CanvasRenderingContext2D, readonly width: number, readonly height: number, readonly scale = 1) {}

  /** Draws another canvas over the whole surface. */
  copy(canvas: HTMLCanvasElement): void {
    this.context.drawImage(canvas, 0, 0, this.width, this.height);
  }

  line(points: number[], stroke: Stroke): void {
    this.trace(points);
    this.stroke(stroke);
  }

  segments(points: number[], stroke: Stroke): void {
    if (points.length === 0) return;
    this.context.beginPath();
    for (let at = 0; at < points.length; at += 4) {
      this.context.moveTo(points[at]!, points[at + 1]!);
      this.context.lineTo(points[at + 2]!, points[at + 3]!);
    }
    this.stroke(stroke);
  }

  polygon(points: number[], fill: string | null, stroke?: Stroke, alpha = 1): void {
    this.trace(points);
    this.context.closePath();
    this.finish(fill, stroke, alpha);
  }

  rect(x: number, y: number, width: number, height: number, fill: string | null, stroke?: Stroke, alpha = 1): void {
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.finish(fill, stroke, alpha);
  }

  circle(x: number, y: number, radius: number, fill: string | null, stroke?: Stroke, alpha = 1): void {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.finish(fill, stroke, alpha);
  }

  arc(x: number, y: number, radius: number, turns: number, stroke: Stroke): void {
    this.context.beginPath();
    this.context.arc(x, y, radius, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * turns);
    this.stroke(stroke);
  }

  text(text: string, x: number, y: number, style: TextStyle): void {
    const { context } = this;
    context.globalAlpha = style.alpha ?? 1;
    context.font = `${style.bold ? "600 " : ""}${style.size ?? 12}px ${style.mono ? MONO : FONT}`;
    context.textAlign = style.align ?? "left";
    context.textBaseline = "middle";
    context.fillStyle = style.colour;
    context.fillText(text, x, y);
    context.globalAlpha = 1;
  }

  private trace(points: number[]): void {
    this.context.beginPath();
    this.context.moveTo(points[0]!, points[1]!);
    for (let at = 2; at < points.length; at += 2) this.context.lineTo(points[at]!, points[at + 1]!);
  }

  private finish(fill: string | null, stroke: Stroke | undefined, alpha: number): void {
    if (fill !== null) {
      this.context.globalAlpha = alpha;
      this.context.fillStyle = fill;
      this.context.fill();
      this.context.globalAlpha = 1;
    }
    if (stroke) this.stroke(stroke);
  }

  private stroke({ colour, width = 1, dash, alpha = 1 }: Stroke): void {
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash ?? []);
    context.stroke();
    context.globalAlpha = 1;
  }
}

/** Gives a canvas the size of its element on the screen, and returns a painter on an empty surface. */
export function paintOn(canvas: HTMLCanvasElement, background: string): CanvasPainter {
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d", { alpha: false })!;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = background;
  context.fillRect(0, 0, width, height);
  return new CanvasPainter(context, width, height, scale);
}
