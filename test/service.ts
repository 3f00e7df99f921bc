import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll } from "vitest";
import { createClient } from "../src/client/client.ts";
import { temporaryDirectory } from "./temporary.ts";
import { until } from "./until.ts";

const root = join(import.meta.dirname, "..");

/** The stand-in for the agent CLI that misbehaves on demand: see test/fake-agent/README.md. */
export const fakeAgent = join(root, "test", "fake-agent", "fake-agent");

type Options = {
  /** Variables over the defaults; undefined removes one. */
  env?: Record<string, string | undefined>;
  /** Home directory; default: a fresh one. Give the one of an earlier service to restart it. */
  home?: string;
  /** Started under this command, e.g. to limit what it may do. */
  under?: string[];
};

/**
 * The real service in a process of its own, on a free loopback port, with a home directory of its own and the fake agent.
 * Stopped after the test file.
 */
export const startService = async ({ env = {}, home, under = [] }: Options = {}) => {
  const directory = home ?? (await temporaryDirectory());
  const environment = definedOnly({
    PATH: process.env["PATH"],
    HOME: directory,
    LANG: "C.UTF-8",
    SERVICE_PORT: "0",
    SERVICE_POD_NAME: "test-pod",
    SERVICE_AGENT_CLI_BINARY: fakeAgent,
    SERVICE_AGENT_CLI_KILL_GRACE: "1",
    SERVICE_OTEL_ENABLED: "false",
    ...env,
  });
  const [command = "", ...args] = [...under, process.execPath, join(root, "src", "cli", "main.ts"), "serve"];
  const child = spawn(command, args, { cwd: directory, env: environment, stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (data: Buffer) => (output.stdout += data.toString()));
  child.stderr.on("data", (data: Buffer) => (output.stderr = (output.stderr + data.toString()).slice(-2_000_000)));
  afterAll(() => end(child, "SIGKILL"));

  const url = await until(
    () => {
      if (child.exitCode !== null) throw new Error(`the service exited with ${child.exitCode}: ${output.stderr}`);
      return /listening on (http\S+)/.exec(output.stdout)?.[1];
    },
    { seconds: 30, what: "the service to listen" },
  );
  const apiKey = environment["SERVICE_API_KEYS"]?.split(",")[0];
  return {
    url,
    home: directory,
    env: environment,
    output,
    pid: child.pid ?? 0,
    client: createClient({ baseUrl: url, ...(apiKey === undefined ? {} : { apiKey }) }),
    /** As an operator would: SIGTERM. Resolves to the exit code. */
    stop: () => end(child, "SIGTERM"),
    /** As a crash would: SIGKILL. */
    kill: () => end(child, "SIGKILL"),
  };
};

export type Service = Awaited<ReturnType<typeof startService>>;

const end = async (child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Promise<number | null> => {
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  }
  return child.exitCode;
};

const definedOnly = (env: Record<string, string | undefined>): Record<string, string> =>
  Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined));
