// Bundles the page's script and style into the directory that is given, beside the files that need no building, and the
// notices of the packages that the script contains.
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
await writeFile(`${directory}/page-notices`, (await Promise.all(packages(metafile).map(notice))).join("\n"));

/** Return the directories of the packages that were bundled. */
function packages(metafile) {
  const found = Object.keys(metafile.inputs).map((path) => /^node_modules\/(@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  return [...new Set(found.filter(Boolean))].sort();
}

/** Return a package's name, version, licence and the text of its licence. A package without a text is refused. */
async function notice(directory) {
  const { name, version, license } = JSON.parse(await readFile(`${directory}/package.json`, "utf8"));
  const file = (await readdir(directory)).find((one) => /^licen[cs]e/i.test(one));
  if (!file) throw new Error(`${directory} has no licence's text`);
  return `${name} ${version} (${license})\n\n${await readFile(`${directory}/${file}`, "utf8")}`;
}
