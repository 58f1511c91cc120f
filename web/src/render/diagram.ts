/** Drawing of a small state diagram. */
import type { Diagram, DiagramState } from "../model/diagram.ts";
import { OUTSIDE } from "../model/diagram.ts";
import type { Theme } from "./palette.ts";
import { SvgPainter } from "./svg-painter.ts";

const WIDTH = 310;
const ROW = 58;
const BOX = 24;

/** The diagram as SVG. `current` is highlighted. */
export function drawDiagram(diagram: Diagram, current: string | undefined, theme: Theme, title: string): string {
  const height = diagram.rows * ROW + 14;
  const painter = new SvgPainter(WIDTH, height, "none");
  const places = new Map(diagram.states.map((state) => [state.name, place(state, diagram)]));
  const drawn = new Set<string>();
  for (const { from, to } of diagram.transitions) {
    const key = `${from} ${to}`;
    if (from === OUTSIDE || to === OUTSIDE || from === to || drawn.has(key)) continue;
    drawn.add(key);
    arrow(painter, places.get(from)!, places.get(to)!, drawn.has(`${to} ${from}`) || diagram.transitions.some((other) => other.from === to && other.to === from), theme);
  }
  for (const { name } of diagram.states) {
    const [x, y, width] = places.get(name)!;
    const isCurrent = name === current;
    const selfLoop = diagram.transitions.some(({ from, to }) => from === name && to === name);
    if (selfLoop) painter.circle(x + width / 2, y - BOX / 2, 6, null, { colour: theme.muted });
    painter.rect(x - width / 2, y - BOX / 2, width, BOX, isCurrent ? theme.select : theme.panel, { colour: isCurrent ? theme.select : theme.muted, width: isCurrent ? 2 : 1 });
    painter.text(name, x, y, { colour: isCurrent ? theme.background : theme.ink, size: 11, align: "center", bold: isCurrent });
    if (diagram.transitions.some(({ from, to }) => from === OUTSIDE && to === name)) painter.circle(x - width / 2 - 7, y, 3.5, theme.ink);
    if (diagram.transitions.some(({ from, to }) => from === name && to === OUTSIDE)) {
      painter.circle(x + width / 2 + 8, y, 4.5, null, { colour: theme.ink });
      painter.circle(x + width / 2 + 8, y, 2.2, theme.ink);
    }
  }
  return painter.document(title).replace(/width="\d+" height="\d+" /, "");
}

function place(state: DiagramState, diagram: Diagram): [number, number, number] {
  const room = WIDTH / diagram.columns;
  const width = Math.min(room - 14, state.name.length * 6.6 + 16);
  return [state.x * room, state.y * ROW + ROW / 2 + 6, Math.max(width, 40)];
}

function arrow(painter: SvgPainter, from: [number, number, number], to: [number, number, number], isTwoWay: boolean, theme: Theme): void {
  const shift = isTwoWay ? 5 : 0;
  const isLevel = from[1] === to[1];
  const down = to[1] > from[1] ? 1 : -1;
  const right = to[0] > from[0] ? 1 : -1;
  const [startX, startY] = isLevel ? [from[0] + (right * from[2]) / 2, from[1] + shift * right] : [from[0] + shift * down, from[1] + (down * BOX) / 2];
  const [endX, endY] = isLevel ? [to[0] - (right * to[2]) / 2, to[1] + shift * right] : [to[0] + shift * down, to[1] - (down * BOX) / 2];
  painter.line([startX, startY, endX, endY], { colour: theme.muted });
  const angle = Math.atan2(endY - startY, endX - startX);
  const point = (side: number): number[] => [endX - 7 * Math.cos(angle + side), endY - 7 * Math.sin(angle + side)];
  painter.polygon([endX, endY, ...point(0.45), ...point(-0.45)], theme.muted);
}
