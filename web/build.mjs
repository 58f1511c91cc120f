// Builds the page: one HTML file with style, script and, if it was built, the simulator.
//
//   node build.mjs                  dist/view.html, and the same in dist/plain.html
//   node build.mjs --wasm FILE      with the simulator in dist/view.html
//   node build.mjs --unit           dist/unit/*.mjs, the unit tests
import { build } from "esbuild";
import { deflateRawSync } from "node:zlib";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");
const common = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };

/** State diagrams of the protocols' pages, by protocol: the pictures that the documents show. */
function diagrams() {
  const folder = join(here, "..", "docs", "protocols");
  const result = {};
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".md")).sort()) {
    const text = readFileSync(join(folder, file), "utf8");
    const found = [...text.matchAll(/(?:<!-- states: (.*?) -->\n)?```mermaid\n(stateDiagram-v2\n[\s\S]*?)```/g)];
    if (found.length > 0) result[file.slice(0, -3)] = found.map(([, title, diagram]) => ({ title: title ?? "", diagram }));
  }
  return result;
}

/** Runs of the gallery with their scenarios. */
function gallery() {
  const folder = join(here, "gallery");
  const list = join(folder, "gallery.json");
  if (!existsSync(list)) return [];
  return JSON.parse(readFileSync(list, "utf8")).map((item) => ({ ...item, scenario: readFileSync(join(folder, `${item.file}.toml`), "utf8") }));
}

/** Modules that are made when the page is built. */
const made = {
  name: "made",
  setup(builder) {
    builder.onResolve({ filter: /^made:/ }, ({ path }) => ({ path, namespace: "made" }));
    builder.onLoad({ filter: /.*/, namespace: "made" }, async ({ path }) => {
      if (path === "made:diagrams") return { contents: JSON.stringify(diagrams()), loader: "json" };
      if (path === "made:gallery") return { contents: JSON.stringify(gallery()), loader: "json" };
      const worker = await build({ ...common, entryPoints: [join(here, "src/live/worker.ts")], format: "iife", minify: true, write: false });
      return { contents: worker.outputFiles[0].text, loader: "text" };
    });
  },
};

async function buildPage(wasm) {
  const script = await build({ ...common, entryPoints: [join(here, "src/main.ts")], format: "iife", minify: !process.env.DEBUG_BUILD, write: false, charset: "utf8", plugins: [made] });
  const style = await build({ entryPoints: [join(here, "src/style.css")], minify: true, write: false, bundle: true });
  const inside = (text) => text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
  let html = readFileSync(join(here, "src/index.html"), "utf8");
  html = html.replace("/*style*/", () => style.outputFiles[0].text.trim());
  html = html.replace("/*script*/", () => inside(script.outputFiles[0].text.trim()));
  mkdirSync(dist, { recursive: true });
  const write = (name, simulator) => {
    const page = html.replace("<!-- carillon-wasm -->\n", () => simulator);
    writeFileSync(join(dist, name), page);
    return page.length;
  };
  const plain = write("plain.html", "");
  const size = write("view.html", wasm ? simulatorScript(wasm) : "");
  console.log(`web/dist/view.html: ${(size / 1024).toFixed(0)} KiB${size === plain ? ", without the simulator" : ""}`);
}

/** The simulator as part of a page. */
function simulatorScript(wasm) {
  const packed = deflateRawSync(readFileSync(wasm), { level: 9 }).toString("base64");
  return `<script id="carillon-wasm" type="application/octet-stream">${packed}</script>\n`;
}

async function buildUnitTests() {
  const folder = join(here, "test/unit");
  const entryPoints = readdirSync(folder).filter((name) => name.endsWith(".test.ts")).map((name) => join(folder, name));
  await build({ ...common, entryPoints, outdir: join(dist, "unit"), platform: "node", outExtension: { ".js": ".mjs" }, plugins: [made] });
}

const arguments_ = process.argv.slice(2);
if (arguments_.includes("--unit")) await buildUnitTests();
else await buildPage(arguments_[0] === "--wasm" ? arguments_[1] : undefined);
