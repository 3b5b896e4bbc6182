import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** Puts a compressed copy beside every asset, so that the server never compresses. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    generateBundle: {
      order: "post", // what Vite itself fills in comes first
      async handler(_, bundle) {
        for (const [name, file] of Object.entries(bundle)) {
          const text = file.type === "chunk" ? file.code : file.source;
          const source = await promisify(gzip)(text, { level: 9 });
          this.emitFile({ type: "asset", fileName: `${name}.gz`, source });
        }
      },
    },
  };
}

export default defineConfig({
  base: "/",
  plugins: [compressed()],
  resolve: { alias: { "@": fileURLToPath(new URL("src", import.meta.url)) } },
  build: {
    outDir: "../nnimgr/webui",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the content security policy allows no data: but for images
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
    rolldownOptions: { checks: { moduleLevelDirective: false } },
  },
});
