import { configDefaults, mergeConfig } from "vitest/config";
import config from "./vitest.config.ts";

/**
 * `npm run test:fast`, for the daily loop: without what starts whole services, real CLIs, many git repositories or a Cluster
 * again and again. Whoever changes one of those runs its tests by path; `npm test` runs everything.
 */
const slow = [
  "test/*/**",
  "test/same-answer.test.ts",
  "test/package.test.ts",
  "src/repos/**",
  "src/kv/**",
  "src/**/*real-cli*.test.ts",
  "src/**/*bullmq*.test.ts",
  "src/agents/claude/run*.test.ts",
  "src/jobs/sweep.test.ts",
  "src/lib/disk-usage.test.ts",
  "src/main/stdio*.test.ts",
];

export default mergeConfig(config, { test: { exclude: [...configDefaults.exclude, ...slow] } });
