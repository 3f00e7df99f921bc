import { randomUUID } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { loginDirectory } from "../../config/model-credential.ts";
import type { Box } from "../../lib/process/supervise.ts";
import { createMeter, type Meter } from "../../sandbox/meter.ts";
import { noSandbox, type Run, type Sandbox } from "../../sandbox/sandbox.ts";
import type { AgentLaunch, AgentProcess, AgentStart } from "../agent.ts";
import { projectName } from "./project-name.ts";
import { modelVariables, ownMcpInside, waysOut, type TelemetryReceiver, type WaysOut } from "./routes.ts";
import type { ClaudeSettings } from "./settings.ts";

/** What is around all agents. */
export type Surroundings = {
  settings: ClaudeSettings;
  /** The service's own environment, of which the agent gets an allow-list. */
  env: NodeJS.ProcessEnv;
  /** The service's own receiver of telemetry; null or absent: there is none. */
  receiver?: () => TelemetryReceiver | null;
  /** Origins at which the service itself is reached, the nearest first; absent: it is not yet known. */
  origins?: () => readonly string[];
  /** Absent: none. */
  sandbox?: Sandbox;
};

/** Where a process runs. */
type Place = {
  box: Box | null;
  sandbox: AgentProcess["sandbox"];
  warnings: readonly string[];
  /** Counts what it spends at the model; null: nothing does. */
  meter: Meter | null;
  /** What its environment is made of. */
  given: Pick<WaysOut["inside"], "settings" | "receiver"> & { inside?: Record<string, string> };
  close: () => Promise<void>;
};

/** Readies the sandbox of a process, if there is one. @throws Error with a sentence when it cannot be made */
export const openPlace = async (
  request: AgentStart,
  { settings, env, receiver, origins, sandbox = noSandbox }: Surroundings,
  onDenied: Run["onDenied"],
): Promise<Place> => {
  const outside = { settings, receiver: receiver?.() ?? null };
  const facts = { mode: sandbox.mode, network: "open", limits: "none" } as const;
  const nothing = { box: null, meter: null, warnings: [], close: async () => undefined };
  const open = { ...nothing, sandbox: facts, given: outside };
  if (sandbox.mode === "off") return open;
  const own = await ownMcp(request.launch, origins?.() ?? []);
  const [word, meter] = [randomUUID(), createMeter()];
  const agentOauthToken = settings.agentOauthToken ?? (await loginToken(settings));
  const ways = waysOut({ ...outside, settings: { ...settings, agentOauthToken }, own, word, meter });
  const entered = await sandbox.enter({ ...(await runOf(request, { settings, env, ways })), word, onDenied });
  if (entered === null) return open;
  const { box, limits, model, warnings } = entered;
  const { allowed, secrets = [] } = request.launch;
  const network = allowed.hosts.length + secrets.length > 0 ? "hosts" : "model";
  return {
    box,
    sandbox: { mode: sandbox.mode, network, limits },
    warnings,
    meter,
    given: { ...ways.inside, inside: { ...modelVariables(model), ...entered.env } },
    close: async () => await entered[Symbol.asyncDispose](),
  };
};

/** Lets the run's MCP configuration name the service as it is called inside. Resolves to where it is; null: it is not named. */
const ownMcp = async ({ mcpConfigFile }: AgentLaunch, origins: readonly string[]): Promise<string | null> => {
  if (mcpConfigFile === null) return null;
  const changed = ownMcpInside(await readFile(mcpConfigFile, "utf8"), origins);
  if (changed !== null) await writeFile(mcpConfigFile, changed);
  return changed === null ? null : (origins[0] ?? null);
};

/** Of the CLI's own login, if there is no other credential; null: there is none. Only the CLI outside can renew it. */
export const loginToken = async (settings: ClaudeSettings): Promise<string | null> => {
  const { modelAuthToken, modelApiKey, modelBaseUrl } = settings;
  if ([modelAuthToken, modelApiKey, modelBaseUrl].some((given) => given !== null)) return null;
  const text = await readFile(join(loginDirectory(settings), ".credentials.json"), "utf8").catch(() => "");
  return /"claudeAiOauth"\s*:\s*\{[^}]*"accessToken"\s*:\s*"([^"\\]+)"/.exec(text)?.[1] ?? null;
};

/** What a sandboxed process may see. */
const runOf = async (
  { cwd, launch, session, borrows = [], also = [] }: AgentStart,
  { settings, env, ways }: Pick<Surroundings, "settings" | "env"> & { ways: WaysOut },
): Promise<Omit<Run, "word" | "onDenied">> => {
  const project = projectName(cwd);
  const transcripts = join(launch.projectsDir, project);
  const { resumeFrom } = session;
  const elsewhere = resumeFrom === null || basename(dirname(resumeFrom)) === project ? [] : [resumeFrom];
  await mkdir(transcripts, { recursive: true, mode: 0o700 });
  return {
    command: settings.agentCliBinary,
    path: env["PATH"] ?? "",
    home: settings.agentHome,
    cwd,
    writable: [launch.configDir, transcripts, ...also],
    readable: [...borrows, ...elsewhere],
    mounts: launch.mounts,
    ports: launch.ports,
    routes: ways.routes,
    ...(launch.secrets && { secrets: launch.secrets }),
    allowed: { ...launch.allowed, hosts: [...launch.allowed.hosts, ...ways.hosts] },
  };
};
