/**
 * Force-directed layout after Fruchterman and Reingold (1991), from a circular start, without randomness.
 *
 * Nodes repel each other and links attract their ends, while the largest step shrinks. The start places nodes in rings
 * by their distance from the source, so that few links cross.
 */
import type { Picture } from "./picture.ts";

/** Angle between consecutive nodes of a ring that fills evenly at any number. */
const GOLDEN_ANGLE = Math.PI * (3 - Math.sqrt(5));
const WORK = 12_000_000;

export function layoutForce(picture: Picture, root: number): void {
  const { nodes, links } = picture;
  const count = nodes.length;
  if (count === 0) return;
  const [x, y] = startInRings(picture, root);
  const distance = Math.sqrt(1 / count);
  const rounds = Math.max(30, Math.min(400, Math.floor(WORK / (count * count + 1))));
  const dx = new Float64Array(count);
  const dy = new Float64Array(count);
  for (let round = 0; round < rounds; round += 1) {
    dx.fill(0);
    dy.fill(0);
    for (let a = 0; a < count; a += 1) {
      for (let b = a + 1; b < count; b += 1) {
        const ax = x[a]! - x[b]!;
        const ay = y[a]! - y[b]!;
        const square = Math.max(ax * ax + ay * ay, 1e-6);
        const force = (distance * distance) / square;
        dx[a]! += ax * force;
        dy[a]! += ay * force;
        dx[b]! -= ax * force;
        dy[b]! -= ay * force;
      }
    }
    for (const { from, to } of links) {
      const ax = x[from]! - x[to]!;
      const ay = y[from]! - y[to]!;
      const force = Math.hypot(ax, ay) / distance;
      dx[from]! -= ax * force;
      dy[from]! -= ay * force;
      dx[to]! += ax * force;
      dy[to]! += ay * force;
    }
    const most = 0.1 * (1 - round / rounds) + 0.002;
    for (let at = 0; at < count; at += 1) {
      // A weak pull to the middle keeps parts that are not joined in sight.
      dx[at]! -= x[at]! * 0.3;
      dy[at]! -= y[at]! * 0.3;
      const length = Math.hypot(dx[at]!, dy[at]!) || 1;
      const step = Math.min(length, most) / length;
      x[at]! += dx[at]! * step;
      y[at]! += dy[at]! * step;
    }
  }
  fit(picture, x, y);
}

function startInRings(picture: Picture, root: number): [Float64Array, Float64Array] {
  const { nodes, links } = picture;
  const x = new Float64Array(nodes.length);
  const y = new Float64Array(nodes.length);
  const neighbours: number[][] = nodes.map(() => []);
  for (const { from, to } of links) {
    neighbours[from]!.push(to);
    neighbours[to]!.push(from);
  }
  const order = [root];
  const seen = new Set(order);
  for (let at = 0; at < order.length; at += 1) {
    for (const next of neighbours[order[at]!]!) {
      if (seen.has(next)) continue;
      seen.add(next);
      order.push(next);
    }
  }
  for (const at of nodes.keys()) if (!seen.has(at)) order.push(at);
  for (const [rank, node] of order.entries()) {
    const radius = 0.5 * Math.sqrt(rank / nodes.length);
    x[node] = radius * Math.cos(rank * GOLDEN_ANGLE);
    y[node] = radius * Math.sin(rank * GOLDEN_ANGLE);
  }
  return [x, y];
}

function fit(picture: Picture, x: Float64Array, y: Float64Array): void {
  const [left, right] = [Math.min(...x), Math.max(...x)];
  const [top, bottom] = [Math.min(...y), Math.max(...y)];
  for (const [at, node] of picture.nodes.entries()) {
    node.x = right > left ? (x[at]! - left) / (right - left) : 0.5;
    node.y = bottom > top ? (y[at]! - top) / (bottom - top) : 0.5;
  }
}
