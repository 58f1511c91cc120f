/** Keys, and the help that lists them. */
import { button, h } from "./dom.ts";

export interface Shortcut {
  /** Keys as the help shows them, separated by spaces. */
  label: string;
  help: string;
  /** Action of each key. */
  actions: Record<string, () => void>;
}

/** Calls the action of a key, unless a field has the focus. */
export function listenToKeys(shortcuts: Shortcut[]): void {
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isField = target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || (target instanceof HTMLInputElement && target.type !== "checkbox" && target.type !== "range");
    if (isField || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === " " && target instanceof HTMLButtonElement) return;
    if (event.key.startsWith("Arrow") && target instanceof HTMLInputElement) return;
    const action = shortcuts.map(({ actions }) => actions[event.key]).find((found) => found !== undefined);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

export function helpDialog(shortcuts: Shortcut[]): HTMLDialogElement {
  const rows = shortcuts.map(({ label, help }) => h("tr", {}, h("td", {}, ...label.split(" ").flatMap((key) => [h("kbd", {}, key), " "])), h("td", {}, help)));
  const dialog: HTMLDialogElement = h("dialog", { label: "Help" },
    h("h2", {}, "Keys and mouse"),
    h("table", {}, ...rows,
      h("tr", {}, h("td", {}, "wheel, drag"), h("td", {}, "zoom and move the network or a plot; in the sequence diagram, move in time")),
      h("tr", {}, h("td", {}, "double click"), h("td", {}, "open a group of nodes; in a plot, show the whole run")),
      h("tr", {}, h("td", {}, "drop a file"), h("td", {}, "open a recording (.carr) or a trace (.jsonl)"))),
    h("p", { class: "muted", style: "margin-top:12px" }, "Everything happens in this page. It loads nothing, and sends nothing."),
    h("div", { class: "row", style: "justify-content:flex-end" }, button("Close", "Close the help", () => dialog.close())));
  return dialog;
}
