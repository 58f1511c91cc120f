/** Star layout: the parent in the middle, its children around it from the top clockwise. */
import type { Picture } from "./picture.ts";

export function layoutStar(picture: Picture, parent: number): void {
  const children = [...picture.nodes.keys()].filter((at) => at !== parent);
  const centre = picture.nodes[parent];
  if (centre) [centre.x, centre.y] = [0.5, 0.5];
  for (const [rank, at] of children.entries()) {
    const angle = (2 * Math.PI * (rank + 0.5)) / children.length - Math.PI / 2;
    const node = picture.nodes[at]!;
    node.x = 0.5 + 0.5 * Math.cos(angle);
    node.y = 0.5 + 0.5 * Math.sin(angle);
  }
}
