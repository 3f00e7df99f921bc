import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { converse } from "../cli/chat/converse.ts";
import { askMessage } from "../cli/chat/prompt.ts";
import { repositoryOf } from "../cli/commands/input.ts";
import { CliError, exitCode, type ExitCode } from "../cli/failure.ts";
import { interruptible } from "../cli/interruption.ts";
import { waitForJob } from "../cli/live/follow.ts";
import { layoutOf, note, print } from "../cli/print.ts";
import type { Client } from "../client/client.ts";
import { untilAnswered } from "../client/completion.ts";
import type { Reached, Remote, Takeover } from "../fleet/fleet.ts";
import type { LocalAgent } from "../main/local-agents.ts";
import { factLines } from "../view/columns.ts";
import { oneLine, sanitise } from "../view/sanitise.ts";
import { readinessFacts } from "../view/service.ts";
import type { Action, AgentsContext } from "./agents.ts";

type Listed = { name: string; about: string; run: Action["run"] };

/** How long it may take to reach an instance, ms. */
const reachMs = 30_000;

type With = {
  /** Messages with the same one are one conversation. */
  conversation: string;
  /** Whether an agent that it answers for is a local package too. */
  hasPackage: boolean;
};

export const remoteActions = (
  { fleet, gitHost }: AgentsContext,
  remote: Remote,
  { conversation, hasPackage }: With,
): Listed[] => {
  const reach = async <Result>(work: (reached: Reached) => Promise<Result>): Promise<Result> => {
    await using reached = await fleet.reach(remote, AbortSignal.timeout(reachMs));
    return await work(reached);
  };
  const chat = async (): Promise<ExitCode> => {
    const message = await askText("Message (the agent remembers earlier ones)");
    if (message === "") return exitCode.ok;
    note("Waiting for the answer; Ctrl-C ends the turn");
    return await reach(({ client }) => answer(client, message, conversation));
  };
  const submit = async (): Promise<ExitCode> => {
    const task = await askText("Task, in plain words");
    if (task === "") return exitCode.ok;
    const repo_url = repositoryOf(await askText("Repository (nothing: an empty directory)"), gitHost);
    return await reach(async ({ client }) => {
      const { job } = await client.run_task({ task, repo_url });
      return await waitForJob({ client, job, json: false });
    });
  };
  const sync = () =>
    interruptible(async (signal) => {
      for (const [target, result] of Object.entries(await fleet.sync(remote, signal)))
        print(`${oneLine(target)}  ${oneLine(result)}`);
      return exitCode.ok;
    });
  const forAgents: Listed[] = [
    { name: "Remote Chat", about: "a message, and its answer", run: chat },
    ...(hasPackage
      ? [{ name: "Live Chat", about: "a conversation, word by word", run: () => reach(liveChat) }]
      : []),
  ];
  const inPod: Listed[] = [
    { name: "Exec shell", about: "a shell where it runs", run: () => runProgram(fleet.shell(remote)) },
    { name: "Logs", about: "follow its log", run: () => runProgram(fleet.logs(remote)) },
  ];
  return [
    ...(remote.kind === "agent" ? forAgents : []),
    { name: "Submit job", about: "a task for its agent", run: submit },
    { name: "Sync repos", about: "fetch its companion repositories", run: sync },
    ...(remote.source === "kubernetes" ? inPod : []),
    { name: "Health", about: "is it up, does it accept jobs", run: () => reach(showHealth) },
  ];
};

/** As `svc logs -f`. */
export const followAction = ({ fleet }: AgentsContext, remote: Remote, id: string): Action => ({
  title: `Job ${oneLine(id.slice(0, 8))}`,
  run: async () => {
    await using reached = await fleet.reach(remote, AbortSignal.timeout(reachMs));
    const { job } = await reached.client.get_job({ job_id: id });
    return await waitForJob({ client: reached.client, job, json: false });
  },
});

/** A text that the user types, of one line or several; empty: none. */
const askText = async (what: string): Promise<string> => {
  print(what);
  return (await askMessage())?.trim() ?? "";
};

const answer = (client: Client, message: string, uuid: string): Promise<ExitCode> =>
  interruptible(async (signal) => {
    await client.agent_completions({ message, uuid, wait: false }, { signal });
    const { result, error, status } = await untilAnswered(client, uuid, signal);
    print(sanitise(result ?? error ?? `The turn is ${status}`));
    return exitCode.ok;
  });

const liveChat = async ({ client, url }: Reached): Promise<ExitCode> => {
  const [first] = await client.chatModels();
  if (first === undefined) throw new CliError("The instance has no agent to talk to: see its Health");
  const talk = { conversation: crypto.randomUUID(), model: first.id, user: null, timeout: null };
  return await converse({
    client,
    baseUrl: url,
    talk: { ...talk, live: true, hide: new Set(), full: false },
  });
};

const showHealth = async ({ client }: Reached): Promise<ExitCode> => {
  const signal = AbortSignal.timeout(reachMs);
  const layout = layoutOf(process.stdout);
  print(factLines(readinessFacts(await client.ready({ signal }), layout.paint), layout).join("\n"));
  return exitCode.ok;
};

export const packageActions = ({ agentCli }: AgentsContext, agent: LocalAgent): Listed[] => {
  const { path, system_prompt: prompt } = agent;
  const files = join(path, "package");
  const chat = {
    args: prompt === null ? [] : ["--append-system-prompt", prompt],
    cwd: existsSync(files) ? files : path,
  };
  const edit = { program: "sh", args: ["-c", editor, "sh", path] };
  const config = async (): Promise<ExitCode> => {
    print(sanitise(JSON.stringify(agent, null, 2)));
    return exitCode.ok;
  };
  return [
    {
      name: "Open Chat",
      about: "the agent CLI with this package",
      run: async () => runProgram({ program: await agentCli(), ...chat }),
    },
    { name: "Open in editor", about: "in $VISUAL or $EDITOR", run: () => runProgram(edit) },
    { name: "View Config", about: "its definition, prompt and servers", run: config },
  ];
};

/** The variables may have options. */
const editor = 'eval "${VISUAL:-${EDITOR:-vi}} \\"\\$1\\""';

/** Gives a program the terminal until it ends. Ctrl-C is for the program; a SIGTERM ends it, and is the result. */
const runProgram = async ({ program, args, cwd }: Takeover & { cwd?: string }): Promise<ExitCode> => {
  const ignore = (): void => undefined;
  const terminated = new AbortController();
  const terminate = (): void => terminated.abort();
  process.on("SIGINT", ignore).once("SIGTERM", terminate);
  try {
    const child = spawn(program, args, { stdio: "inherit", cwd, signal: terminated.signal });
    const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
    if (code === 0 || signal !== null || code === exitCode.interrupted) return exitCode.ok;
    throw new CliError(`${program} ended with exit code ${code}`);
  } catch (error) {
    if (terminated.signal.aborted) return exitCode.terminated;
    if (error instanceof CliError || !(error instanceof Error)) throw error;
    throw new CliError(`${program} could not be started: ${error.message}`);
  } finally {
    process.removeListener("SIGINT", ignore).removeListener("SIGTERM", terminate);
  }
};
