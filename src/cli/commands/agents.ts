import { randomUUID } from "node:crypto";
import { homedir } from "node:os";
import { resolve } from "node:path";
import { untilAnswered } from "../../client/completion.ts";
import { loadSettings } from "../../config/settings.ts";
import { createFleet } from "../../fleet/create-fleet.ts";
import type { Remote } from "../../fleet/fleet.ts";
import { suggestion } from "../../lib/nearest.ts";
import type { LocalAgent } from "../../main/local-agents.ts";
import { baseUrlOf } from "../connect.ts";
import { CliError, exitCode, isBug, usageError, type ExitCode } from "../failure.ts";
import { interruptible } from "../interruption.ts";
import { note, printJson } from "../print.ts";
import type { AgentsContext } from "../../tui/agents.ts";
import { oneLine } from "../../view/sanitise.ts";
import { readText, repositoryOf } from "./input.ts";

export type AgentsOptions = {
  headless?: boolean;
  agentihubDir?: string;
  pod?: string;
  agent?: string;
  message?: string;
  task?: string;
  repo?: string;
  wait: boolean;
};

/** `svc agents` */
export const agents = async (name: Action | undefined, options: AgentsOptions): Promise<ExitCode> => {
  if (options.headless !== true && name !== undefined)
    throw usageError(`${name} is a command for scripts: svc agents --headless ${name}`);
  if (options.headless !== true)
    return await (await import("../../tui/agents.ts")).agents(openContext(options));
  if (name === undefined)
    throw usageError(`--headless needs a command, one of ${Object.keys(actions).join(", ")}`);
  const context = openContext(options);
  return await interruptible((signal) => actions[name]({ context, options, signal }));
};

const openContext = ({ agentihubDir }: AgentsOptions): AgentsContext => {
  const { settings } = loadSettings({ env: process.env, role: "client" });
  if (agentihubDir === "") throw usageError("--agentihub-dir is empty: name a checkout of the agent hub");
  const directory = agentihubDir === undefined ? undefined : resolve(agentihubDir);
  return {
    fleet: createFleet({
      remotes: settings.remotes,
      baseUrl: baseUrlOf(settings),
      apiKey: settings.apiKey ?? settings.apiKeys[0],
      env: process.env,
    }),
    local: async () => {
      const { localAgents } = await import("../../main/local-agents.ts");
      return await localAgents({ settings, home: homedir(), directory }).catch((error: unknown) => {
        throw directory !== undefined && error instanceof Error && !isBug(error)
          ? usageError(error.message)
          : error;
      });
    },
    gitHost: settings.gitHost,
    agentCli: async () => {
      const { localAgentCli } = await import("../../main/local-agents.ts");
      return await localAgentCli(settings);
    },
  };
};

type Call = { context: AgentsContext; options: AgentsOptions; signal: AbortSignal };

const list = async ({ context, signal }: Call): Promise<ExitCode> => {
  const [{ remotes, faults }, local] = await Promise.all([
    context.fleet.list(signal),
    context.local().catch((error: unknown) => {
      if (!(error instanceof Error) || error instanceof CliError || isBug(error)) throw error;
      return error.message;
    }),
  ]);
  const packages = typeof local === "string" ? [] : local;
  if (typeof local === "string") faults.push(local);
  if (remotes.length + packages.length === 0) throw new CliError(faults.join("\nsvc: "));
  printJson({ success: true, remotes, local: packages.map(summaryOf), faults });
  return exitCode.ok;
};

const summaryOf = ({ name, path, description, error }: LocalAgent) => ({ name, path, description, error });

const local = async ({ context, options }: Call): Promise<ExitCode> => {
  const wanted = given(options.agent, "--agent", "the name of a package");
  const all = await context.local();
  const agent = all.find(({ name }) => name === wanted);
  if (agent === undefined) throw usageError(unknown("agent package", wanted, all));
  printJson({ success: true, agent });
  return exitCode.ok;
};

const chat = async (call: Call): Promise<ExitCode> => {
  const message = await readText(given(call.options.message, "--message", "what to say"), {
    noun: "message",
    longest: 1_000_000,
    empty: "say something to the agent",
  });
  const remote = await usableRemote(call);
  if (remote.kind !== "agent")
    throw usageError(`${remote.name} answers no chats: use job, or an instance with AGENT_MODE=true`);
  await using reached = await call.context.fleet.reach(remote, call.signal);
  const uuid = randomUUID();
  const { client } = reached;
  const submitted = await client.agent_completions({ message, uuid, wait: false }, { signal: call.signal });
  if (!call.options.wait) {
    printJson(submitted);
    return exitCode.ok;
  }
  const completion = await untilAnswered(client, uuid, call.signal);
  const success = completion.status === "completed";
  printJson({ success, ...completion });
  if (!success) note(`svc: ${oneLine(completion.error ?? `the completion is ${completion.status}`)}`);
  return success ? exitCode.ok : exitCode.failure;
};

const job = async (call: Call): Promise<ExitCode> => {
  const task = await readText(given(call.options.task, "--task", "what the agent is to do"), {
    noun: "task",
    longest: 100_000,
    empty: "say what the agent is to do",
  });
  const repo = repositoryOf(given(call.options.repo, "--repo", "the repository"), call.context.gitHost);
  const remote = await usableRemote(call);
  await using reached = await call.context.fleet.reach(remote, call.signal);
  printJson(await reached.client.run_task({ task, repo_url: repo }, { signal: call.signal }));
  return exitCode.ok;
};

const sync = async (call: Call): Promise<ExitCode> => {
  const results = await call.context.fleet.sync(await remoteOf(call), call.signal);
  printJson(results);
  const failed = Object.entries(results).filter(([, result]) => result.startsWith("error"));
  for (const [target, result] of failed) note(`svc: ${oneLine(`${target}: ${result}`)}`);
  return failed.length > 0 ? exitCode.failure : exitCode.ok;
};

const health = async (call: Call): Promise<ExitCode> => {
  await using reached = await call.context.fleet.reach(await remoteOf(call), call.signal);
  const limit = AbortSignal.timeout(10_000);
  printJson(await reached.client.health({ signal: AbortSignal.any([call.signal, limit]) }));
  return exitCode.ok;
};

const actions = { list, chat, job, sync, health, local };
type Action = keyof typeof actions;

/** The instance whose name is `--pod` or alone begins with it. */
const remoteOf = async ({ context, options, signal }: Call): Promise<Remote> => {
  const pod = given(options.pod, "--pod", "the beginning of an instance's name");
  const { remotes, faults } = await context.fleet.list(signal);
  if (remotes.length === 0) throw new CliError(faults.join("\nsvc: "));
  const begins = remotes.filter(({ name }) => name.startsWith(pod));
  const remote = begins.find(({ name }) => name === pod) ?? begins[0];
  if (remote === undefined) throw usageError(unknown("instance", pod, remotes));
  if (remote.name !== pod && begins.length > 1)
    throw usageError(`Several instances begin with ${pod}: ${namesOf(begins)}`);
  return remote;
};

/** One that answers: only then is it known what it takes. */
const usableRemote = async (call: Call): Promise<Remote> => {
  const remote = await remoteOf(call);
  if (remote.state === "unreachable") throw new CliError(`${remote.name}: ${remote.fault}`);
  return remote;
};

const given = (value: string | undefined, option: string, what: string): string => {
  if (value === undefined || value === "") throw usageError(`${option} is missing: give ${what}`);
  return value;
};

type Named = readonly { name: string }[];

const unknown = (noun: string, wanted: string, all: Named): string => {
  const names = all.map(({ name }) => name);
  const there = all.length === 0 ? "there is none" : `there are ${namesOf(all)}`;
  return `There is no ${noun} ${wanted}: ${there}${suggestion(wanted, names)}`;
};

const namesOf = (all: Named): string =>
  all
    .slice(0, 50)
    .map(({ name }) => name)
    .join(", ");
