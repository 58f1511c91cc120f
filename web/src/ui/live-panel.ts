/** Panel of a live session: protocols, sliders, and the scenario. */
import type { Parameter, Protocol } from "../live/client.ts";
import { valueOf } from "../live/scenario.ts";
import { type LiveSession, MAX_PROTOCOLS } from "../live/session.ts";
import { h } from "./dom.ts";

/** Pause after the last key before the scenario runs, ms. */
const TYPING_PAUSE = 500;

export class LivePanel {
  readonly element = h("div");
  private readonly status = h("p", { class: "muted", role: "status" });
  private readonly error = h("div", { class: "error", hidden: true, role: "alert" });
  private readonly text = h("textarea", { class: "scenario", spellcheck: false, label: "Scenario", wrap: "off" });
  private readonly common = h("div");
  private readonly compare = h("div");
  private readonly parameters = h("div");
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly session: LiveSession) {
    this.text.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        session.state.scenario = this.text.value;
        session.state.set = {};
        this.rebuild();
        void session.run();
      }, TYPING_PAUSE);
    });
    this.element.append(this.status, this.error, this.compare, this.common, this.parameters,
      h("h3", {}, "Scenario"), this.text,
      h("p", { class: "muted" }, "Changes run at once. Keys are explained in the reference of scenario files."));
  }

  /** Shows the session after it was loaded from the gallery or a link. */
  load(): void {
    this.text.value = this.session.state.scenario;
    this.rebuild();
  }

  showRun(events: number): void {
    this.error.hidden = true;
    this.status.textContent = `Carillon ${this.session.client.version}, simulated in ${Math.round(this.session.runTime)} ms: ${events.toLocaleString("en")} events.`;
  }

  showError(message: string): void {
    this.error.textContent = message;
    this.error.hidden = false;
  }

  private rebuild(): void {
    const { session } = this;
    const { scenario } = session.state;
    const network = valueOf(scenario, "network", "kind") ?? "";
    const protocols = session.client.protocols.filter(({ networks }) => networks.length === 0 || networks.includes(network) || (network === "star" && networks.includes("graph")));
    this.compare.replaceChildren(h("h3", {}, `Protocols side by side, up to ${MAX_PROTOCOLS}`), this.choices(protocols));
    const receivers = valueOf(scenario, "group", "receivers");
    const loss = valueOf(scenario, "loss", "p");
    const messages = valueOf(scenario, "workload", "messages");
    this.common.replaceChildren(h("h3", {}, "Network and workload"), ...[
      receivers !== undefined && this.slider("group.receivers", "receivers", [1, 200], Number(receivers), "Receivers of each message"),
      loss !== undefined && this.lossSlider(loss),
      messages !== undefined && this.slider("workload.messages", "messages", [1, 500], Number(messages), "Messages that the sender offers"),
      this.seedField(),
    ].filter((element): element is HTMLElement => element !== false));
    this.rebuildParameters(protocols);
  }

  private choices(protocols: Protocol[]): HTMLElement {
    const { session } = this;
    return h("div", { class: "choices" }, ...protocols.map(({ name, title }) => {
      const box = h("input", { type: "checkbox", checked: session.protocols.includes(name) });
      box.addEventListener("change", () => {
        const others = session.protocols.filter((other) => other !== name);
        const chosen = box.checked ? [...others, name].slice(-MAX_PROTOCOLS) : others;
        session.state.protocols = chosen.length > 0 ? chosen : [name];
        this.rebuild();
        void session.run();
      });
      return h("label", { title, class: "row", style: "gap:3px" }, box, name);
    }));
  }

  private rebuildParameters(protocols: Protocol[]): void {
    const chosen = this.session.protocols.flatMap((name) => protocols.filter((protocol) => protocol.name === name));
    this.parameters.replaceChildren(...chosen.map((protocol) => h("details", { open: chosen.length === 1 },
      h("summary", { title: protocol.title }, h("strong", {}, `Parameters of ${protocol.name}`)),
      ...protocol.parameters.map((parameter) => this.parameter(protocol, parameter)))));
  }

  private parameter(protocol: Protocol, parameter: Parameter): HTMLElement {
    const key = `protocol.${protocol.name}.${parameter.name}`;
    const isScenarios = valueOf(this.session.state.scenario, "protocol", "name") === protocol.name;
    const written = isScenarios ? valueOf(this.session.state.scenario, "protocol", parameter.name) : undefined;
    const value = this.session.state.set[key] ?? written ?? parameter.default;
    const help = `${parameter.doc} (${parameter.values}; default ${parameter.default})`;
    if (parameter.type === "count" && parameter.range) return this.slider(key, parameter.name, parameter.range, Number(value), help);
    if (parameter.type === "probability") return this.slider(key, parameter.name, [0, 1], Number(value), help, 0.01);
    if (parameter.type === "choice" || parameter.type === "switch") {
      const words = parameter.choices ?? ["true", "false"];
      const select = h("select", { onchange: () => this.set(key, select.value) }, ...words.map((word) => h("option", { value: word, selected: word === value }, word)));
      return field(parameter.name, help, select);
    }
    const input = h("input", { type: "text", value });
    input.addEventListener("change", () => this.set(key, input.value));
    return field(parameter.name, help, input);
  }

  /** Slider of a whole number or a share. Wide ranges have a logarithmic scale. */
  private slider(key: string, name: string, [min, max]: [number, number], value: number, help: string, step = 1): HTMLElement {
    const isWide = step === 1 && max - min > 1000;
    const toSlider = (number: number): number => (isWide ? Math.log2(number - min + 1) : number);
    const fromSlider = (position: number): number => (isWide ? Math.round(2 ** position - 1 + min) : position);
    const current = Number(this.session.state.set[key] ?? value);
    const output = h("output", {}, String(current));
    const slider = h("input", { type: "range", min: String(toSlider(min)), max: String(toSlider(max)), step: isWide ? "0.05" : String(step), label: name, data: { key } });
    slider.value = String(toSlider(Math.min(Math.max(current, min), max)));
    slider.addEventListener("input", () => {
      const chosen = Math.min(max, Math.max(min, fromSlider(Number(slider.value))));
      output.textContent = String(chosen);
      this.set(key, String(chosen));
    });
    return h("div", { class: "slider", title: help }, h("label", {}, name), slider, output, h("small", {}, help));
  }

  private lossSlider(loss: string): HTMLElement {
    const share = loss.endsWith("%") ? Number(loss.slice(0, -1)) / 100 : Number(loss);
    return this.slider("loss.p", "loss", [0, 0.5], share, "Probability of loss on each link", 0.005);
  }

  private seedField(): HTMLElement {
    const { state } = this.session;
    const input = h("input", { type: "number", min: "0", value: String(state.seed ?? valueOf(state.scenario, "run", "seed") ?? 1) });
    input.addEventListener("input", () => {
      const seed = Number(input.value);
      if (!Number.isSafeInteger(seed) || seed < 0) return;
      state.seed = seed;
      void this.session.run();
    });
    return field("seed", "Seed of all random streams: another seed loses other packets", input);
  }

  private set(key: string, value: string): void {
    this.session.state.set[key] = value;
    void this.session.run();
  }
}

function field(name: string, help: string, input: HTMLElement): HTMLElement {
  input.style.gridColumn = "2 / 4";
  input.setAttribute("aria-label", name);
  return h("div", { class: "slider", title: help }, h("label", {}, name), input, h("small", {}, help));
}
