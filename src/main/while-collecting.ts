import { pause } from "../lib/wait.ts";
import type { Answer } from "../mcp/answer.ts";
import type { Progress } from "../transcripts/collector.ts";

type Collecting = {
  /** The first reading of all files. Never rejects. */
  first: Promise<unknown>;
  progress: () => Progress;
  waitMs?: number;
};

/** Less than this is read at once, bytes. */
const muchUnread = 1024 * 1024;

/** Answers wait up to five seconds for the first reading of all files. All say how far it, or a long one later, is. */
export const whileCollecting = (answer: Answer, { first, progress, waitMs = 5000 }: Collecting): Answer => {
  const ended = new AbortController();
  void first.then(() => ended.abort());
  let waited: Promise<void> | null = null;
  return async (name, given, context) => {
    await (waited ??= pause(waitMs, ended.signal));
    const { collected_bytes: read, total_bytes: all } = progress();
    const isCollecting = !ended.signal.aborted || all - read >= muchUnread;
    const { body, code } = await answer(name, given, context);
    if (!isCollecting) return { body, code };
    const { success, ...rest } = body;
    return { body: { success, collecting: true, ...progress(), ...rest }, code };
  };
};
