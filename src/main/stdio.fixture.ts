import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterFile } from "../../test/cleanup.ts";
import { compileCache } from "../../test/compile-cache.ts";
import { fakeAgent, svcProgram } from "../../test/service.ts";
import { until } from "../../test/until.ts";

export const environment = (home: string, env: Record<string, string> = {}): Record<string, string> => ({
  PATH: process.env["PATH"] ?? "",
  HOME: home,
  SERVICE_TRANSPORT: "stdio",
  SERVICE_POD_NAME: "test-pod",
  SERVICE_AGENT_CLI_BINARY: fakeAgent,
  SERVICE_ALLOW_NO_MODEL_CREDENTIAL: "true",
  SERVICE_AGENT_CLI_KILL_GRACE: "1",
  NODE_COMPILE_CACHE: compileCache,
  ...env,
});

/** `svc serve` on stdio, driven by hand. */
export const startRaw = (home: string, env?: Record<string, string>) => {
  const [node, ...program] = svcProgram;
  const child = spawn(node, [...program, "serve"], { cwd: home, env: environment(home, env) });
  afterFile(() => child.kill("SIGKILL"));
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (data: Buffer) => (output.stdout += data.toString()));
  child.stderr.on("data", (data: Buffer) => (output.stderr += data.toString()));
  child.stdin.on("error", () => undefined);
  let id = 0;
  const exited = once(child, "exit") as Promise<[number | null, string | null]>;
  return {
    child,
    output,
    exited,
    say: (text: string) => void child.stdin.write(text),
    /** What it has said so far. */
    received: () => messages(output.stdout),
    /** Sends a request and waits for its answer. */
    ask: async (method: string, params: object = {}): Promise<{ result?: object; error?: object }> => {
      const mine = ++id;
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: mine, method, params })}\n`);
      return await until(() => {
        if (child.exitCode !== null) throw new Error(`it ended: ${output.stderr}`);
        return messages(output.stdout).find((message) => message.id === mine);
      });
    },
  };
};

type Message = { id?: number; result?: object; error?: object };

const messages = (stdout: string): Message[] =>
  stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Message);

export const initialize = {
  protocolVersion: "2025-06-18",
  capabilities: {},
  clientInfo: { name: "raw", version: "1" },
};

export const submit = async (raw: ReturnType<typeof startRaw>, task: string): Promise<string> => {
  const { result } = await raw.ask("tools/call", { name: "run_task", arguments: { task } });
  return (result as { structuredContent: { job: { id: string } } }).structuredContent.job.id;
};
