import { readFile } from "node:fs/promises";

const linesOf = async (transcript: string): Promise<string[]> =>
  (await readFile(transcript, "utf8").catch(() => "")).split("\n");

/** Whether a session's transcript ends with a refused request: its turn can go on by itself when it is resumed. */
export const endsRefused = async (transcript: string): Promise<boolean> =>
  (await linesOf(transcript))
    .findLast((line) => /"type":"(user|assistant)"/.test(line))
    ?.includes('"isApiErrorMessage":true') === true;

/** Whether a session's transcript leaves a call deferred, which is asked about again when it is resumed. */
export const hasDeferred = async (transcript: string): Promise<boolean> => {
  const lines = await linesOf(transcript);
  const at = lines.findLastIndex((line) => line.includes('"hook_deferred_tool"'));
  const [, id] = /"toolUseID":"([^"]+)"/.exec(lines[at] ?? "") ?? [];
  if (id === undefined) return false;
  return !lines
    .slice(at)
    .some((line) => line.includes('"tool_result"') && line.includes(`"tool_use_id":"${id}"`));
};
