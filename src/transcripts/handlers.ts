import type { BridgeSettings } from "../config/bridge-variables.ts";
import type { Handlers } from "../contract/operation.ts";
import { transcriptOperations, type TranscriptOperations } from "../contract/transcript.ts";
import type { Log } from "../lib/log.ts";
import { maskSecrets } from "../lib/secret-shapes.ts";
import { audited } from "./audit.ts";
import { catalogHandlers } from "./catalog-handlers.ts";
import { dispatchHandlers, type Orchestrator } from "./dispatch-handlers.ts";
import { knownSession } from "./entry-pages.ts";
import type { Collected } from "../contract/transcript.ts";
import type { Library } from "./library.ts";
import { maskedLibrary } from "./masked-library.ts";
import type { Models } from "./models.ts";
import { searchHandlers, type LiveSession } from "./search-handlers.ts";
import { createSemanticSearch } from "./semantic-search.ts";
import { sessionHandlers } from "./session-handlers.ts";
import { summaryOf } from "./summary.ts";
import type { Vectors } from "./vectors.ts";

type Dependencies = {
  library: Library;
  collect: (signal: AbortSignal) => Promise<Collected>;
  models: Models;
  vectors: Vectors;
  orchestrator: Orchestrator;
  settings: Pick<BridgeSettings, "redact">;
  liveSession: LiveSession;
  /** How long an answer may be. */
  answerBytes: number;
  log: Log;
  /** Unix time, ms. */
  now: () => number;
};

/** The 16 tools. Each call leaves a line in the log that says who read what. */
export const createTranscriptHandlers = (dependencies: Dependencies): Handlers<TranscriptOperations> => {
  const { collect, models, vectors, orchestrator, settings, liveSession, answerBytes, log, now } =
    dependencies;
  const masked = maskedLibrary(dependencies.library, maskSecrets);
  const mask = settings.redact ? maskSecrets : unchanged;
  const library = settings.redact ? masked : dependencies.library;
  const { embed, complete } = models;
  const semantic =
    embed === null ? null : createSemanticSearch({ library, masked, mask: maskSecrets, embed, vectors, now });
  const handlers: Handlers<TranscriptOperations> = {
    ...sessionHandlers(library, { answerBytes, now }),
    ...searchHandlers({ library, mask, semantic, liveSession, answerBytes, now }),
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
  return audited(transcriptOperations, handlers, log);
};

const unchanged = (text: string): string => text;
