// Prints the console's catalogues as pairs of English and another language, one list in JSON: `node catalogue.mjs zh`.
// A sentence with values is asked with marks in their places (§0§, §1§), and with small numbers, for plurals.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const source = resolve(dirname(fileURLToPath(import.meta.url)), "../../frontend/src");
const require = createRequire(join(source, "main.tsx"));
const ts = require("typescript");
const loaded = new Map();

function load(path) {
  const file = [".ts", ".tsx", "/index.ts"].map((end) => path + end).find(existsSync);
  const known = loaded.get(file);
  if (known) return known.exports;
  const module = { exports: {} };
  loaded.set(file, module);
  const code = ts.transpileModule(readFileSync(file, "utf8"), {
    compilerOptions: { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 },
  }).outputText;
  const near = (name) => (name.startsWith(".") ? load(resolve(dirname(file), name)) : require(name));
  new Function("module", "exports", "require", code)(module, module.exports, near);
  return module.exports;
}

function said(sentence, values) {
  try {
    const text = sentence(...values);
    return typeof text === "string" ? text : undefined;
  } catch {
    return undefined;
  }
}

function walk(english, other, pairs) {
  if (typeof english === "string") pairs.push([english, other]);
  else if (typeof english === "function") {
    const marks = [...Array(english.length).keys()].map((at) => `§${at}§`);
    const asked = [marks, ...[...Array(20).keys()].map((n) => marks.map(() => n))];
    for (const values of asked) {
      const [first, second] = [said(english, values), said(other, values)];
      if (first !== undefined && second !== undefined) pairs.push([first, second]);
    }
  } else if (english && typeof english === "object") {
    for (const key of Object.keys(english)) walk(english[key], other[key], pairs);
  }
  return pairs;
}

const language = process.argv[2];
const catalogue = (name) => load(join(source, "i18n", name))[name];
const { sentences, libraries } = JSON.parse(readFileSync(join(source, `i18n/${language}.sentences.json`), "utf8"));
const marked = (text) => {
  let at = 0;
  return text.replace(/\{(\d?)(:word)?\}/g, (_, number) => `§${number ? Number(number) - 1 : at++}§`);
};
const server = Object.entries({ ...libraries, ...sentences }).map((pair) => pair.map(marked));
console.log(JSON.stringify([...walk(catalogue("en"), catalogue(language), []), ...server]));
