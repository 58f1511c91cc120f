/** Pictures of the page, compared with the ones in the documents. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import { WEB, settle } from "./chromium.ts";

const STORED = join(WEB, "../docs/images");
const FAILED = join(WEB, "dist/pictures");
/** Share of pixels that may differ: fonts are drawn a little differently in each version of the browser. */
const TOLERANCE = 0.01;

/** Compares the page with a stored picture; with BLESS=1 stores it. */
export async function comparePicture(page: Page, name: string): Promise<void> {
  await page.mouse.move(640, 2);
  // Details follow the clock at intervals.
  await page.waitForTimeout(300);
  await settle(page);
  const taken = await page.screenshot();
  const stored = join(STORED, `${name}.png`);
  if (process.env["BLESS"]) {
    mkdirSync(STORED, { recursive: true });
    // Without transparency and compressed as much as possible: the documents contain these files.
    writeFileSync(stored, PNG.sync.write(PNG.sync.read(taken), { deflateLevel: 9, colorType: 2, filterType: 0, deflateStrategy: 0 }));
    return;
  }
  assert.ok(existsSync(stored), `there is no picture ${stored}; BLESS=1 stores it`);
  const [a, b] = [PNG.sync.read(readFileSync(stored)), PNG.sync.read(taken)];
  assert.deepEqual([b.width, b.height], [a.width, a.height]);
  const difference = new PNG({ width: a.width, height: a.height });
  const pixels = pixelmatch(a.data, b.data, difference.data, a.width, a.height, { threshold: 0.2 });
  const share = pixels / (a.width * a.height);
  if (share <= TOLERANCE) return;
  mkdirSync(FAILED, { recursive: true });
  writeFileSync(join(FAILED, `${name}.png`), taken);
  writeFileSync(join(FAILED, `${name}-difference.png`), PNG.sync.write(difference));
  assert.fail(`${name}: ${(share * 100).toFixed(1)} % of the pixels differ from docs/images/${name}.png; see web/dist/pictures`);
}
