import { join } from "node:path";
import type { LoadedSettings } from "../../config/settings.ts";
import type { Settings } from "../../config/variables.ts";
import { connectKv } from "../../kv/connect.ts";
import { runCommand } from "../../lib/command.ts";
import { createLog } from "../../lib/log.ts";
import { startOrchestrator } from "../orchestrator.ts";
import { version } from "../version.ts";
import type { Package } from "./installation.ts";
import { copyStore, readCopy, Tally } from "./store-copy.ts";

/** `directory`: for the copy and all that the version may write. */
type Proof = { settings: Settings; directory: string; env: Record<string, string>; signal: AbortSignal };

/**
 * Starts another version on a copy of the store.
 * @throws Error with a sentence for the user when it does not start, or reads other records than this version
 */
export const prove = async (
  candidate: Package,
  { settings, directory, env, signal }: Proof,
): Promise<void> => {
  const copy = join(directory, "jobs");
  await copyStore(settings, copy);
  const expected = await readCopy(copy);
  const result = await runCommand({
    command: process.execPath,
    args: [join(candidate.directory, candidate.bin["svc"] ?? ""), "serve", "--trial", directory],
    cwd: directory,
    env,
    timeoutSeconds: longestTrial,
    signal,
  });
  const name = `svc ${candidate.version}`;
  const found = result.exitCode === 0 ? parse(result.stdout) : null;
  if (found === null) {
    const why =
      result.ended === "timed_out" ? `not within ${longestTrial} s` : result.stderr.trim().slice(-500);
    throw new Error(`${name} does not start on a copy of the store: ${why}`);
  }
  const wrong = Object.entries(expected)
    .filter(([kind, count]) => (found[kind] ?? 0) !== count)
    .map(([kind, count]) => `${kind}: ${found[kind] ?? 0} instead of ${count}`);
  if (wrong.length > 0) {
    const what = `the records as svc ${version} does (${wrong.join(", ")})`;
    throw new Error(`${name} does not read ${what}: their format differs`);
  }
};

/** Seconds: 100,000 records are read in a few. */
const longestTrial = 120;

const parse = (stdout: string): Tally | null => {
  try {
    return Tally.parse(JSON.parse(stdout.trim().split("\n").at(-1) ?? ""));
  } catch {
    return null;
  }
};

/**
 * The other side, `svc serve --trial DIRECTORY`: reads the copy, starts on it until it is ready, and ends. Whatever it
 * may write to is below the directory; it knows neither the real store nor databases, backends and companions. Later
 * versions must answer the same: the version before asks.
 */
export const runTrial = async (
  { settings, warnings }: LoadedSettings,
  env: NodeJS.ProcessEnv,
  directory: string,
): Promise<Tally> => {
  const records = await readCopy(join(directory, "jobs"));
  const { kvUrl: url, kvKeyPrefix: prefix } = settings;
  // Connecting asks the store for its version and policy, and writes nothing.
  if (url !== null) await (await connectKv({ url, prefix, log: createLog("silent", String) })).close();
  const alone = isolated(settings, directory);
  const service = await startOrchestrator({ settings: alone, warnings, env, isTrial: true });
  const ready = await fetch(`${service.url}/ready`);
  if (!ready.ok) throw new Error(`The service has started, but is not ready: ${await ready.text()}`);
  await service.stop();
  return records;
};

const isolated = (settings: Settings, directory: string): Settings => ({
  ...settings,
  transport: "sse",
  host: "127.0.0.1",
  port: 0,
  jobsDir: join(directory, "jobs"),
  worktreeRoot: join(directory, "worktrees"),
  reposRoot: join(directory, "repos"),
  agentModeWorkspaces: join(directory, "workspaces"),
  sharedFsRoot: null,
  kvUrl: null,
  telemetryDb: null,
  tracingHost: null,
  hooksUrl: null,
  bundleUrl: null,
  hubUrl: null,
  hubAgent: null,
  minFreeDiskBytes: 0,
});
