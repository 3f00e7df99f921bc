import { join } from "node:path";
import type { z } from "zod";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createClient } from "../client/client.ts";
import { transcriptOperations, type TranscriptOperations } from "../contract/transcript.ts";
import { answerBytes } from "./answer-size.ts";
import { createTranscriptHandlers } from "./handlers.ts";
import type { Models } from "./models.ts";
import type { LiveSession } from "./search-handlers.ts";
import { append, assistantLine, lines, newSource, quiet, userLine } from "./transcript-index.fixture.ts";
import { openTranscriptIndex } from "./transcript-index.ts";
import { openVectors } from "./vectors.ts";

export const token = ["ghp", "q7Rk2ZpX9vLm4TbN8wYc6HdJ3sFgA5uE1iKo"].join("_");

type Options = {
  models?: Models;
  url?: string;
  apiKey?: string;
  redact?: boolean;
  liveSession?: LiveSession;
};

/** The tools over a real index in a new file; every answer is checked against its schema, which allows no other field. */
export const startTools = async ({
  models = { embed: null, complete: null },
  url = "http://127.0.0.1:9",
  apiKey,
  redact = true,
  liveSession = "none",
}: Options = {}) => {
  const path = join(await temporaryDirectory(), "bridge", "transcripts.db");
  const index = openTranscriptIndex({ path, log: quiet });
  const vectors = openVectors(path);
  afterFile(() => (vectors.close(), index.close()));
  const read: object[] = [];
  const clock = { now: Date.parse("2026-03-02T12:00:00Z") };
  const handlers = createTranscriptHandlers({
    library: index,
    collect: async () => ({
      files_scanned: 3,
      sessions_updated: 2,
      entries_added: 1,
      memory_files_indexed: 0,
      plans_indexed: 0,
      history_entries_added: 0,
      duration_ms: 4,
    }),
    models,
    vectors,
    orchestrator: { client: createClient({ baseUrl: url, apiKey }), url },
    settings: { redact },
    liveSession,
    answerBytes,
    log: { ...quiet, info: (line: object) => void read.push(line) },
    now: () => clock.now,
  });

  const ask = async <Name extends keyof TranscriptOperations>(
    name: Name,
    given: z.input<TranscriptOperations[Name]["input"]>,
    context: { signal?: AbortSignal; idempotencyKey?: string } = {},
  ): Promise<z.output<TranscriptOperations[Name]["output"]>> => {
    const { input, output } = transcriptOperations[name];
    // Input and handler fit each other by name, which the compiler cannot see in a lookup.
    const handle = handlers[name] as unknown as (input: unknown, context: object) => Promise<object>;
    const signal = AbortSignal.timeout(60_000);
    const answer = await handle(input.parse(given), { principal: "ana", signal, ...context });
    output.strict().parse(answer);
    return answer as z.output<TranscriptOperations[Name]["output"]>;
  };

  /** Adds a session of these lines. */
  const session = (id: string, ...records: unknown[]) =>
    append(index, newSource("session", `/h/projects/p/${id}.jsonl`), lines(...records));

  return { index, vectors, handlers, ask, session, read, clock };
};

/** `turns` questions with an answer each. */
export const talk = (turns: number, text = "text"): unknown[] =>
  Array.from({ length: turns }, (_, turn) => [
    userLine(`question ${turn} ${text}`),
    assistantLine(`answer ${turn} ${text}`),
  ]).flat();
