import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const backend = process.env.CONSOLE_BACKEND ?? "http://127.0.0.1:8000";

export default defineConfig(({ command }) => ({
  // Django's WhiteNoise serves the build under /static/ and index.html for every other path.
  base: command === "build" ? "/static/" : "/",
  plugins: [react()],
  build: {
    // The content security policy is default-src 'self': nothing may be inlined as a data: URL.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
  },
  server: {
    proxy: {
      "/api": backend,
      "/v1": backend,
      "/ws": { target: backend, ws: true },
    },
  },
  test: {
    environment: "happy-dom",
    include: ["tests/**/*.test.{ts,tsx}"],
    setupFiles: ["tests/setup.ts"],
  },
}));
