import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "jsdom",
    // The editor, which the tests do not open, has no entry point for Node.
    alias: { "monaco-editor": "monaco-editor/package.json" },
    // Headlamp's library has imports that Node does not resolve, and takes about ten seconds to load.
    server: { deps: { inline: [/headlamp-plugin/] } },
    silent: "passed-only",
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
