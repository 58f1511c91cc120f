/** Legend of the network view. */
import { KIND_LABELS, type Theme, stateColour } from "../render/palette.ts";
import { drawSign } from "../render/shapes.ts";
import { SvgPainter } from "../render/svg-painter.ts";
import { KINDS } from "../schema/header.ts";
import { h } from "./dom.ts";
import type { State } from "./state.ts";

export class Legend {
  readonly element = h("div", { class: "legend", label: "Legend" });

  constructor(private readonly state: State) {
    state.onChange((change) => {
      if (change === "runs" || change === "view") this.rebuild();
    });
  }

  private rebuild(): void {
    const { run, pane, theme } = this.state;
    if (!run || !pane) {
      this.element.replaceChildren();
      return;
    }
    const used = new Set(run.header.packets.map(({ kind }) => kind));
    const items = KINDS.filter((kind) => used.has(kind)).map((kind) => item(KIND_LABELS[kind], (painter) => drawSign(painter, kind, 7, 7, 9, theme.kinds[kind])));
    if (run.losses.length > 0) {
      items.push(item("lost", (painter) => {
        painter.line([2, 2, 12, 12], { colour: theme.lost, width: 2 });
        painter.line([2, 12, 12, 2], { colour: theme.lost, width: 2 });
      }));
      items.push(item("missing messages", (painter) => painter.circle(7, 7, 5, theme.missing, { colour: theme.ink, width: 1 })));
      if (run.codes.requested >= 0) items.push(item("requested", (painter) => painter.circle(7, 7, 5, theme.missing, { colour: theme.requested, width: 2.5 })));
    }
    if (run.timers.exist) items.push(item("timer", (painter) => painter.arc(7, 7, 5, 0.7, { colour: theme.muted, width: 2.5 })));
    for (const { name, code } of pane.states.names.slice(0, 8)) items.push(item(name, (painter) => painter.circle(7, 7, 5, stateColour(code), { colour: theme.ink, width: 1 })));
    this.element.replaceChildren(...items);
  }
}

function item(label: string, draw: (painter: SvgPainter, theme?: Theme) => void): HTMLElement {
  const painter = new SvgPainter(14, 14, "none");
  draw(painter);
  const span = h("span");
  span.innerHTML = painter.document(label);
  span.append(label);
  return span;
}
