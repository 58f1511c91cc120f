/** Menu that opens below its button. */
import { button, h } from "./dom.ts";

export function menu(text: string, title: string, items: [string, () => void][]): HTMLElement {
  const list = h("div", { class: "items", hidden: true, role: "menu" }, ...items.map(([name, run]) => h("button", { type: "button", role: "menuitem", onclick: () => {
    list.hidden = true;
    run();
  } }, name)));
  const opener = button(text, title, () => {
    list.hidden = !list.hidden;
    if (!list.hidden) list.querySelector("button")?.focus();
  });
  opener.setAttribute("aria-haspopup", "menu");
  const element = h("div", { class: "menu" }, opener, list);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    list.hidden = true;
    opener.focus();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!element.contains(event.target as Node)) list.hidden = true;
  });
  return element;
}
