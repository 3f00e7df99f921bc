import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { SaidMessage } from "../agent.ts";
import { cancelLine, messageLine } from "./arguments.ts";
import { CancelResponse, Replay } from "./wire.ts";

type Options = {
  /** Writes to the CLI; drops what comes after the end of its input. */
  write: (line: string) => void;
  /** The resumed session's transcript; null: it is a new one. */
  transcript: string | null;
  /** Whether the agent waits for an answer of a person. */
  isAsking: () => boolean;
  onHeard: (message: SaidMessage) => void;
};

/**
 * What is said while a turn runs. The CLI keeps it in a queue, and replays the line when it takes it up.
 *
 * A message is `kept` until the turn listens, then `written`, and forgotten when it is heard or taken back. An id goes to one
 * process once: the CLI replays the second line at once, although the first one still waits.
 */
export const createMessages = ({ write, transcript, isAsking, onHeard }: Options) => {
  const pending = new Map<string, { message: SaidMessage; isWritten: boolean }>();
  /** By the id of the request: what the CLI says to it. */
  const recalls = new Map<string, (isCancelled: boolean) => void>();
  let phase: "kept" | "written" | "closed" = "kept";
  let before: Promise<string> | null = null;

  const give = (entry: { message: SaidMessage; isWritten: boolean }): void => {
    const { message } = entry;
    entry.isWritten = true;
    // There is nothing to cut off, and the question would be dropped.
    write(messageLine(message.when === "now" && isAsking() ? { ...message, when: "next" } : message));
  };
  const cancel = (id: string): Promise<boolean> => {
    const requestId = randomUUID();
    const { promise, resolve } = Promise.withResolvers<boolean>();
    recalls.set(requestId, (isCancelled) => {
      recalls.delete(requestId);
      if (isCancelled) pending.delete(id);
      resolve(isCancelled);
    });
    write(cancelLine(requestId, id));
    return promise;
  };
  const close = (): void => {
    phase = "closed";
    for (const resolve of recalls.values()) resolve(false);
  };

  return {
    say: async (message: SaidMessage): Promise<boolean> => {
      before ??= transcript === null ? Promise.resolve("") : readFile(transcript, "utf8").catch(() => "");
      if (hasHeard(await before, message.id)) {
        onHeard(message);
        return true;
      }
      if (phase === "closed") return false;
      const entry = { message, isWritten: false };
      pending.set(message.id, entry);
      if (phase === "written") give(entry);
      return true;
    },
    takeBack: async (id: string): Promise<boolean> => {
      const entry = pending.get(id);
      if (entry === undefined || phase === "closed") return false;
      if (entry.isWritten) return await cancel(id);
      return pending.delete(id);
    },
    /** The line of a message that begins the turn. */
    begin: (message: SaidMessage): string => {
      pending.set(message.id, { message, isWritten: true });
      return messageLine({ ...message, when: "next" });
    },
    /** What is said from now on is written at once. Before this it is kept: a question that was deferred would be lost. */
    open: (): void => {
      if (phase !== "kept") return;
      phase = "written";
      for (const entry of pending.values()) if (!entry.isWritten) give(entry);
    },
    /** Takes a line of the CLI; false: it is about something else. */
    take: (line: unknown): boolean => {
      const replay = Replay.safeParse(line);
      if (replay.success) {
        const heard = pending.get(replay.data.uuid)?.message;
        pending.delete(replay.data.uuid);
        if (heard !== undefined) onHeard(heard);
        return true;
      }
      const { data } = CancelResponse.safeParse(line);
      const resolve = data && recalls.get(data.response.request_id);
      resolve?.(data?.response.response?.cancelled === true);
      return resolve !== undefined;
    },
    /** Whether the CLI has something in its queue: it begins a turn with it. */
    isWaiting: (): boolean => [...pending.values()].some(({ isWritten }) => isWritten),
    /** The turn is about to be deferred. What the CLI had in its queue would begin another one, and the question would be lost. */
    recall: (): void => {
      for (const [id, { isWritten }] of pending) if (isWritten) void cancel(id);
      phase = "closed";
    },
    /** No more is taken. */
    close,
  };
};

/** Of the messages that a turn was begun with, and of those that came in the middle of one. */
const hasHeard = (transcript: string, id: string): boolean =>
  transcript.includes(`"uuid":"${id}"`) || transcript.includes(`"source_uuid":"${id}"`);
