/**
 * States of machines over time.
 *
 * A machine may have many instances, such as one for each missing message, and each of them has a state. The simulator
 * records all of them; a trace of a real session has events `state_changed` of one machine for each node. The state of a
 * node is the one that an instance has entered last and has not left.
 */
import { NONE16, type StateColumns } from "../schema/columns.ts";
import type { Run } from "./run.ts";
import { upperBound } from "./search.ts";

/** State at a time, with a number for its colour. */
export interface State {
  name: string;
  code: number;
}

/** States as indices of texts, at the times from which they hold; `NONE16` for none. */
interface Changes {
  times: number[];
  texts: number[];
}

export class States {
  private readonly ofNodes = new Map<number, Changes>();
  private readonly ofInstances = new Map<string, Changes>();
  private readonly codes = new Map<number, number>();

  constructor(private readonly run: Run) {
    const table = run.states ?? statesOf(run);
    const lasts = new Map<number, Last>();
    for (let at = 0; at < table.time.length; at += 1) {
      const node = run.topology.indexOf(table.node[at]!);
      const [time, text, machine, about] = [table.time[at]!, table.state[at]!, table.machine[at]!, table.about[at]!];
      if (text !== NONE16 && !this.codes.has(text)) this.codes.set(text, this.codes.size);
      push(this.ofInstances, key(node, this.text(machine), about), time, text);
      let last = lasts.get(node);
      if (!last) lasts.set(node, (last = new Last()));
      push(this.ofNodes, node, time, last.change(machine * NUMBERS + about, text));
    }
  }

  /** State of a node at a time. */
  at(node: number, time: number): State | undefined {
    return this.find(this.ofNodes.get(node), time);
  }

  /** Name of the state of a machine of a node: of the instance of a message if there is one, else of its only one. */
  of(node: number, machine: string, message: number | undefined, time: number): string | undefined {
    const about = message === undefined ? undefined : this.find(this.ofInstances.get(key(node, machine, message)), time);
    return (about ?? this.find(this.ofInstances.get(key(node, machine, 0)), time))?.name;
  }

  /** All states with their number. */
  get names(): State[] {
    return [...this.codes].map(([text, code]) => ({ name: this.text(text), code }));
  }

  private find(list: Changes | undefined, time: number): State | undefined {
    const change = list ? upperBound(list.times, time) - 1 : -1;
    const text = change < 0 ? NONE16 : list!.texts[change]!;
    return text === NONE16 ? undefined : { name: this.text(text), code: this.codes.get(text) ?? 0 };
  }

  private text(code: number): string {
    return this.run.header.strings[code] ?? "?";
  }
}

/** Factor that makes one number of a machine and an instance. */
const NUMBERS = 2 ** 32;

/** State that an instance of a node has entered last and has not left. */
class Last {
  private readonly states = new Map<number, { text: number; turn: number }>();
  /** Instances in the order in which they entered their states; those that have changed since are out of date. */
  private readonly order: { instance: number; turn: number }[] = [];
  private turn = 0;

  /** Notes a change and returns the state of the node. */
  change(instance: number, text: number): number {
    if (text === NONE16) this.states.delete(instance);
    else {
      this.states.set(instance, { text, turn: (this.turn += 1) });
      this.order.push({ instance, turn: this.turn });
    }
    for (;;) {
      const top = this.order.at(-1);
      if (!top) return NONE16;
      const state = this.states.get(top.instance);
      if (state?.turn === top.turn) return state.text;
      this.order.pop();
    }
  }
}

function key(node: number, machine: string, about: number): string {
  return `${node} ${about} ${machine}`;
}

/** Adds a change, unless it changes nothing. A later one of the same time replaces the one before. */
function push<K>(lists: Map<K, Changes>, of: K, time: number, text: number): void {
  let list = lists.get(of);
  if (!list) lists.set(of, (list = { times: [], texts: [] }));
  const last = list.times.length - 1;
  if (list.times[last] === time) list.texts[last] = text;
  else if (list.texts[last] !== text) {
    list.times.push(time);
    list.texts.push(text);
  }
}

/** Changes of states from the events of a trace. */
function statesOf({ columns, codes, count }: Run): StateColumns {
  const events: number[] = [];
  for (let at = 0; at < count && codes.state_changed >= 0; at += 1) if (columns.event[at] === codes.state_changed) events.push(at);
  return {
    time: Float64Array.from(events, (at) => columns.time[at]!),
    node: Uint32Array.from(events, (at) => columns.node[at]!),
    about: new Uint32Array(events.length),
    machine: new Uint16Array(events.length).fill(NONE16),
    state: Uint16Array.from(events, (at) => columns.text[at]!),
  };
}
