/** Live session: a scenario with settings, run by the simulator for one or several protocols. */
import { Run } from "../model/run.ts";
import type { RunRequest, SimulatorClient } from "./client.ts";
import { valueOf, withoutProtocolSettings } from "./scenario.ts";

/** Everything that a permanent link holds. */
export interface LiveState {
  scenario: string;
  /** Settings beyond the scenario, by key. */
  set: Record<string, string>;
  seed: number | null;
  /** Protocols side by side; empty for the scenario's own. */
  protocols: string[];
  /** Text files that the scenario names. */
  files?: Record<string, string>;
}

export const MAX_PROTOCOLS = 4;
const MAX_EVENTS = 1_000_000;

export class LiveSession {
  state: LiveState = { scenario: "", set: {}, seed: null, protocols: [] };
  /** Time of the last run with all protocols, ms. */
  runTime = 0;
  private running = false;
  private again = false;

  constructor(readonly client: SimulatorClient, private readonly onRuns: (runs: Run[]) => void, private readonly onError: (message: string) => void) {}

  /** Protocols that run: the ones side by side, or the scenario's. */
  get protocols(): string[] {
    const own = valueOf(this.state.scenario, "protocol", "name");
    return this.state.protocols.length > 0 ? this.state.protocols : own === undefined ? [] : [own];
  }

  /** Runs everything. A call during a run leads to one more run with the latest settings. */
  async run(): Promise<void> {
    if (this.running) {
      this.again = true;
      return;
    }
    this.running = true;
    try {
      do {
        this.again = false;
        await this.runOnce();
      } while (this.again);
    } finally {
      this.running = false;
    }
  }

  /** Request for one protocol. */
  request(protocol: string): RunRequest {
    const own = valueOf(this.state.scenario, "protocol", "name");
    const isOwn = protocol === own;
    const set: Record<string, string> = isOwn ? {} : { "protocol.name": protocol };
    for (const [key, value] of Object.entries(this.state.set)) {
      const [section, name, parameter] = key.split(".");
      // A parameter belongs to one protocol.
      if (section === "protocol" && parameter !== undefined) {
        if (name === protocol) set[`protocol.${parameter}`] = value;
      } else set[key] = value;
    }
    return { scenario: isOwn ? this.state.scenario : withoutProtocolSettings(this.state.scenario), set, seed: this.state.seed, files: this.state.files ?? {}, max_events: MAX_EVENTS };
  }

  private async runOnce(): Promise<void> {
    const begin = performance.now();
    const runs: Run[] = [];
    try {
      for (const protocol of this.protocols) {
        const recording = await this.client.run(this.request(protocol));
        recording.header.protocol ||= protocol;
        runs.push(new Run(recording));
      }
      if (runs.length === 0) throw new Error("the scenario names no protocol");
      this.runTime = performance.now() - begin;
      if (!this.again) this.onRuns(runs);
    } catch (error) {
      if (!this.again) this.onError((error as Error).message);
    }
  }
}
