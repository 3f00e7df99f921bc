import { loadBridgeSettings } from "../../config/bridge-settings.ts";
import { ServiceError } from "../../contract/errors.ts";
import type { RequestContext } from "../../contract/operation.ts";
import { transcriptOperations } from "../../contract/transcript.ts";
import { openBridge, type OpenBridge } from "../../main/bridge.ts";
import { version as number } from "../../main/version.ts";
import { factLines } from "../../view/columns.ts";
import { bytes, counted } from "../../view/quantities.ts";
import type { Layout } from "../../view/paint.ts";
import { oneLine } from "../../view/sanitise.ts";
import { transcriptViews } from "../../view/transcripts.ts";
import { usageError, type ExitCode } from "../failure.ts";
import { interruptible } from "../interruption.ts";
import { inCommands, type Asked } from "../operation-commands.ts";
import { note, printAnswer } from "../print.ts";

type Json = { json?: boolean };

/** A command that asks a tool, after what is new has been collected. */
export const ask = ({ name: asked, input: given, flags }: Asked): Promise<ExitCode> =>
  withBridge(async (bridge, context) => {
    const name = asked as keyof typeof transcriptViews;
    const { handlers, inputOf, collect } = bridge;
    // What is refused is refused before anything is read.
    inputOf(name, given);
    using progress = tellingProgress(bridge);
    if (name !== "collect_now") {
      await collect(context.signal).catch((error: unknown) => {
        // What was read before can still be shown.
        if (!(error instanceof ServiceError)) throw error;
        note(`bridge: warning: what is new is not read: ${error.message}`);
      });
      progress[Symbol.dispose]();
    }
    const { session_id: session } = given;
    const input = inputOf(
      name,
      typeof session === "string" ? { ...given, session_id: wholeId(session, bridge) } : given,
    );
    // Input, handler and view fit each other by name, which the compiler cannot see in a lookup.
    const handle = handlers[name] as unknown as (input: unknown, context: RequestContext) => Promise<object>;
    const view = transcriptViews[name] as (body: object, layout: Layout) => string;
    return printAnswer(await handle(input, context), flags["json"] === true, view);
  });

/** Says after a second, and then now and again, how far the reading of new files is. */
const tellingProgress = ({ progress }: OpenBridge): Disposable => {
  let timer = setTimeout(function tell() {
    const { collected_bytes: read, total_bytes: total } = progress();
    note(
      total === 0 ? "bridge: looking for transcripts" : `bridge: reading ${bytes(read)} of ${bytes(total)}`,
    );
    timer = setTimeout(tell, 10_000);
  }, 1000);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
};

/** The beginning of an id stands for it, as in lists. @throws CliError when it begins several */
const wholeId = (given: string, { sessionsStartingWith }: OpenBridge): string => {
  const found = given.length < 4 ? [] : sessionsStartingWith(given);
  if (found.length < 2 || found.includes(given)) return found.find((id) => id === given) ?? found[0] ?? given;
  throw usageError(`${given} begins several ids: ${found.join(", ")}; give more of it`);
};

export const status = ({ json }: Json): Promise<ExitCode> =>
  withBridge(async (bridge, context) => {
    const { list_sessions } = bridge.handlers;
    const { total } = await list_sessions(transcriptOperations.list_sessions.input.parse({}), context);
    const unread = { skipped: await bridge.skipped(), ...bridge.unread() };
    return printAnswer({ ...bridge.places, sessions: total, ...unread }, json, (found, layout) =>
      factLines(
        [
          ["Sessions", found.sessions.toLocaleString("en")],
          ["Read from", found.homes.map(oneLine).join("\n")],
          ["Not read", found.skipped.map(({ path, reason }) => oneLine(`${path}: ${reason}`)).join("\n")],
          ["Damaged", found.damaged_lines === 0 ? null : counted(found.damaged_lines, "line")],
          ["Unknown", Object.entries(found.unknown_lines).map(unknownLine).join("\n")],
          ["Store", oneLine(found.store)],
          ["Index", oneLine(found.index)],
          ["Orchestrator", oneLine(found.orchestrator)],
        ],
        layout,
      ).join("\n"),
    );
  });

const unknownLine = ([kind, lines]: [string, number]): string =>
  oneLine(`${counted(lines, "line")} of kind ${kind}`);

export const version = async ({ json }: Json): Promise<ExitCode> =>
  printAnswer({ name: "bridge", version: number }, json, () => `bridge ${number}`);

const withBridge = async (
  work: (bridge: OpenBridge, context: RequestContext) => Promise<ExitCode>,
): Promise<ExitCode> => {
  const { settings, warnings } = loadBridgeSettings(process.env, { role: "client" });
  for (const warning of warnings) note(`bridge: warning: ${warning}`);
  return await interruptible(async (signal) => {
    try {
      await using bridge = await openBridge({ settings, env: process.env, quiet: true });
      return await work(bridge, { signal, principal: "open" });
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      // Messages name tools; in a shell the commands that are the same.
      const message = inCommands(error.message, "bridge", transcriptOperations);
      throw new ServiceError(error.code, message, { cause: error });
    }
  });
};
