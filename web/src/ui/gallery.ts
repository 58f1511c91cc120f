/** Gallery: scenarios that show one thing each. */
import items from "made:gallery";
import { h } from "./dom.ts";

export type GalleryItem = (typeof items)[number] & { start?: number };

export function galleryItems(): GalleryItem[] {
  return items;
}

export function galleryDialog(open: (item: GalleryItem) => void): HTMLDialogElement {
  const groups = [...new Set(items.map(({ group }) => group))];
  const dialog: HTMLDialogElement = h("dialog", { label: "Gallery", style: "width:920px" }, h("h2", {}, "Gallery"),
    ...groups.flatMap((group) => [
      h("h3", {}, group),
      h("div", { class: "gallery" }, ...items.filter((item) => item.group === group).map((item) => h("button", { type: "button", data: { item: item.file }, onclick: () => {
        dialog.close();
        open(item);
      } }, h("strong", {}, item.title), h("span", { class: "muted" }, item.text.join(" "))))),
    ]));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}
