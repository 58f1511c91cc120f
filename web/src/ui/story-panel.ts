/** Panel that follows a loss step by step, with the state of the receiver. */
import diagrams from "made:diagrams";
import { layoutDiagram, readDiagram } from "../model/diagram.ts";
import type { Stage, Story } from "../model/story.ts";
import { formatSpan, formatTime } from "../model/time.ts";
import { drawDiagram } from "../render/diagram.ts";
import { button, h } from "./dom.ts";
import type { State } from "./state.ts";

/** States of one loss at its receiver, for every protocol. */
const RECOVERY = layoutDiagram(readDiagram(`
  [*] --> Missing
  Missing --> Requested
  Requested --> Repairing
  Missing --> Repairing
  Repairing --> Received
  Received --> Delivered
  Delivered --> [*]`));

const STATE_OF_STAGE: Record<Stage, string> = {
  lost: "Missing", found: "Missing", requested: "Requested", repair: "Repairing", received: "Received", delivered: "Delivered", abandoned: "Missing",
};

export class StoryPanel {
  readonly element = h("div");
  private shown: Story | null = null;
  private step = -1;

  constructor(private readonly state: State) {
    state.onChange((change) => {
      if (state.side !== "loss") return;
      const step = this.currentStep();
      if (change === "time" && this.shown === state.story && step === this.step) return;
      this.update();
    });
  }

  /** Moves to the next or the previous step. */
  move(direction: number): void {
    const at = this.currentStep() + direction;
    this.state.step(Math.min(Math.max(at, 0), (this.state.story?.steps.length ?? 1) - 1));
  }

  /** Number of the last step that has happened; of several at one time the selected one. */
  private currentStep(): number {
    const { story, time, selection } = this.state;
    if (!story) return -1;
    const selected = selection?.kind === "event" ? story.steps.findIndex((step) => step.event === selection.event) : -1;
    if (selected >= 0 && story.steps[selected]!.time === time) return selected;
    let last = -1;
    for (const [at, step] of story.steps.entries()) if (step.time <= time) last = at;
    return last;
  }

  private update(): void {
    const { story, run } = this.state;
    this.shown = story;
    this.step = this.currentStep();
    if (!run) return;
    if (!story) {
      this.element.replaceChildren(h("p", { class: "muted" }, run.losses.length > 0 ? "Select a loss and follow it, or begin with the first one." : "The network lost nothing in this run."),
        ...(run.losses.length > 0 ? [button("Follow the first loss", "Step from the first loss to the delivery (f)", () => this.state.follow(run.losses[0]!))] : []));
      return;
    }
    const begin = story.steps[0]!.time;
    const end = story.steps.at(-1)!;
    const receiver = run.topology.label(story.receiver);
    const done = end.stage === "delivered" ? `Delivered after ${formatSpan(end.time - begin)}.` : end.stage === "abandoned" ? "The receiver abandons it." : "Not delivered within this recording.";
    const choose = h("select", { label: "Receiver", onchange: () => this.state.follow(story.loss, Number(choose.value)) },
      ...story.receivers.map((node) => h("option", { value: String(node), selected: node === story.receiver }, `node ${run.topology.label(node)}`)));
    const losses = [...run.losses];
    const number = losses.indexOf(story.loss);
    const steps = story.steps.map((step, at) => {
      const item = h("button", { type: "button", onclick: () => this.state.step(at) },
        h("span", { class: "dot", data: { stage: step.stage } }),
        h("span", { class: "time" }, at === 0 ? formatTime(begin, run.usualFlight / 20) : `+${formatSpan(Math.max(0, step.time - begin))}`),
        h("span", {}, step.text));
      if (at === this.step) item.setAttribute("aria-current", "step");
      return h("li", {}, item);
    });
    this.element.replaceChildren(
      h("h2", {}, `Loss ${number + 1} of ${losses.length}: message ${story.message ?? "unknown"} at node ${receiver}`),
      h("p", {}, done),
      h("div", { class: "row" },
        button("◀ Step", "Previous step ([)", () => this.move(-1)),
        button("Step ▶", "Next step (])", () => this.move(1)),
        story.receivers.length > 1 && choose,
        button("Previous loss", "Follow the loss before", () => this.state.follow(losses[Math.max(0, number - 1)]!)),
        button("Next loss", "Follow the next loss", () => this.state.follow(losses[Math.min(losses.length - 1, number + 1)]!))),
      h("ol", { class: "story" }, ...steps),
      h("h3", {}, "Recovery of this message"),
      this.diagram(RECOVERY, this.step >= 0 ? STATE_OF_STAGE[story.steps[this.step]!.stage] : undefined, "Recovery"),
      ...this.protocolDiagrams(story.receiver, story.message));
    this.element.querySelector('[aria-current="step"]')?.scrollIntoView({ block: "nearest" });
  }

  private protocolDiagrams(receiver: number, message: number | undefined): HTMLElement[] {
    const { run, pane, time } = this.state;
    const list = diagrams[run?.header.protocol ?? ""] ?? [];
    return list.slice(0, 3).flatMap(({ title, diagram }) => {
      const drawn = layoutDiagram(readDiagram(diagram));
      const node = title.startsWith("sender") || title.startsWith("source") ? (run?.topology.source ?? receiver) : receiver;
      const current = pane?.states.of(node, title, message, time) ?? pane?.states.at(node, time)?.name;
      const state = drawn.states.find(({ name }) => name.toLowerCase() === current?.toLowerCase().replaceAll(/[_ ]/g, ""))?.name;
      return [h("h3", {}, `States of ${run!.header.protocol}${title ? `: ${title}` : ""}`), this.diagram(drawn, state, title)];
    });
  }

  private diagram(diagram: Parameters<typeof drawDiagram>[0], current: string | undefined, title: string): HTMLElement {
    const frame = h("div");
    frame.innerHTML = drawDiagram(diagram, current, this.state.theme, title);
    frame.firstElementChild!.setAttribute("class", "diagram");
    return frame;
  }
}
