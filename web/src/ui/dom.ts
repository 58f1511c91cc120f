/** Elements of the page. */

type Child = Node | string | null | undefined | false;
type Properties<Tag extends keyof HTMLElementTagNameMap> = Partial<Omit<HTMLElementTagNameMap[Tag], "style" | "dataset">> & {
  class?: string;
  style?: string;
  data?: Record<string, string>;
  role?: string;
  label?: string;
};

/** Makes an element. `class`, `style`, `role`, `data` and `label` are attributes, everything else is set as a property. */
export function h<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, properties: Properties<Tag> = {}, ...children: Child[]): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  const { class: name, style, data, role, label, ...rest } = properties;
  if (name) element.className = name;
  if (style) element.setAttribute("style", style);
  if (role) element.setAttribute("role", role);
  if (label) element.setAttribute("aria-label", label);
  for (const [key, value] of Object.entries(data ?? {})) element.dataset[key] = value;
  Object.assign(element, rest);
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

/** Button with a text and an explanation. */
export function button(text: string, title: string, onclick: () => void, name = ""): HTMLButtonElement {
  return h("button", { type: "button", textContent: text, title, onclick, class: name, label: title });
}

/** Saves bytes as a file. */
export function download(name: string, blob: Blob): void {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
