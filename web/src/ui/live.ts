/** Live mode of the page: starts the simulator, and connects it with the gallery and the panel. */
import { SimulatorClient } from "../live/client.ts";
import { packState, unpackState } from "../live/link.ts";
import { LiveSession, type LiveState } from "../live/session.ts";
import type { Run } from "../model/run.ts";
import { simulatorBytes } from "./data.ts";
import { h } from "./dom.ts";
import { type GalleryItem, galleryItems } from "./gallery.ts";
import { LivePanel } from "./live-panel.ts";
import type { State } from "./state.ts";

const NO_SIMULATOR = "This page has no simulator inside, so it shows recordings only. `make page` builds a page with the simulator where the target wasm32-unknown-unknown is installed.";

export class Live {
  readonly element = h("div", {}, h("p", { class: "muted" }, "The simulator is starting…"));
  /** Fragment of a permanent link; empty without a live session. */
  link = "";
  session: LiveSession | undefined;
  private panel: LivePanel | undefined;
  private item: GalleryItem | undefined;
  /** True until the first run of a newly loaded scenario. */
  private isNew = false;
  private shown: Run[] = [];
  private start: number | undefined;

  constructor(private readonly state: State, private readonly onItem: (item: GalleryItem | undefined) => void, private readonly say: (text: string) => void) {}

  /** Starts the simulator. Returns false if the page has none. */
  async begin(): Promise<boolean> {
    try {
      const wasm = await simulatorBytes();
      if (!wasm) throw new Error(NO_SIMULATOR);
      const client = await SimulatorClient.start(wasm);
      this.session = new LiveSession(client, (runs) => this.show(runs), (message) => this.panel?.showError(message));
      this.panel = new LivePanel(this.session);
      this.element.replaceChildren(this.panel.element);
      return true;
    } catch (error) {
      this.element.replaceChildren(h("p", { class: "muted" }, (error as Error).message));
      return false;
    }
  }

  /** Runs a scenario of the gallery from the place that it shows. */
  async openItem(item: GalleryItem): Promise<void> {
    if (!this.session) {
      this.say(NO_SIMULATOR);
      return;
    }
    this.item = item;
    this.start = item.start;
    await this.load({ scenario: item.scenario, set: {}, seed: null, protocols: item.protocols ?? [] });
  }

  /** Runs a scenario, and resolves when it is on the screen or has failed. */
  async load(state: LiveState): Promise<void> {
    const { session } = this;
    if (!session) return;
    session.state = state;
    this.isNew = true;
    this.panel?.load();
    if (!this.item || this.item.scenario !== state.scenario) this.item = undefined;
    await session.run();
  }

  /** Shows a scenario in the panel without running it: its recording is on the screen. */
  prepare(run: Run): void {
    const { scenario, seed, files } = run.header;
    if (!this.session || scenario === null) return;
    this.session.state = { scenario, set: {}, seed, protocols: [], ...(files ? { files } : {}) };
    this.panel?.load();
  }

  /** True if a run is of this session. */
  shows(run: Run | undefined): boolean {
    return run !== undefined && this.shown.includes(run);
  }

  async loadLink(packed: string): Promise<void> {
    try {
      const state = await unpackState(packed);
      this.item = galleryItems().find(({ scenario }) => scenario === state.scenario);
      this.start = undefined;
      await this.load(state);
    } catch (error) {
      this.say(`Cannot open the link: ${(error as Error).message}`);
    }
  }

  private show(runs: Run[]): void {
    const { state, session } = this;
    this.shown = runs;
    this.state.show(runs, !this.isNew);
    if (this.isNew) {
      this.onItem(this.item);
      if (this.start !== undefined) state.seek(this.start * 1e9);
    }
    this.isNew = false;
    this.start = undefined;
    this.panel?.showRun(runs.reduce((sum, run) => sum + run.count, 0));
    if (session) void packState(session.state).then((link) => (this.link = link));
  }
}
