import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { isMissing } from "./contained.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The file `{sessionId}.jsonl` of any directory in `projects`; of several (a session that was resumed in another place) the one written last.
 * A link is not followed: agents can write in there.
 */
export const findTranscript = async (projects: string, sessionId: string): Promise<string | null> => {
  if (!uuid.test(sessionId)) return null;
  let newest: { path: string; writtenAt: number } | null = null;
  const entries = await readdir(projects, { withFileTypes: true }).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  for (const project of entries.filter((entry) => entry.isDirectory())) {
    const path = join(projects, project.name, `${sessionId}.jsonl`);
    const status = await lstat(path).catch(() => null);
    if (status?.isFile() !== true || status.mtimeMs <= (newest?.writtenAt ?? -1)) continue;
    newest = { path, writtenAt: status.mtimeMs };
  }
  return newest?.path ?? null;
};
