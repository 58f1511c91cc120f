// Bundles the tests in the browser and runs them. BLESS=1 stores the pictures instead of comparing them.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const web = join(dirname(fileURLToPath(import.meta.url)), "..");
const out = join(web, "dist/browser");
await build({
  entryPoints: [join(web, "test/browser/page.test.ts"), join(web, "test/browser/large.test.ts")],
  bundle: true, format: "esm", platform: "node", target: "node20", outdir: out, outExtension: { ".js": ".mjs" }, packages: "external", logLevel: "warning",
});
// One file after the other: they measure times.
const { status } = spawnSync(process.execPath, ["--test", "--test-concurrency=1", ...process.argv.slice(2), out], { stdio: "inherit", cwd: web, env: process.env });
process.exit(status ?? 1);
