/** State diagrams in the language of the documents (Mermaid's `stateDiagram-v2`), and their layout. */

export interface Transition {
  from: string;
  to: string;
  label: string;
}

export interface DiagramState {
  name: string;
  x: number;
  y: number;
}

export interface Diagram {
  states: DiagramState[];
  transitions: Transition[];
  columns: number;
  rows: number;
}

/** Begin and end of a machine. */
export const OUTSIDE = "[*]";

/** Reads the transitions of a diagram. Lines of another form are ignored. */
export function readDiagram(text: string): Transition[] {
  const transitions: Transition[] = [];
  for (const line of text.split("\n")) {
    const match = /^\s*(\[\*\]|\w+)\s*-->\s*(\[\*\]|\w+)\s*(?::\s*(.*))?$/.exec(line);
    if (match) transitions.push({ from: match[1]!, to: match[2]!, label: match[3] ?? "" });
  }
  return transitions;
}

/** Places states in columns by their distance from the begin, in the order in which the diagram names them. */
export function layoutDiagram(transitions: Transition[]): Diagram {
  const names = [...new Set(transitions.flatMap(({ from, to }) => [from, to]))].filter((name) => name !== OUTSIDE);
  const level = new Map<string, number>();
  const queue = [...new Set(transitions.filter(({ from }) => from === OUTSIDE).map(({ to }) => to))];
  const begins = queue.length > 0 ? queue : names.slice(0, 1);
  for (const name of begins) level.set(name, 0);
  for (const name of begins) {
    for (const { from, to } of transitions) {
      if (from !== name || to === OUTSIDE || level.has(to)) continue;
      level.set(to, level.get(name)! + 1);
      begins.push(to);
    }
  }
  for (const name of names) if (!level.has(name)) level.set(name, 0);
  const rows: string[][] = [];
  for (const name of names) (rows[level.get(name)!] ??= []).push(name);
  const columns = Math.max(1, ...rows.map((row) => row?.length ?? 0));
  const states = rows.flatMap((row, y) => (row ?? []).map((name, at) => ({ name, x: (at + 0.5) * (columns / row.length), y })));
  return { states, transitions, columns, rows: Math.max(1, rows.length) };
}
