import { readFile } from "node:fs/promises";
import type { Agent } from "../agent.ts";

const linesOf = async (transcript: string): Promise<string[]> =>
  (await readFile(transcript, "utf8").catch(() => "")).split("\n");

const isResultOf = (line: string, id: string): boolean =>
  line.includes('"tool_result"') && line.includes(`"tool_use_id":"${id}"`);

/** Whether a session's transcript leaves a call deferred, which is asked about again when it is resumed. */
export const hasDeferred = async (transcript: string): Promise<boolean> =>
  deferredIn(await linesOf(transcript)) !== null;

const deferredIn = (lines: readonly string[]): string | null => {
  const at = lines.findLastIndex((line) => line.includes('"hook_deferred_tool"'));
  const [, id] = /"toolUseID":"([^"]+)"/.exec(lines[at] ?? "") ?? [];
  return id === undefined || lines.slice(at).some((line) => isResultOf(line, id)) ? null : id;
};

/** A call that was cut off has an error as its result; so has a plan that was sent back, with the words of the person. */
export const findAnswer: Agent["findAnswer"] = async (transcript, { id, messageId, words }) => {
  const lines = await linesOf(transcript);
  if (deferredIn(lines) === id) return "asks_again";
  const isHeard = (line: string): boolean =>
    line.includes(`"uuid":"${messageId}"`) ||
    (isResultOf(line, id) && (!line.includes('"is_error":true') || (words !== "" && line.includes(words))));
  return lines.some(isHeard) ? "heard" : "lost";
};
