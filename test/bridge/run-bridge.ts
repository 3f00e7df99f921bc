import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { afterFile } from "../cleanup.ts";
import { compileCache } from "../compile-cache.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

const root = join(import.meta.dirname, "..", "..");

/** The bundle that `test/setup.ts` has made; outside vitest from source. */
export const bridgeProgram = process.env["TEST_BRIDGE"] ?? join(root, "src", "cli", "bridge", "main.ts");

/** A home with the transcripts that were recorded from the real CLI. */
export const recordedHome = async (): Promise<string> => {
  const home = await temporaryDirectory();
  await cp(join(root, "test", "transcripts", "fixtures", "home"), join(home, ".claude"), { recursive: true });
  return home;
};

export const bridgeEnvironment = (
  home: string,
  env: Record<string, string> = {},
): Record<string, string> => ({
  PATH: process.env["PATH"] ?? "",
  HOME: home,
  LANG: "C.UTF-8",
  NODE_COMPILE_CACHE: compileCache,
  ...env,
});

/** Starts bridge in an environment that has nothing of this machine's settings. Killed at the end of the test file. */
const start = (
  home: string,
  args: readonly string[],
  env: Record<string, string> = {},
  under: readonly string[] = [],
) => {
  const [program = "", ...rest] = [...under, process.execPath, bridgeProgram, ...args];
  const child = spawn(program, rest, {
    env: bridgeEnvironment(home, env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text));
  afterFile(() => child.kill("SIGKILL"));
  const ended = once(child, "close").then(([code]: (number | null)[]) => ({ code: code ?? null, ...output }));
  return { child, output, ended };
};

/** Runs bridge to its end, perhaps under another program. */
export const bridge = (...given: Parameters<typeof start>) => start(...given).ended;

/** The service over HTTP on a free port. */
export const serveBridge = async (
  home: string,
  env: Record<string, string> = {},
  under: readonly string[] = [],
) => {
  const settings = { BRIDGE_TRANSPORT: "sse", BRIDGE_PORT: "0", ...env };
  const { child, output, ended } = start(home, ["serve"], settings, under);
  const url = await until(() => {
    if (child.exitCode !== null) throw new Error(`bridge exited with ${child.exitCode}: ${output.stderr}`);
    return /listening on (http\S+)/.exec(output.stdout)?.[1];
  });
  return {
    url,
    pid: child.pid ?? 0,
    output,
    stop: async () => {
      child.kill("SIGTERM");
      return await ended;
    },
  };
};
