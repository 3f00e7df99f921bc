import type { BridgeSettings } from "../config/bridge-variables.ts";
import type { Handlers, RequestContext } from "../contract/operation.ts";
import type { Log } from "../lib/log.ts";
import { redactDeep, type Redact } from "../lib/redact.ts";
import { maskSecrets } from "../lib/secret-shapes.ts";
import { catalogHandlers } from "./catalog-handlers.ts";
import { dispatchHandlers, type Orchestrator } from "./dispatch-handlers.ts";
import { knownSession } from "./entry-pages.ts";
import type { Collected, TranscriptOperations } from "../contract/transcript.ts";
import type { Skipped } from "./collector.ts";
import type { Library } from "./library.ts";
import type { Models } from "./models.ts";
import { searchHandlers, type LiveSession } from "./search-handlers.ts";
import { createSemanticSearch } from "./semantic-search.ts";
import { sessionHandlers } from "./session-handlers.ts";
import { summaryOf } from "./session-text.ts";
import type { Vectors } from "./vectors.ts";

type Dependencies = {
  library: Library;
  collect: (signal: AbortSignal) => Promise<Collected>;
  /** Paths that look like transcripts and are not read. */
  skipped?: () => Promise<Skipped[]>;
  models: Models;
  vectors: Vectors;
  orchestrator: Orchestrator;
  settings: Pick<BridgeSettings, "redact">;
  liveSession: LiveSession;
  answerBytes: number;
  log: Log;
  /** Unix time, ms. */
  now: () => number;
};

/** The 16 tools. Each call leaves a line in the log that says who read what. */
export const createTranscriptHandlers = (dependencies: Dependencies): Handlers<TranscriptOperations> => {
  const { collect, skipped, models, vectors, orchestrator, settings, liveSession, answerBytes, log, now } =
    dependencies;
  const masked = maskedLibrary(dependencies.library, maskSecrets);
  const mask = settings.redact ? maskSecrets : unchanged;
  const library = settings.redact ? masked : dependencies.library;
  const { embed, complete } = models;
  const semantic =
    embed === null ? null : createSemanticSearch({ library, masked, mask: maskSecrets, embed, vectors, now });
  const handlers: Handlers<TranscriptOperations> = {
    ...sessionHandlers(library, { answerBytes, now, skipped }),
    ...searchHandlers({ library, semantic, liveSession, answerBytes, now }),
    ...catalogHandlers(library, answerBytes),
    ...dispatchHandlers({ library, orchestrator, mask }),
    collect_now: async (_, { signal }) => ({ success: true, ...(await collect(signal)) }),
    generate_summary: async ({ session_id }, { signal }) => {
      // The model is a third party: it never sees secrets.
      const seen = complete === null ? library : masked;
      const session = knownSession(seen, session_id);
      const summary = await summaryOf(seen, session, { complete, signal });
      return { success: true, session_id, ...summary };
    },
  };
  return audited(handlers, log);
};

const unchanged = (text: string): string => text;

/** What a call is about, as the log names it. */
const subjects = ["session_id", "resume_session_id", "project", "filename", "codename", "job_id", "uri"];

/** The same handlers, which log who read how much of what, without content. */
const audited = (handlers: Handlers<TranscriptOperations>, log: Log): Handlers<TranscriptOperations> => {
  type Handle = (given: Record<string, unknown>, context: RequestContext) => Promise<Record<string, unknown>>;
  const entries = Object.entries(handlers).map(([tool, handle]): [string, Handle] => [
    tool,
    async (given, context) => {
      // Input and handler fit each other by name, which the compiler cannot see in a lookup.
      const answer = await (handle as unknown as Handle)(given, context);
      const about = subjects.flatMap((name) => {
        const value = given[name];
        return typeof value === "string" && value !== "" ? [[name, value.slice(0, 200)]] : [];
      });
      const count = answer["count"] ?? answer["entry_count"] ?? 1;
      log.info({ principal: context.principal, tool, ...Object.fromEntries(about), count }, "read");
      return answer;
    },
  ]);
  return Object.fromEntries(entries) as unknown as Handlers<TranscriptOperations>;
};

/** The same library with secrets masked in all that is read from it, before anything is cut out of it. */
const maskedLibrary = (library: Library, mask: Redact): Library => {
  const masked = <Value>(value: Value): Value => redactDeep(value, mask);
  return {
    listSessions: (filter) => masked(library.listSessions(filter)),
    session: (id) => masked(library.session(id)),
    unread: () => library.unread(),
    sessionsStartingWith: (beginning) => library.sessionsStartingWith(beginning),
    entries: (id, range) => masked(library.entries(id, range)),
    actions: async (id, types) => {
      const { calls, actions } = await library.actions(id, types);
      return { calls, actions: masked(actions) };
    },
    // A preview may begin or end inside a secret, and its marks split words.
    search: (question) => masked(library.search(question, mask)),
    memoryFiles: (project) => masked(library.memoryFiles(project)),
    memoryFile: (project, filename) => masked(library.memoryFile(project, filename)),
    plans: (filter) => masked(library.plans(filter)),
    plan: (codename) => masked(library.plan(codename)),
    agentPlans: (codename) => masked(library.agentPlans(codename)),
    history: (filter) => masked(library.history(filter)),
  };
};
