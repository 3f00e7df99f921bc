import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createClient } from "../src/client/client.ts";
import { compileCache } from "./compile-cache.ts";
import { until } from "./until.ts";

const root = join(import.meta.dirname, "..");

/** The stand-in for the agent CLI that misbehaves on demand: see test/fake-agent/README.md. */
export const fakeAgent = join(root, "test", "fake-agent", "fake-agent");

/** The program: the bundle that `test/setup.ts` has made, which starts in half the time; outside vitest from source. */
export const svcProgram = [
  process.execPath,
  process.env["TEST_PROGRAM"] ?? join(root, "src", "cli", "main.ts"),
] as const;

export type ServiceOptions = {
  home: string;
  /** Variables over the defaults; undefined removes one. */
  env?: Record<string, string | undefined>;
  /** Command and arguments the service is started under, e.g. to limit what it may do. */
  under?: string[];
  /** The program to start instead of `svcProgram`. */
  program?: readonly string[];
};

/**
 * The real service in a process of its own, on a free loopback port, with the fake agent. Resolves when it listens. Without
 * a sandbox, unless TEST_SANDBOX or `env` names one.
 */
export const spawnService = async ({ home, env = {}, under = [], program = svcProgram }: ServiceOptions) => {
  const environment = definedOnly({
    PATH: process.env["PATH"],
    HOME: home,
    LANG: "C.UTF-8",
    SERVICE_PORT: "0",
    SERVICE_POD_NAME: "test-pod",
    SERVICE_AGENT_CLI_BINARY: fakeAgent,
    SERVICE_ALLOW_NO_MODEL_CREDENTIAL: "true",
    SERVICE_AGENT_CLI_KILL_GRACE: "1",
    SERVICE_OTEL_ENABLED: "false",
    SERVICE_AGENT_SANDBOX: process.env["TEST_SANDBOX"] ?? "off",
    SERVICE_DRAIN_TIMEOUT: "0",
    // The repositories of the tests lie on this disk, which keys alone do not open.
    ...(env["SERVICE_API_KEYS"] !== undefined && { SERVICE_ALLOW_LOCAL_REPOS: "true" }),
    NODE_COMPILE_CACHE: compileCache,
    ...env,
  });
  const [command, ...args] = [...under, ...program, "serve"];
  if (command === undefined) throw new Error("there is no program to start");
  const child = spawn(command, args, { cwd: home, env: environment, stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (data: Buffer) => (output.stdout += data.toString()));
  child.stderr.on(
    "data",
    (data: Buffer) => (output.stderr = (output.stderr + data.toString()).slice(-2_000_000)),
  );
  const url = await until(
    () => {
      if (child.exitCode !== null)
        throw new Error(`the service exited with ${child.exitCode}: ${output.stderr}`);
      return /listening on (http\S+)/.exec(output.stdout)?.[1];
    },
    { seconds: 60, what: "the service to listen" },
  );
  const apiKey = environment["SERVICE_API_KEYS"]?.split(",")[0];
  return {
    url,
    home,
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

export type Service = Awaited<ReturnType<typeof spawnService>>;

const end = async (child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Promise<number | null> => {
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  }
  return child.exitCode;
};

const definedOnly = (env: Record<string, string | undefined>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
