/** Stage: the network view of each run, side by side, with mouse and touch. */
import { upperBound } from "../model/search.ts";
import { type Scene, sceneAt } from "../model/scene.ts";
import { paintOn } from "../render/canvas-painter.ts";
import { type NetworkOptions, NetworkView } from "../render/network.ts";
import { Layer } from "../render/layer.ts";
import type { Painter } from "../render/painter.ts";
import { KINDS } from "../schema/header.ts";
import { h } from "./dom.ts";
import type { Pane, State } from "./state.ts";

interface PaneView {
  pane: Pane;
  canvas: HTMLCanvasElement;
  caption: HTMLElement;
  view: NetworkView | undefined;
  scene: Scene | undefined;
  /** Links and nodes at rest. */
  still: Layer;
  version: number;
  story: unknown;
}

export class Stage {
  readonly element = h("div", { class: "stage", label: "Network view", role: "group" });
  private views: PaneView[] = [];
  private stale = true;

  constructor(private readonly state: State) {
    state.onChange((change) => {
      if (change === "runs") this.rebuild();
      this.stale = true;
    });
    new ResizeObserver(() => (this.stale = true)).observe(this.element);
  }

  /** Draws if anything changed. */
  draw(): void {
    if (!this.stale) return;
    this.stale = false;
    for (const view of this.views) this.drawPane(view);
  }

  /** Paints the active run on any painter. */
  paint(painter: Painter): void {
    const { pane } = this.state;
    if (!pane) return;
    const view = new NetworkView(pane.picture, painter.width, painter.height, pane.camera);
    const options = this.options(pane);
    view.drawStill(painter, pane.run, options);
    view.drawScene(painter, pane.run, sceneAt(pane.run, pane.picture, this.state.time), options);
  }

  get canvas(): HTMLCanvasElement | undefined {
    return this.views[this.state.active]?.canvas;
  }

  private rebuild(): void {
    const { panes } = this.state;
    if (this.views.length === panes.length && this.views.every((view, at) => view.pane === panes[at])) {
      this.markActive();
      return;
    }
    this.views = panes.map((pane, at) => {
      const canvas = h("canvas", { class: "network", tabIndex: 0, label: `Network of ${pane.run.header.title}` });
      const caption = h("div", { class: "caption" });
      this.listen(canvas, pane, at);
      return { pane, canvas, caption, view: undefined, scene: undefined, still: new Layer(), version: 0, story: null };
    });
    this.element.replaceChildren(...this.views.map(({ canvas, caption }) => h("div", { class: "pane" }, canvas, caption)));
    this.element.dataset["panes"] = String(panes.length);
    this.markActive();
  }

  private markActive(): void {
    for (const [at, { canvas }] of this.views.entries()) canvas.parentElement!.classList.toggle("active", this.views.length > 1 && at === this.state.active);
  }

  private drawPane(entry: PaneView): void {
    const { pane, canvas } = entry;
    if (canvas.clientWidth === 0) return;
    const painter = paintOn(canvas, this.state.theme.background);
    const isKnown = entry.view?.picture === pane.picture && entry.view.width === painter.width && entry.view.height === painter.height && entry.view.camera === pane.camera;
    if (!isKnown) entry.view = new NetworkView(pane.picture, painter.width, painter.height, pane.camera, this.views.length > 1);
    entry.scene = sceneAt(pane.run, pane.picture, this.state.time);
    const options = this.options(pane);
    const story = options.path.size > 0 ? this.state.story : null;
    if (entry.story !== story || !isKnown) entry.version += 1;
    entry.story = story;
    entry.still.draw(painter, [entry.version, options.theme.background], (layer) => entry.view!.drawStill(layer, pane.run, options));
    entry.view!.drawScene(painter, pane.run, entry.scene, options);
    if (this.views.length > 1) entry.caption.textContent = captionOf(pane, this.state.time);
  }

  private options(pane: Pane): NetworkOptions {
    const isActive = pane === this.state.pane;
    return {
      theme: this.state.theme,
      camera: pane.camera,
      selection: isActive ? this.state.selection : null,
      path: new Set(isActive ? (this.state.story?.path ?? []) : []),
      stateOf: (node) => pane.states.at(node, this.state.time),
    };
  }

  private listen(canvas: HTMLCanvasElement, pane: Pane, at: number): void {
    let dragged = 0;
    canvas.addEventListener("pointerdown", (event) => {
      dragged = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons === 0) {
        canvas.style.cursor = this.hit(at, event) ? "pointer" : "default";
        return;
      }
      dragged += Math.abs(event.movementX) + Math.abs(event.movementY);
      if (dragged < 4) return;
      pane.camera = { ...pane.camera, x: pane.camera.x + event.movementX, y: pane.camera.y + event.movementY };
      this.stale = true;
    });
    canvas.addEventListener("click", (event) => {
      if (dragged >= 4) return;
      this.state.setActive(at);
      this.state.select(this.hit(at, event) ?? null);
    });
    canvas.addEventListener("dblclick", (event) => this.openGroup(at, event));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(pane, canvas, event);
    }, { passive: false });
  }

  private zoom(pane: Pane, canvas: HTMLCanvasElement, event: WheelEvent): void {
    const { camera } = pane;
    const zoom = Math.min(12, Math.max(0.5, camera.zoom * Math.exp(-event.deltaY / 500)));
    const [x, y] = [event.offsetX - canvas.clientWidth / 2, event.offsetY - canvas.clientHeight / 2];
    const factor = zoom / camera.zoom;
    pane.camera = { zoom, x: x - (x - camera.x) * factor, y: y - (y - camera.y) * factor };
    this.stale = true;
  }

  private hit(at: number, event: MouseEvent): State["selection"] {
    const { pane, view, scene } = this.views[at]!;
    if (!view || !scene) return null;
    const packet = view.packetAt(scene, event.offsetX, event.offsetY);
    const node = view.nodeAt(event.offsetX, event.offsetY);
    if (node >= 0) return { kind: "node", node: pane.picture.nodes[node]!.members[0]! };
    return packet ? { kind: "event", event: packet.event } : null;
  }

  private openGroup(at: number, event: MouseEvent): void {
    const { pane, view } = this.views[at]!;
    const node = view?.nodeAt(event.offsetX, event.offsetY) ?? -1;
    const first = pane.picture.nodes[node]?.members[0];
    if (first === undefined) return;
    const { topology } = pane.run;
    const parent = topology.network.links.length > 0 ? topology.parent[first]! : topology.source;
    if (parent >= 0) this.state.toggleGroup(pane, parent);
  }
}

/** Protocol of a pane, and the packets that it has sent. */
function captionOf(pane: Pane, time: number): string {
  const { run } = pane;
  const counts = KINDS.map((kind) => [kind, run.packetsUntil(kind, time)] as const).filter(([, count]) => count > 0);
  const missing = run.missing.total;
  const open = missing.values[upperBound(missing.times, time) - 1] ?? 0;
  const sent = counts.map(([kind, count]) => `${count.toLocaleString("en")} ${kind}`).join(" · ");
  return `${run.header.protocol || run.header.title}${time >= run.duration ? ", finished" : ""}\n${sent || "nothing sent yet"}${open > 0 ? `\n${open} missing` : ""}`;
}
