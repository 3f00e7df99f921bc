import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { startFakeModel } from "../test/fake-model/fake-model.ts";
import { credentials, credentialsFound } from "./credentials.ts";
import { makeRepository } from "./repository.ts";

/**
 * The main job on real input: starts the service, makes a repository with a remote, submits a task and shows what
 * happens. With model credentials in the environment the agent uses them, else a scripted offline model.
 */
const root = join(import.meta.dirname, "..");
const svc = [process.execPath, join(root, "src", "cli", "main.ts")] as const;
const endpoints = ["MODEL_API_BASE_URL", "ANTHROPIC_BASE_URL"];

const task =
  "Add a function toCelsius (degrees Fahrenheit to degrees Celsius) beside toFahrenheit in src/temperature.js, with a test, and commit it.";

const main = async (): Promise<number> => {
  const found = credentialsFound();
  const directory = await mkdtemp(join(tmpdir(), "svc-demo-"));
  const offline = found.length === 0 ? await startFakeModel() : null;
  say(
    offline === null
      ? `Model: the real one, with ${found.join(", ")} from the environment.`
      : `Model: NONE. No credentials are set, so the agent CLI talks to a scripted offline stand-in on ${offline.url}.\n` +
          "       The agent CLI, git, the service and the repository are real; what the model says is not.",
  );
  const remote = await makeRepository(directory);
  say(`Repository: ${remote}`);
  const service = startService(
    directory,
    offline === null ? {} : { MODEL_API_BASE_URL: offline.url, MODEL_API_AUTH_TOKEN: "offline-demo" },
  );
  try {
    const url = await service.url;
    say(`Service: ${url} (files under ${directory})\nTask: ${task}\n`);
    const port = new URL(url).port;
    const code = await exitCode(svc, ["run", task, "--repo", remote, "--wait"], {
      ...baseEnv(directory),
      SERVICE_PORT: port,
    });
    say(`\nThe remote's branches now:`);
    await exitCode(
      ["git", "-C", remote],
      ["log", "--oneline", "--decorate", "--branches"],
      baseEnv(directory),
    );
    if (offline !== null) say(`\nThe cost is what a real model would have cost: nothing was spent.`);
    say(`\nThe service of the demo has ended: the commands beside "Next" need one that runs (svc serve).`);
    say(`Everything is in ${directory}; remove it when you have looked around.`);
    return code;
  } finally {
    await service.stop();
    await offline?.close();
  }
};

const startService = (directory: string, env: Record<string, string>) => {
  const passed = [...credentials, ...endpoints].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  const child = spawn(svc[0], [svc[1], "serve", "--port", "0"], {
    env: {
      ...baseEnv(directory),
      SERVICE_AGENT_CLI_BINARY: join(root, "node_modules", ".bin", "claude"),
      SERVICE_OTEL_ENABLED: "false",
      SERVICE_LOG_LEVEL: "error",
      ...Object.fromEntries(passed),
      ...env,
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = (async () => {
    for await (const line of createInterface({ input: child.stdout })) {
      const match = /listening on (http\S+)/.exec(line);
      if (match?.[1] !== undefined) return match[1];
    }
    throw new Error("the service did not start");
  })();
  return {
    url,
    stop: async (): Promise<void> => {
      if (child.exitCode !== null) return;
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
    },
  };
};

/** A home of the demo's own: nothing of the user's is read or written. */
const baseEnv = (home: string): Record<string, string> => {
  const kept = ["PATH", "LANG", "TERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS"].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return { ...(Object.fromEntries(kept) as Record<string, string>), HOME: home };
};

const exitCode = async (
  command: readonly string[],
  args: string[],
  env: Record<string, string>,
): Promise<number> => {
  const [program = "", ...first] = command;
  const child = spawn(program, [...first, ...args], { env, stdio: "inherit" });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
};

const say = (text: string): void => void process.stdout.write(`${text}\n`);

process.exitCode = await main();
