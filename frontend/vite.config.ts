import { readdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, gzip } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const backend = process.env.CONSOLE_BACKEND ?? "http://127.0.0.1:8000";

const TEXT = /\.(js|css|svg)$/;
const ENCODINGS = { gz: promisify(gzip), br: promisify(brotliCompress) };

/** Writes NAME.gz and NAME.br beside each text file of the build; WhiteNoise sends what the browser accepts. */
function compress(): Plugin {
  let folder = "";
  return {
    name: "compress",
    apply: "build",
    configResolved: (config) => {
      folder = resolve(config.root, config.build.outDir);
    },
    closeBundle: async () => {
      for (const name of await readdir(folder, { recursive: true })) {
        if (!TEXT.test(name)) continue;
        const content = await readFile(join(folder, name));
        for (const [ending, encode] of Object.entries(ENCODINGS)) {
          await writeFile(join(folder, `${name}.${ending}`), await encode(content));
        }
      }
    },
  };
}

export default defineConfig(({ command }) => ({
  // Django's WhiteNoise serves the build under /static/ and index.html for every other path.
  base: command === "build" ? "/static/" : "/",
  plugins: [react(), compress()],
  // Django puts the page's own nonce in its place (platform/berth/console/views.py).
  html: { cspNonce: "__CSP_NONCE__" },
  build: {
    // The content security policy is default-src 'self': nothing may be inlined as a data: URL.
    assetsInlineLimit: 0,
    // Says which file loads which: the size of the first load is added up from it.
    manifest: true,
  },
  server: {
    proxy: {
      // As objects: a mere address would also change Host, and the server compares it with Origin.
      "/api": { target: backend },
      "/v1": { target: backend },
      "/ws": { target: backend, ws: true },
    },
  },
  test: {
    environment: "happy-dom",
    include: ["tests/**/*.test.{ts,tsx}"],
    setupFiles: ["tests/setup.ts"],
  },
}));
