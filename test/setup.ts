import { spawnSync } from "node:child_process";
import { chmod, mkdtemp, rm, statfs, writeFile } from "node:fs/promises";
import { freemem, tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "../tools/build.ts";

const root = join(import.meta.dirname, "..");

/** Runs once before all tests; what it returns runs after them. */
export default async (): Promise<() => Promise<void>> => {
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
  const memory = await directoryInMemory();
  if (memory !== null) process.env["TMPDIR"] = memory;
  // What a worker makes once for all its files: it ends without a step of its own.
  const templates = await mkdtemp(join(tmpdir(), "svc-templates-"));
  process.env["TEST_TEMPLATES"] = templates;
  return async () => {
    for (const directory of [templates, memory ?? templates])
      await rm(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  };
};

/**
 * A directory for the files of the tests that no disk has to flush: each record and each commit waits for that. Null: the
 * machine has too little memory for it, or runs no programs from there.
 */
const directoryInMemory = async (): Promise<string | null> => {
  const { bavail, bsize } = await statfs("/dev/shm").catch(() => ({ bavail: 0, bsize: 0 }));
  const gigabytes = Math.min(bavail * bsize, freemem()) / 2 ** 30;
  if (gigabytes < 6 || process.env["TMPDIR"] !== undefined) return null;
  const directory = await mkdtemp("/dev/shm/svc-tests-");
  // PostgreSQL runs as another user, and finds its own directory below.
  await chmod(directory, 0o711);
  const program = join(directory, "program");
  await writeFile(program, "#!/bin/sh\n", { mode: 0o755 });
  if (spawnSync(program).status === 0) return directory;
  await rm(directory, { recursive: true });
  return null;
};
