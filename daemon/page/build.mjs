// Bundles the page's script and style into the directory that is given, beside the files that need no building, the
// notices of the packages that the script contains, and their list for tools/sbom.
import { copyFile, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const [, , directory] = process.argv;
if (!directory) throw new Error("usage: node build.mjs DIRECTORY");

await mkdir(directory, { recursive: true });
const { metafile } = await build({
  entryPoints: { page: "src/main.tsx" },
  outdir: directory,
  bundle: true,
  splitting: true, // photo.js is loaded when there is a photo
  chunkNames: "[name]",
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
});
for (const name of ["index.html", "icon.svg"]) await copyFile(name, `${directory}/${name}`);
const bundled = packages(metafile);
await writeFile(`${directory}/page-notices`, (await Promise.all(bundled.map(notice))).join("\n"));
await writeFile(`${directory}/packages.json`, JSON.stringify(await Promise.all(bundled.map(about)), null, 1));

/** Return the directories of the packages that were bundled. */
function packages(metafile) {
  const found = Object.keys(metafile.inputs).map((path) => /^node_modules\/(@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  return [...new Set(found.filter(Boolean))].sort();
}

/** Return a package's name, version and licence. */
async function about(directory) {
  const { name, version, license } = JSON.parse(await readFile(`${directory}/package.json`, "utf8"));
  return { name, version, license };
}

/**
 * Return a package's name, version, licence and the text of its licence. `licences` has the text of a package that comes
 * without its own; one that has none there either is refused.
 */
async function notice(directory) {
  const { name, version, license } = await about(directory);
  const file = (await readdir(directory)).find((one) => /^licen[cs]e/i.test(one));
  const kept = `licences/${name.replace("/", "+")}`;
  const text = await readFile(file ? `${directory}/${file}` : kept, "utf8").catch(() => undefined);
  if (!text) throw new Error(`${directory} has no licence's text; put it into daemon/page/${kept}`);
  return `${name} ${version} (${license})\n\n${text}`;
}
