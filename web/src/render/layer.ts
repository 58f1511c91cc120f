/** Layer of a canvas that is drawn once, while what is on top of it changes. */
import { CanvasPainter } from "./canvas-painter.ts";
import type { Painter } from "./painter.ts";

export class Layer {
  private canvas: HTMLCanvasElement | undefined;
  private key = "";

  /** Draws what `paint` draws, from a copy if `parts` are the same as in the last call. */
  draw(painter: Painter, parts: (string | number)[], paint: (painter: Painter) => void): void {
    if (!(painter instanceof CanvasPainter)) {
      paint(painter);
      return;
    }
    const { scale, width, height } = painter;
    const key = [scale, width, height, ...parts].join();
    if (key !== this.key || !this.canvas) {
      this.key = key;
      this.canvas ??= document.createElement("canvas");
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      const context = this.canvas.getContext("2d")!;
      context.setTransform(scale, 0, 0, scale, 0, 0);
      paint(new CanvasPainter(context, width, height, scale));
    }
    painter.copy(this.canvas);
  }
}
