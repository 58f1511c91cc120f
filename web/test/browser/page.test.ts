/** The page in a browser, from disk and without a network: what a reader does, and how each view looks. */
import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { writeRecording } from "../../src/schema/recording.ts";
import { lanRun, starRun, treeRun } from "../data/generate.ts";
import { HAS_SIMULATOR, type Opened, PAGE, WEB, launch, open, pageWith, settle } from "./chromium.ts";
import { comparePicture } from "./pictures.ts";

const TREE = treeRun({ fanout: [2, 2, 3], messages: 30, loss: 0.04, interval: 60e6 });
let browser: Browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

/** Opens a page, tries something, and checks that nothing was loaded from elsewhere and nothing failed. */
async function tried(file: string, act: (opened: Opened) => Promise<void>, hash = ""): Promise<void> {
  const opened = await open(browser, file, hash);
  try {
    await act(opened);
    assert.deepEqual(opened.requests.filter((url) => !url.startsWith(`file://${file}`)), [], "the page loads nothing else");
    assert.deepEqual(opened.errors, []);
  } finally {
    await opened.context.close();
  }
}

const tree = pageWith("tree", TREE);

test("the page has less than 3 MB", () => {
  assert.ok(statSync(PAGE).size < 3e6, `${statSync(PAGE).size} bytes`);
  const html = readFileSync(PAGE, "utf8");
  assert.equal(html.split("<!-- carillon-data -->").length, 2);
  assert.doesNotMatch(html, /(src|href)="https?:/);
});

test("a recording plays, pauses, and is sought in", () => tried(tree, async ({ page }) => {
  const time = (): Promise<number> => page.evaluate(() => window.carillon.state.time);
  assert.equal(await time(), 0);
  await page.keyboard.press(" ");
  await page.waitForFunction(() => window.carillon.state.time > 5e6);
  await page.keyboard.press(" ");
  const paused = await time();
  await settle(page);
  assert.equal(await time(), paused);
  const box = (await page.locator(".timeline").boundingBox())!;
  await page.mouse.click(box.x + box.width / 2, box.y + 10);
  const half = await page.evaluate(() => window.carillon.state.time / window.carillon.state.duration);
  assert.ok(Math.abs(half - 0.5) < 0.02, String(half));
  await page.keyboard.press("End");
  assert.equal(await time(), await page.evaluate(() => window.carillon.state.duration));
  await page.keyboard.press("Home");
  await page.keyboard.press(".");
  await page.keyboard.press("n");
  assert.ok((await page.evaluate(() => window.carillon.state.selection))?.kind === "event");
}));

test("quiet times pass quickly, and a run repeats when told", () => tried(tree, async ({ page }) => {
  await page.evaluate(() => {
    const { state } = window.carillon;
    state.loop = true;
    state.speed = 1e9;
    state.seek(state.duration * 0.98);
    state.play(true);
  });
  await page.waitForFunction(() => window.carillon.state.time < window.carillon.state.duration * 0.9);
  assert.ok(await page.evaluate(() => window.carillon.state.playing));
}));

test("a loss is followed to the delivery, and all views mark it", () => tried(tree, async ({ page }) => {
  await page.keyboard.press("f");
  const steps = page.locator(".story [aria-current], .story button .dot[data-stage]");
  assert.ok((await steps.count()) >= 5);
  assert.match(await page.locator(".side .content").innerText(), /Delivered after/);
  assert.ok(await page.locator(".diagram").count() >= 2, "the states of the protocol are drawn");
  const last = await page.evaluate(() => window.carillon.state.story!.steps.length);
  for (let step = 1; step < last; step += 1) await page.keyboard.press("]");
  const { time, end, node, receiver } = await page.evaluate(() => {
    const { state } = window.carillon;
    const event = state.selection?.kind === "event" ? state.selection.event : -1;
    return { time: state.time, end: state.story!.steps.at(-1)!.time, node: state.run!.nodeOf(event), receiver: state.story!.receiver };
  });
  assert.equal(time, end);
  assert.equal(node, receiver);
  await page.keyboard.press("4");
  await settle(page);
  assert.match(await page.locator(".events .line.selected").innerText(), /deliver/);
}));

test("a node is selected with the mouse, and its details are shown", () => tried(tree, async ({ page }) => {
  await page.evaluate(() => window.carillon.state.seek(window.carillon.state.duration));
  const place = await page.evaluate(() => {
    const canvas = document.querySelector<HTMLCanvasElement>("canvas.network")!;
    const box = canvas.getBoundingClientRect();
    return { x: box.x + box.width / 2, y: box.y + 44 };
  });
  await page.mouse.click(place.x, place.y);
  assert.match(await page.locator(".side .content h2").innerText(), /Node 0/);
}));

test("the table filters, and scrolls to the end", () => tried(tree, async ({ page }) => {
  await page.keyboard.press("4");
  await page.locator(".dock select").first().selectOption("loss_repaired");
  await settle(page);
  const names = await page.locator(".events .line:not(.header) > span:nth-child(2)").allInnerTexts();
  assert.ok(names.length > 0 && names.every((name) => name.trim() === "loss repaired"), names.join());
  await page.locator(".events").evaluate((element) => (element.scrollTop = element.scrollHeight));
  await settle(page);
  const last = await page.evaluate(() => {
    const { run } = window.carillon.state;
    return [...run!.columns.event.keys()].filter((event) => run!.columns.event[event] === run!.codes.loss_repaired).length;
  });
  assert.match(await page.locator(".dock .tabs .muted").innerText(), new RegExp(`^${last} events`));
}));

test("a bookmark restores time, selection and view", async () => {
  let hash = "";
  await tried(tree, async ({ page }) => {
    await page.keyboard.press("f");
    await page.keyboard.press("]");
    await page.keyboard.press("2");
    await page.getByRole("button", { name: "Copy a link" }).click();
    hash = await page.evaluate(() => location.hash);
  });
  assert.ok(hash.length > 5);
  await tried(tree, async ({ page }) => {
    const state = await page.evaluate(() => ({ dock: window.carillon.state.dock, loss: window.carillon.state.story?.loss, time: window.carillon.state.time }));
    assert.equal(state.dock, "plot");
    assert.ok(state.loss !== undefined && state.time > 0);
  }, hash);
});

test("files are opened: recordings, JSON traces, and anything else with a message", () => tried(PAGE, async ({ page }) => {
  const folder = join(WEB, "dist/test");
  writeFileSync(join(folder, "star.carr"), writeRecording(starRun(12, 6)));
  await page.setInputFiles("input[type=file]", join(folder, "star.carr"));
  await page.waitForFunction(() => window.carillon.state.run?.header.title.startsWith("star"));
  writeFileSync(join(folder, "run.jsonl"), '{"time_ns":5,"node":0,"event":"offered","message":0,"since_ns":0}\n');
  await page.setInputFiles("input[type=file]", join(folder, "run.jsonl"));
  await page.waitForFunction(() => window.carillon.state.run?.header.title === "run.jsonl");
  writeFileSync(join(folder, "wrong.jsonl"), "PK\u0003\u0004 nothing");
  await page.setInputFiles("input[type=file]", join(folder, "wrong.jsonl"));
  await page.waitForFunction(() => document.querySelector(".toast")!.textContent!.includes("line 1 is not JSON"));
}));

test("exports: SVG, PNG and an animation", () => tried(tree, async ({ page }) => {
  await page.evaluate(() => window.carillon.state.seek(20e6));
  const save = async (item: string): Promise<Buffer> => {
    await page.getByRole("button", { name: "Export a picture" }).click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: item }).click()]);
    return readFileSync(await download.path());
  };
  const svg = (await save("Network as SVG")).toString();
  assert.match(svg, /^<svg xmlns/);
  assert.ok(svg.includes("<circle") && !svg.includes("NaN"));
  assert.ok((await save("View below as SVG")).toString().includes("<polyline"));
  assert.deepEqual([...(await save("Network as PNG")).subarray(1, 4)], [..."PNG"].map((letter) => letter.charCodeAt(0)));
  await page.evaluate(() => {
    const { state } = window.carillon;
    state.speed = state.duration / 2;
    state.skipQuiet = false;
  });
  const film = await save("Animation (8 seconds)");
  assert.ok(film.length > 1000 && film.readUInt32BE(0) === 0x1a45dfa3, "the animation is WebM");
}));

test("every control has a name, and the help opens with a key", () => tried(tree, async ({ page }) => {
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("button, select, input, textarea, canvas")]
    .filter((element) => element instanceof HTMLElement && element.offsetParent !== null)
    .filter((element) => !(element.getAttribute("aria-label") || element.textContent?.trim() || element.closest("label")?.textContent?.trim() || element.getAttribute("placeholder")))
    .map((element) => element.outerHTML.slice(0, 90)));
  assert.deepEqual(unnamed, []);
  await page.keyboard.press("?");
  assert.ok(await page.getByRole("dialog", { name: "Help" }).isVisible());
}));

const views: [string, string, () => void][] = [
  ["view-tree", tree, () => window.carillon.state.seek(4.25e8)],
  ["view-loss", tree, () => {
    const { state } = window.carillon;
    const loss = [...state.run!.losses].find((candidate) => state.run!.columns.link[candidate] === 2 * (state.run!.header.network.links.length - 1)) ?? state.run!.losses[1]!;
    state.follow(loss);
    state.step(3);
  }],
  ["view-plot", tree, () => {
    window.carillon.dock.show("plot");
    window.carillon.state.seek(9e8);
  }],
  ["view-chart", tree, () => {
    window.carillon.dock.show("chart");
    window.carillon.state.side = "metrics";
    window.carillon.state.seek(9e8);
    window.carillon.state.emit("view");
  }],
  ["view-events", tree, () => {
    window.carillon.dock.show("events");
    window.carillon.state.select({ kind: "node", node: 4 });
    window.carillon.state.seek(9e8);
  }],
  ["view-ethernet", pageWith("lan", lanRun(7, 12)), () => window.carillon.state.seek(8.35e5)],
  ["view-star", pageWith("star", starRun(24, 8)), () => window.carillon.state.seek(62e6)],
  ["view-large", pageWith("large", treeRun({ fanout: [4, 6, 40], messages: 6, loss: 0.01, interval: 30e6 })), () => window.carillon.state.seek(36e6)],
];
for (const [name, file, act] of views) {
  test(`picture ${name}`, () => tried(file, async ({ page }) => {
    await page.evaluate(act);
    await comparePicture(page, name);
  }));
}

test("live: a slider changes the run, and protocols stand side by side", { skip: !HAS_SIMULATOR && "the page has no simulator" }, () => tried(PAGE, async ({ page }) => {
  await page.waitForFunction(() => window.carillon.state.panes.length === 3);
  await page.evaluate(() => window.carillon.state.seek(4.475e9));
  await comparePicture(page, "lms-srm-pgm");
  await page.evaluate(() => {
    window.carillon.state.side = "scenario";
    window.carillon.state.emit("view");
  });
  const before = await page.evaluate(() => window.carillon.state.run!.count);
  const slider = page.locator('input[data-key="workload.messages"]');
  await slider.focus();
  for (let press = 0; press < 4; press += 1) await page.keyboard.press("ArrowRight");
  await page.waitForFunction((count) => window.carillon.state.run!.count > count, before);
  assert.ok((await page.evaluate(() => window.carillon.live.session!.runTime)) < 1000);
  await comparePicture(page, "view-scenario");
}));

test("live: a permanent link gives the same run", { skip: !HAS_SIMULATOR && "the page has no simulator" }, async () => {
  let hash = "";
  let events: number[] = [];
  await tried(PAGE, async ({ page }) => {
    await page.evaluate(async () => {
      const { live } = window.carillon;
      live.session!.state.seed = 12;
      live.session!.state.set["workload.messages"] = "9";
      await live.session!.run();
    });
    await page.waitForTimeout(200);
    await page.getByRole("button", { name: "Copy a link" }).click();
    hash = await page.evaluate(() => location.hash);
    events = await page.evaluate(() => window.carillon.state.panes.map(({ run }) => run.count));
  });
  assert.match(hash, /s=/);
  await tried(PAGE, async ({ page }) => {
    assert.deepEqual(await page.evaluate(() => window.carillon.state.panes.map(({ run }) => run.count)), events);
  }, hash);
});

test("live: every run of the gallery runs", { skip: !HAS_SIMULATOR && "the page has no simulator" }, () => tried(PAGE, async ({ page }) => {
  const buttons = page.locator(".gallery button");
  for (let at = 0; at < (await buttons.count()); at += 1) {
    await page.keyboard.press("g");
    const title = await buttons.nth(at).locator("strong").innerText();
    await buttons.nth(at).click();
    await page.waitForFunction((wanted) => document.querySelector(".note:not([hidden]) strong")?.textContent === wanted, title, { timeout: 20_000 });
    assert.ok(await page.evaluate(() => window.carillon.state.run!.count > 20), title);
    assert.equal(await page.locator(".error:visible").count(), 0, title);
  }
}));

test("live: a wrong scenario shows the error of the simulator", { skip: !HAS_SIMULATOR && "the page has no simulator" }, () => tried(PAGE, async ({ page }) => {
  await page.getByRole("tab", { name: "Scenario" }).click();
  await page.locator("textarea.scenario").fill('name = "x"\n[network]\nkind = "moon"\n');
  await page.waitForFunction(() => document.querySelector(".error")!.textContent!.includes("moon") || document.querySelector(".error")!.textContent!.includes("protocol"));
}));

test("live: a recording with its scenario runs again with a change", { skip: !HAS_SIMULATOR && "the page has no simulator" }, async () => {
  const scenario = readFileSync(join(WEB, "gallery/one-loss-pgm.toml"), "utf8");
  const file = pageWith("again", { header: { ...TREE.header, scenario, seed: 3 }, columns: TREE.columns });
  await tried(file, async ({ page }) => {
    await page.getByRole("tab", { name: "Scenario" }).click();
    assert.equal(await page.locator("textarea.scenario").inputValue(), scenario);
    await page.locator('input[data-key="workload.messages"]').focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() => window.carillon.state.run!.header.title.startsWith("pgm"));
    assert.equal(await page.evaluate(() => window.carillon.state.run!.header.seed), 3);
  });
});
