import { join } from "node:path";
import { build } from "../tools/build.ts";

const root = join(import.meta.dirname, "..");

/** Runs once before all tests. */
export default async (): Promise<void> => {
  // Tests must not see the machine's git configuration or credentials.
  for (const name of Object.keys(process.env)) {
    if (
      /^(GIT_|GH_|GITHUB_|ANTHROPIC_|CLAUDE|SERVICE_|MODEL_API_|AGENT_CLI_|OTEL_|KV_|BRIDGE_|OAUTH_|LLM_|CODEX_)/.test(
        name,
      )
    )
      delete process.env[name];
  }
  // At the same place each time: the compile cache goes by path.
  const program = join(root, "node_modules", ".cache", "svc-program");
  await build(root, program);
  process.env["TEST_PROGRAM"] = join(program, "svc.mjs");
  process.env["TEST_BRIDGE"] = join(program, "bridge.mjs");
};
