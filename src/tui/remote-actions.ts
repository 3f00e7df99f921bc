import { converse } from "../cli/chat/converse.ts";
import { untilAnswered } from "../client/completion.ts";
import { repositoryOf } from "../cli/commands/input.ts";
import { checkFact } from "../view/service.ts";
import type { ExitCode } from "../cli/failure.ts";
import { layoutOf } from "../cli/print.ts";
import { factLines, type Fact } from "../view/columns.ts";
import { oneLine, sanitise } from "../view/sanitise.ts";
import type { Client } from "../client/client.ts";
import type { Remote } from "../fleet/fleet.ts";
import type { Action } from "./actions.ts";
import { formScreen } from "./form-screen.ts";
import { runWithTerminal } from "./takeover.ts";
import { textScreen } from "./text-screen.ts";
import type { Takeover } from "./ui.ts";
import type { World } from "./world.ts";

type Context = {
  /** Messages with the same one are one conversation. */
  conversation: string;
  /** Whether an agent that it answers for is a local package too. */
  hasPackage: boolean;
  openJob: (id: string) => void;
};

/** How long it may take to reach an instance, ms. */
const reachMs = 30_000;

/** What can be done with an instance of this kind. */
export const remoteActions = (world: World, remote: Remote, context: Context): Action[] => {
  const { ui, fleet, gitHost } = world;
  const { conversation, hasPackage, openJob } = context;
  const name = oneLine(remote.name);

  /** Asks the instance, and shows the answer. */
  const page = (title: string, load: (client: Client, signal: AbortSignal) => Promise<string>) =>
    textScreen(ui, {
      title: `${title}  ${name}`,
      load: async (signal) => {
        await using reached = await fleet.reach(remote, signal);
        return await load(reached.client, signal);
      },
    });

  const chat = (): void =>
    ui.open(
      formScreen(ui, {
        title: `Remote Chat  ${name}`,
        fields: [{ label: "Message", hint: "the agent remembers earlier ones" }],
        submit: ([message = ""]) =>
          ui.replace(page("Remote Chat", (client, signal) => answer(client, message, conversation, signal))),
      }),
    );

  const submit = (): void =>
    ui.open(
      formScreen(ui, {
        title: `Submit job  ${name}`,
        fields: [
          { label: "Task", hint: "in plain words" },
          { label: "Repository", hint: "its address; empty: an empty directory" },
        ],
        submit: ([task = "", repository = ""]) =>
          ui.attempt(async () => {
            ui.say("Submitting");
            const signal = AbortSignal.timeout(reachMs);
            await using reached = await fleet.reach(remote, signal);
            const { job } = await reached.client.run_task(
              { task, repo_url: repositoryOf(repository, gitHost) },
              { signal },
            );
            ui.back();
            openJob(job.id);
          }),
      }),
    );

  const talk: Takeover = async () => {
    const signal = AbortSignal.timeout(reachMs);
    await using reached = await fleet.reach(remote, signal);
    return await liveChat(reached.client, reached.url, signal);
  };

  const sync = async (signal: AbortSignal): Promise<string> =>
    Object.entries(await fleet.sync(remote, signal))
      .map(([target, result]) => `${oneLine(target)}  ${oneLine(result)}`)
      .join("\n");

  const run = (program: ReturnType<typeof fleet.shell>): void => ui.takeOver(() => runWithTerminal(program));

  const inPod: Action[] = [
    { name: "Exec shell", about: "a shell where it runs", run: () => run(fleet.shell(remote)) },
    { name: "Logs", about: "follow its log", run: () => run(fleet.logs(remote)) },
  ];
  const forAgents: Action[] = [
    { name: "Remote Chat", about: "a message, and its answer", run: chat },
    ...(hasPackage
      ? [{ name: "Live Chat", about: "a conversation, word by word", run: () => ui.takeOver(talk) }]
      : []),
  ];
  return [
    ...(remote.kind === "agent" ? forAgents : []),
    { name: "Submit job", about: "a task for its agent", run: submit },
    {
      name: "Sync repos",
      about: "fetch its companion repositories",
      run: () => ui.open(textScreen(ui, { title: `Sync repos  ${name}`, load: sync })),
    },
    ...(remote.source === "kubernetes" ? inPod : []),
    {
      name: "Health",
      about: "is it up, does it accept jobs",
      run: () => ui.open(page("Health", healthOf)),
    },
  ];
};

/** Leaving ends the turn. */
const answer = async (
  client: Client,
  message: string,
  uuid: string,
  signal: AbortSignal,
): Promise<string> => {
  await client.agent_completions({ message, uuid, wait: false }, { signal });
  const { result, error, status } = await untilAnswered(client, uuid, signal);
  return sanitise(result ?? error ?? `The turn is ${status}`);
};

const liveChat = async (client: Client, baseUrl: string, signal: AbortSignal): Promise<ExitCode> => {
  const [first] = await client.chatModels({ signal });
  if (first === undefined) throw new Error("The instance has no agent to talk to: see its Health");
  const talk = { conversation: crypto.randomUUID(), model: first.id, user: null, timeout: null };
  return await converse({ client, baseUrl, talk: { ...talk, live: true, hide: new Set(), full: false } });
};

const healthOf = async (client: Client, signal: AbortSignal): Promise<string> => {
  const [health, readiness] = await Promise.all([client.health({ signal }), client.ready({ signal })]);
  const layout = layoutOf(process.stdout);
  const facts: Fact[] = [
    ["Status", oneLine(`${health.status}, ${readiness.ready ? "accepts jobs" : "refuses jobs"}`)],
    ["Reasons", readiness.reasons.map(oneLine).join("\n"), "prose"],
    ...readiness.checks.map((check) => checkFact(check, layout.paint)),
  ];
  return factLines(facts, layout).join("\n");
};
