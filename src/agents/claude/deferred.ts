import { readFile } from "node:fs/promises";

/** Whether a session's transcript leaves a call deferred, which is asked about again when it is resumed. */
export const hasDeferred = async (transcript: string): Promise<boolean> => {
  const lines = (await readFile(transcript, "utf8").catch(() => "")).split("\n");
  const at = lines.findLastIndex((line) => line.includes('"hook_deferred_tool"'));
  const [, id] = /"toolUseID":"([^"]+)"/.exec(lines[at] ?? "") ?? [];
  if (id === undefined) return false;
  return !lines
    .slice(at)
    .some((line) => line.includes('"tool_result"') && line.includes(`"tool_use_id":"${id}"`));
};
