import { join } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import type { Source } from "./corpus.ts";
import { openTranscriptIndex, type TranscriptIndex } from "./transcript-index.ts";
import { newSource, quiet } from "./transcript-index.fixture.ts";

/** An index that is closed when its test ends. */
export const openAt = (path: string): TranscriptIndex => {
  const index = openTranscriptIndex({ path, log: quiet });
  onTestFinished(() => index.close());
  return index;
};

export const open = async (): Promise<TranscriptIndex> =>
  openAt(join(await temporaryDirectory(), "bridge", "t.db"));

/** A page of entries with all of them. */
export const all = { offset: 0, limit: 1000, since: null, until: null };

export const session = (name: string, rest: Partial<Source> = {}): Source =>
  newSource("session", `/h/projects/p/${name}.jsonl`, rest);

export const call = (name: string, input: object, id = "t1") => ({ type: "tool_use", id, name, input });

export const result = (content: unknown, is_error = false, tool_use_id = "t1") => ({
  type: "tool_result",
  tool_use_id,
  content,
  is_error,
});
