import { defineConfig, mergeConfig } from "vitest/config";
import build from "./vite.config";

export default mergeConfig(
  build,
  defineConfig({ test: { environment: "jsdom", isolate: false, include: ["src/**/*.test.{ts,tsx}"] } }),
);
