/** States of machines, where the recording has events `state_changed`. */
import type { Run } from "./run.ts";
import { upperBound } from "./search.ts";

export class States {
  private readonly changes = new Map<number, { times: number[]; texts: number[] }>();
  private readonly codes = new Map<number, number>();

  constructor(private readonly run: Run) {
    const { columns, codes } = run;
    if (codes.state_changed < 0) return;
    for (let at = 0; at < run.count; at += 1) {
      if (columns.event[at] !== codes.state_changed) continue;
      const node = run.nodeOf(at);
      let list = this.changes.get(node);
      if (!list) this.changes.set(node, (list = { times: [], texts: [] }));
      list.times.push(columns.time[at]!);
      list.texts.push(columns.text[at]!);
      if (!this.codes.has(columns.text[at]!)) this.codes.set(columns.text[at]!, this.codes.size);
    }
  }

  /** State of a node at a time. */
  at(node: number, time: number): { name: string; code: number } | undefined {
    const list = this.changes.get(node);
    const change = list ? upperBound(list.times, time) - 1 : -1;
    if (!list || change < 0) return undefined;
    const text = list.texts[change]!;
    return { name: this.run.header.strings[text] ?? "?", code: this.codes.get(text) ?? 0 };
  }

  /** All states with their number. */
  get names(): { name: string; code: number }[] {
    return [...this.codes].map(([text, code]) => ({ name: this.run.header.strings[text] ?? "?", code }));
  }
}
