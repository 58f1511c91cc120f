/** Chromium without a network, and pages that are opened from disk. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { deflateRawSync } from "node:zlib";
import { type Browser, type BrowserContext, type Page, chromium } from "playwright-core";
import { writeRecording, type Recording } from "../../src/schema/recording.ts";
import type { App } from "../../src/ui/app.ts";

export const WEB = process.cwd();
export const PAGE = join(WEB, "dist/view.html");
export const HAS_SIMULATOR = readFileSync(PAGE, "utf8").includes('<script id="carillon-wasm"');

declare global {
  interface Window {
    carillon: App;
  }
}

export async function launch(): Promise<Browser> {
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--font-render-hinting=none", "--force-color-profile=srgb"];
  return chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args });
}

/** Page in sight, with everything that it asked for and every error. */
export interface Opened {
  page: Page;
  context: BrowserContext;
  requests: string[];
  errors: string[];
}

export async function open(browser: Browser, file: string, hash = ""): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1, colorScheme: "light", reducedMotion: "reduce", offline: true });
  const page = await context.newPage();
  const requests: string[] = [];
  const errors: string[] = [];
  page.on("request", (request) => {
    if (!/^(blob|data):/.test(request.url())) requests.push(request.url());
  });
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  await page.goto(`file://${file}${hash}`);
  await page.waitForFunction(() => window.carillon.ready, null, { timeout: 60_000 });
  return { page, context, requests, errors };
}

/** Page with a recording inside, as `carillon view` writes it. */
export function pageWith(name: string, recording: Recording, level = 6): string {
  const packed = deflateRawSync(writeRecording(recording), { level }).toString("base64");
  const data = `<script id="carillon-data" type="application/json">${JSON.stringify({ recording: packed, scenario: null, view: {} })}</script>`;
  const template = readFileSync(PAGE, "utf8");
  if (template.split("<!-- carillon-data -->").length !== 2) throw new Error("the template has not exactly one place for data");
  const folder = join(WEB, "dist/test");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${name}.html`);
  writeFileSync(file, template.replace("<!-- carillon-data -->", () => data));
  return file;
}

/** Waits until everything is drawn. */
export async function settle(page: Page): Promise<void> {
  await page.evaluate(() => new Promise<void>((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => resolve())))));
}
