/** Shapes of packets, which tell their kinds apart without colour. */
import type { PacketKind } from "../schema/header.ts";
import type { Painter, Stroke } from "./painter.ts";

/** Draws the sign of a kind: a square, a diamond, a triangle, a circle, or a bar. */
export function drawSign(painter: Painter, kind: PacketKind | undefined, x: number, y: number, size: number, colour: string, stroke?: Stroke, alpha = 1): void {
  const half = size / 2;
  if (kind === "data") {
    painter.rect(x - half, y - half, size, size, colour, stroke, alpha);
  } else if (kind === "repair") {
    const wide = half * 1.35;
    painter.polygon([x, y - wide, x + wide, y, x, y + wide, x - wide, y], colour, stroke, alpha);
  } else if (kind === "request") {
    painter.polygon([x, y - half * 1.15, x + half * 1.25, y + half, x - half * 1.25, y + half], colour, stroke, alpha);
  } else if (kind === "acknowledgment") {
    painter.circle(x, y, half * 1.05, colour, stroke, alpha);
  } else {
    painter.rect(x - half, y - half * 0.5, size, size * 0.5, colour, stroke, alpha);
  }
}
