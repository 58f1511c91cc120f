/** Bus layout of a shared medium: stations above and below the cable, in two rows, the source first. */
import type { Picture } from "./picture.ts";

export function layoutBus(picture: Picture, source: number): void {
  const order = [...picture.nodes.keys()].sort((a, b) => Number(b === source) - Number(a === source) || a - b);
  const columns = Math.max(1, Math.ceil(order.length / 2));
  for (const [rank, at] of order.entries()) {
    const node = picture.nodes[at]!;
    const column = order.length <= 7 ? rank : rank >> 1;
    const wide = order.length <= 7 ? order.length : columns;
    node.x = wide === 1 ? 0.5 : (column + 0.5) / wide;
    node.y = rank % 2;
  }
}
