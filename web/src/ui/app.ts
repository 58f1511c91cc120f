/** The page: header, stage, side panel, dock and transport. */
import type { Run } from "../model/run.ts";
import { formatSpan } from "../model/time.ts";
import { pageData } from "./data.ts";
import { Dock } from "./dock.ts";
import { button, h } from "./dom.ts";
import { exportAnimation, exportPng, exportSvg } from "./export.ts";
import { readHash, writeHash } from "./hash.ts";
import { type Shortcut, helpDialog, listenToKeys } from "./keyboard.ts";
import { type GalleryItem, galleryDialog, galleryItems } from "./gallery.ts";
import { Legend } from "./legend.ts";
import { Live } from "./live.ts";
import { menu } from "./menu.ts";
import { fromBase64, inflate, runOf } from "./open.ts";
import { Player } from "./player.ts";
import { Side } from "./side.ts";
import { Stage } from "./stage.ts";
import { DOCK_VIEWS, State } from "./state.ts";
import { StoryPanel } from "./story-panel.ts";
import { Transport, stepEvent, stepPacket, stepRound } from "./transport.ts";

export class App {
  readonly state = new State();
  readonly stage = new Stage(this.state);
  readonly dock = new Dock(this.state);
  readonly player: Player;
  /** Time that opening the last file took, ms. */
  openTime = 0;
  private readonly transport = new Transport(this.state);
  private readonly story = new StoryPanel(this.state);
  private readonly title = h("span", { class: "title" });
  private readonly facts = h("span", { class: "facts" });
  private readonly toast = h("div", { class: "toast", role: "status" });
  private readonly note = h("div", { class: "note", hidden: true });
  private readonly welcome = h("div", { class: "welcome" });
  private readonly help: HTMLDialogElement;
  private readonly gallery: HTMLDialogElement;
  readonly live: Live;
  private toastTimer: ReturnType<typeof setTimeout> | undefined;
  private bookmarkTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly root: HTMLElement) {
    const { state } = this;
    const shortcuts = this.shortcuts();
    this.help = helpDialog(shortcuts);
    this.live = new Live(state, (item) => this.explain(item), (text) => this.say(text));
    this.gallery = galleryDialog((item) => void this.openItem(item));
    const file = h("input", { type: "file", accept: ".carr,.jsonl,.json", style: "display:none", onchange: () => {
      if (file.files?.[0]) void this.openFile(file.files[0]);
      file.value = "";
    } });
    const header = h("header", { class: "head" },
      h("span", { class: "brand" }, "Carillon"), this.title, this.facts,
      button("Gallery", "Runs that show one thing each (g)", () => this.gallery.showModal()),
      button("Open…", "Open a recording (.carr) or a trace (.jsonl)", () => file.click()),
      menu("Export", "Export a picture or an animation", [
        ["Network as PNG", () => exportPng(state, this.stage, 1280, 800)],
        ["Network as SVG", () => exportSvg(state, this.stage, 1280, 800)],
        ["View below as PNG", () => exportPng(state, this.dock.current, 1280, 480)],
        ["View below as SVG", () => exportSvg(state, this.dock.current, 1280, 480)],
        ["Animation (8 seconds)", () => void this.animate()],
      ]),
      button("Link", "Copy a link to this time, selection and view", () => void this.copyLink()),
      button("◐", "Dark or light", () => state.setTheme(document.documentElement.dataset["theme"] !== "dark")),
      button("?", "Keys and mouse (?)", () => this.help.showModal()), file);
    const legend = new Legend(state);
    const frame = h("main", { class: "frame" }, this.note, this.stage.element, legend.element, this.welcome);
    const side = new Side(state, this.story, this.live.element);
    root.append(header, frame, side.element, this.dock.element, this.transport.element, this.help, this.gallery, this.toast);
    listenToKeys(shortcuts);
    this.listenToFiles();
    window.addEventListener("hashchange", () => readHash(state, location.hash));
    window.addEventListener("error", (event) => this.say(`Error: ${event.message}`));
    state.onChange((change) => {
      if (change === "runs") this.describe();
      if (!state.playing && change !== "playing") this.bookmarkSoon();
    });
    this.player = new Player(state, () => this.draw());
    if (matchMedia("(prefers-color-scheme: dark)").matches) state.setTheme(true);
    this.describe();
  }

  /** Shows what the page contains: a recording, a scenario, a permanent link, or the first run of the gallery. */
  start(): Promise<void> {
    this.started = this.startOnce();
    return this.started;
  }

  private async startOnce(): Promise<void> {
    const hash = location.hash;
    const data = this.pageData();
    try {
      if (data?.recording) {
        const begin = performance.now();
        this.show([runOf(await inflate(fromBase64(data.recording)), data.view?.title ?? "recording")]);
        this.openTime = performance.now() - begin;
        readHash(this.state, hash.length > 1 ? hash : (data.view?.hash ?? ""));
      }
    } catch (error) {
      this.say(`Cannot show the recording: ${(error as Error).message}`);
    }
    if (await this.live.begin()) await this.startLive(hash, data);
    this.ready = true;
  }

  private started: Promise<void> = Promise.resolve();
  /** True when everything that the page contains is on the screen. */
  ready = false;

  private pageData(): ReturnType<typeof pageData> {
    try {
      return pageData();
    } catch (error) {
      this.say(`The data in this page are damaged: ${(error as Error).message}`);
      return undefined;
    }
  }

  private async startLive(hash: string, data: ReturnType<typeof pageData>): Promise<void> {
    const packed = new URLSearchParams(hash.slice(1)).get("s");
    const wanted = new URLSearchParams(hash.slice(1)).get("g");
    const first = galleryItems().find(({ file }) => file === wanted) ?? galleryItems()[0];
    if (packed) {
      await this.live.loadLink(packed);
      readHash(this.state, hash);
    } else if (this.state.run) {
      this.live.prepare(this.state.run);
    } else if (data?.scenario) {
      await this.live.load({ scenario: data.scenario, set: {}, seed: null, protocols: [] });
      readHash(this.state, hash.length > 1 ? hash : (data.view?.hash ?? ""));
    } else if (first) {
      await this.live.openItem(first);
      readHash(this.state, hash);
    }
  }

  private async openItem(item: GalleryItem): Promise<void> {
    await this.live.openItem(item);
    this.state.play(true);
  }

  /** Shows the text of a run of the gallery. */
  private explain(item: GalleryItem | undefined): void {
    this.note.hidden = item === undefined;
    if (!item) return;
    this.note.replaceChildren(h("strong", {}, item.title), h("span", {}, item.text.join(" ")), button("×", "Close", () => (this.note.hidden = true)));
  }

  /** Shows runs side by side. */
  show(runs: Run[]): void {
    this.note.hidden = true;
    this.state.show(runs);
    if (runs[0]) this.live.prepare(runs[0]);
  }

  async openFile(file: File): Promise<void> {
    // A file that is opened at once must not be replaced by the run that the page begins with.
    await this.started;
    try {
      const begin = performance.now();
      const bytes = new Uint8Array(await file.arrayBuffer());
      this.show([runOf(bytes, file.name)]);
      this.openTime = performance.now() - begin;
    } catch (error) {
      this.say(`Cannot open ${file.name}: ${(error as Error).message}`);
    }
  }

  /** Message that disappears. */
  say(text: string): void {
    this.toast.textContent = text;
    clearTimeout(this.toastTimer);
    this.toastTimer = setTimeout(() => (this.toast.textContent = ""), 6000);
  }

  private draw(): void {
    this.stage.draw();
    this.dock.draw();
    this.transport.timeline.draw();
  }

  private describe(): void {
    const { run, panes } = this.state;
    this.welcome.hidden = run !== undefined;
    if (!run) {
      this.welcome.replaceChildren(h("h2", {}, "Watch a reliable multicast run"), h("p", { class: "muted" }, "Drop a recording (.carr) or a trace (.jsonl) here, or open one."));
      this.title.textContent = this.facts.textContent = "";
      return;
    }
    const { header } = run;
    this.title.textContent = panes.length > 1 ? panes.map((pane) => pane.run.header.protocol).join(" · ") : header.title;
    const seed = header.seed === null ? "" : ` · seed ${header.seed}`;
    this.facts.textContent = `${header.protocol ? `${header.protocol} · ` : ""}${header.network.nodes.length} nodes · ${run.count.toLocaleString("en")} events · ${formatSpan(run.duration)}${seed}${header.truncated ? " · cut" : ""}`;
    document.title = `${header.title} – Carillon`;
  }

  private async animate(): Promise<void> {
    const { canvas } = this.stage;
    if (!canvas) return;
    this.say("Recording the animation…");
    try {
      const blob = await exportAnimation(this.state, canvas);
      this.say(`The animation has ${Math.round(blob.size / 1024)} KiB.`);
    } catch (error) {
      this.say(`Cannot export: ${(error as Error).message}`);
    }
  }

  private async copyLink(): Promise<void> {
    location.hash = this.fragment();
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("The link is in the clipboard.");
    } catch {
      this.say("The link is in the address line.");
    }
  }

  /** Fragment of the address: the place in the run and, in a live session, scenario and seed. */
  private fragment(): string {
    const isLive = this.live.link !== "" && this.live.shows(this.state.run);
    return writeHash(this.state) + (isLive ? `&s=${this.live.link}` : "");
  }

  /** Keeps the address up to date, without a new entry in the history. */
  private bookmarkSoon(): void {
    clearTimeout(this.bookmarkTimer);
    if (!this.state.run) return;
    this.bookmarkTimer = setTimeout(() => {
      const hash = `#${this.fragment()}`;
      try {
        if (hash !== location.hash) history.replaceState(null, "", hash);
      } catch {
        // Some browsers refuse this for files; the link button still works.
      }
    }, 400);
  }

  private listenToFiles(): void {
    this.root.addEventListener("dragover", (event) => {
      event.preventDefault();
      this.root.classList.add("dropping");
    });
    this.root.addEventListener("dragleave", () => this.root.classList.remove("dropping"));
    this.root.addEventListener("drop", (event) => {
      event.preventDefault();
      this.root.classList.remove("dropping");
      const file = event.dataTransfer?.files[0];
      if (file) void this.openFile(file);
    });
  }

  private shortcuts(): Shortcut[] {
    const { state } = this;
    const nudge = (direction: number) => () => state.seek(state.time + direction * state.speed * 0.25);
    const view = (at: number) => () => this.dock.show(DOCK_VIEWS[at]!);
    return [
      { label: "space", help: "play or pause", actions: { " ": () => state.play(!state.playing), k: () => state.play(!state.playing) } },
      { label: "← →", help: "a little back or forward", actions: { ArrowLeft: nudge(-1), ArrowRight: nudge(1) } },
      { label: ", .", help: "previous or next event", actions: { ",": () => stepEvent(state, -1), ".": () => stepEvent(state, 1) } },
      { label: "p n", help: "previous or next packet", actions: { p: () => stepPacket(state, -1), n: () => stepPacket(state, 1) } },
      { label: "R r", help: "previous or next round: a transmission or a repair begins", actions: { R: () => stepRound(state, -1), r: () => stepRound(state, 1) } },
      { label: "Home End", help: "begin or end of the run", actions: { Home: () => state.seek(0), End: () => state.seek(state.duration) } },
      { label: "+ −", help: "faster or slower", actions: { "+": () => this.transport.changeSpeed(1), "-": () => this.transport.changeSpeed(-1) } },
      { label: "l", help: "repeat at the end", actions: { l: () => this.press("Repeat") } },
      { label: "q", help: "pass quiet times quickly", actions: { q: () => this.press("Pass quiet") } },
      { label: "f", help: "follow the selected loss, or the next one", actions: { f: () => this.followNext() } },
      { label: "[ ]", help: "previous or next step of the loss", actions: { "[": () => this.story.move(-1), "]": () => this.story.move(1) } },
      { label: "1 2 3 4", help: "sequence diagram, sequence plot, chart, events", actions: { 1: view(0), 2: view(1), 3: view(2), 4: view(3) } },
      { label: "g", help: "the gallery", actions: { g: () => this.gallery.showModal() } },
      { label: "0", help: "show the whole network", actions: { 0: () => this.resetCamera() } },
      { label: "Esc", help: "clear the selection", actions: { Escape: () => this.clear() } },
      { label: "?", help: "this help", actions: { "?": () => this.help.showModal() } },
    ];
  }

  private press(title: string): void {
    this.root.querySelector<HTMLButtonElement>(`button[title^="${title}"]`)?.click();
  }

  private followNext(): void {
    const { state } = this;
    const { run, selection } = state;
    if (!run || run.losses.length === 0) return;
    const event = selection?.kind === "event" ? selection.event : -1;
    const loss = event < 0 ? -1 : run.columns.event[event] === run.codes.frame_lost ? event : run.lossOf[event]! - 1;
    if (loss >= 0 && loss !== state.story?.loss) state.follow(loss);
    else state.follow(run.losses.find((next) => run.columns.time[next]! >= state.time && next !== state.story?.loss) ?? run.losses[0]!);
  }

  private resetCamera(): void {
    for (const pane of this.state.panes) pane.camera = { zoom: 1, x: 0, y: 0 };
    this.state.emit("view");
  }

  private clear(): void {
    this.state.story = null;
    this.state.side = "details";
    this.state.select(null);
    this.state.emit("view");
  }
}
