import { loadBridgeSettings } from "../../config/bridge-settings.ts";
import { ServiceError } from "../../contract/errors.ts";
import type { Handlers, RequestContext } from "../../contract/operation.ts";
import { transcriptOperations, type TranscriptOperations } from "../../contract/transcript.ts";
import { openBridge, type OpenBridge } from "../../main/bridge.ts";
import { version as number } from "../../main/version.ts";
import { usageError, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { note, printAnswer } from "../print.ts";
import type { Layout } from "../../view/paint.ts";
import * as pages from "./pages.ts";

type Json = { json?: boolean };
type Listed = Json & { project?: string; limit: number };

/** The commands that read: each asks a tool, after what is new has been collected. */

export const sessions = ({
  json,
  offset,
  sinceHours,
  ...rest
}: Listed & { offset: number; sinceHours: number }) =>
  ask("list_sessions", { ...filter(rest), offset, since_hours: sinceHours }, json, pages.sessions);

export const show = (session: string, { last, json }: Json & { last: number }) =>
  ask(
    "get_session",
    (bridge) => ({ session_id: wholeId(session, bridge), last_n: last }),
    json,
    pages.session,
  );

/** The beginning of an id stands for it, as in lists. @throws CliError when it begins several */
const wholeId = (given: string, { sessionsStartingWith }: OpenBridge): string => {
  const found = given.length < 4 ? [] : sessionsStartingWith(given);
  if (found.length < 2 || found.includes(given)) return found.find((id) => id === given) ?? found[0] ?? given;
  throw usageError(`${given} begins several ids: ${found.join(", ")}; give more of it`);
};

type SearchOptions = Listed & { since?: string; until?: string; role?: string; cursor?: string };

export const search = (query: string[], { json, project, limit, ...rest }: SearchOptions) =>
  ask(
    "search_sessions",
    { query: query.join(" "), ...filter({ project, limit }), ...rest },
    json,
    pages.matches,
  );

export const plans = (codename: string | undefined, { json, ...rest }: Listed) =>
  codename === undefined
    ? ask("list_plans", filter(rest), json, pages.plans)
    : ask("get_plan", { codename }, json, ({ content }) => pages.text(content));

export const memory = (project: string | undefined, file: string | undefined, { json }: Json) =>
  project === undefined
    ? ask("list_memory_files", {}, json, pages.memoryFiles)
    : ask("get_memory_file", { project, filename: file ?? "MEMORY.md" }, json, ({ content }) =>
        pages.text(content),
      );

export const history = (query: string | undefined, { json, ...rest }: Listed) =>
  ask("search_history", { query: query ?? "", ...filter(rest) }, json, pages.history);

export const collect = ({ json }: Json) => ask("collect_now", {}, json, pages.collected);

export const status = ({ json }: Json): Promise<ExitCode> =>
  withBridge(async (bridge, context) => {
    const { total } = await bridge.handlers.list_sessions(
      transcriptOperations.list_sessions.input.parse({}),
      context,
    );
    return printAnswer({ ...bridge.places, sessions: total }, json, pages.status);
  });

export const version = async ({ json }: Json): Promise<ExitCode> =>
  printAnswer({ name: "bridge", version: number }, json, () => `bridge ${number}`);

const filter = ({ project, limit }: { project?: string | undefined; limit: number }) => ({
  limit,
  ...(project !== undefined && { project }),
});

type Answer<Name extends keyof TranscriptOperations> = Awaited<
  ReturnType<Handlers<TranscriptOperations>[Name]>
>;

const ask = <Name extends keyof TranscriptOperations>(
  name: Name,
  given: Record<string, unknown> | ((bridge: OpenBridge) => Record<string, unknown>),
  json: boolean | undefined,
  page: (body: Answer<Name>, layout: Layout) => string,
): Promise<ExitCode> =>
  withBridge(async (bridge, context) => {
    const { handlers, inputOf, collect: bringUpToDate } = bridge;
    // What is refused is refused before anything is read.
    if (typeof given !== "function") inputOf(name, given);
    // Input and handler fit each other by name, which the compiler cannot see in a lookup.
    const handle = handlers[name] as unknown as (
      input: unknown,
      context: RequestContext,
    ) => Promise<Answer<Name>>;
    if (name !== "collect_now")
      await bringUpToDate(context.signal).catch((error: unknown) => {
        // What was read before can still be shown.
        if (!(error instanceof ServiceError)) throw error;
        note(`bridge: warning: what is new is not read: ${error.message}`);
      });
    const input = inputOf(name, typeof given === "function" ? given(bridge) : given);
    return printAnswer(await handle(input, context), json, page);
  });

/** Messages name tools; in a shell the commands that are the same. */
const inCommands = (message: string): string =>
  message.replaceAll(
    /\b(list_sessions|search_sessions|list_memory_files|list_plans)\b/g,
    (tool) => commands[tool] ?? tool,
  );

const commands: Record<string, string> = {
  list_sessions: "bridge sessions",
  search_sessions: "bridge search",
  list_memory_files: "bridge memory",
  list_plans: "bridge plans",
};

const withBridge = async (
  work: (bridge: OpenBridge, context: RequestContext) => Promise<ExitCode>,
): Promise<ExitCode> => {
  const { settings, warnings } = loadBridgeSettings(process.env, { role: "client" });
  for (const warning of warnings) note(`bridge: warning: ${warning}`);
  using interruption = catchInterruption();
  const { signal } = interruption;
  try {
    await using bridge = await openBridge({ settings, env: process.env, quiet: true });
    return await work(bridge, { signal, principal: "open" });
  } catch (error) {
    if (signal.aborted) return interruption.exit();
    throw error instanceof ServiceError
      ? new ServiceError(error.code, inCommands(error.message), { cause: error })
      : error;
  }
};
