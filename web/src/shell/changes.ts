import type { JobChange } from "../../../src/contract/job-list.ts";
import { ClientError } from "../../../src/client/client-error.ts";
import { isSeen } from "./seen.ts";
import { client, connection, isBehind, lost, needsKey } from "./service.ts";

type Listener = (changes: readonly JobChange[]) => void;

const listeners = new Set<Listener>();

/**
 * Calls the listener with the changes of jobs, a few times a second at most, for as long as the page is open. `behind`:
 * what was read may be old. Returns the function that ends this.
 */
export const onChanges = (listener: Listener): (() => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

/** Milliseconds after which a connection that has ended is worth telling, as one that ends now and then is not. */
const briefMs = 3000;

const begun = Promise.withResolvers<void>();
let hasBegun = false;
const begin = (): void => {
  hasBegun = true;
  begun.resolve();
};
setTimeout(begin, 1000);

/** Resolves when changes come, or after a second. What was read before would have to be read again. */
export const following = begun.promise;

let waiting: JobChange[] = [];
let isLate: ReturnType<typeof setTimeout> | undefined;

const ended = (): void => {
  isLate ??= setTimeout(() => isBehind.set(true), briefMs);
  lost();
};

const receive = (change: JobChange): void => {
  if (change.type === "behind") {
    clearTimeout(isLate);
    isLate = undefined;
    isBehind.set(false);
    if (!hasBegun) return begin();
  }
  if (waiting.length === 0) {
    setTimeout(() => {
      const changes = waiting;
      waiting = [];
      for (const listener of listeners) listener(changes);
    }, 50);
  }
  waiting.push(change);
};

const longestPause = 30_000;

/** Reads the changes while this tab is seen: browsers open only six connections to a host. */
const follow = async (): Promise<void> => {
  for (;;) {
    await needsKey.until((isNeeded) => !isNeeded);
    await isSeen.until((seen) => seen);
    const hidden = new AbortController();
    void isSeen.until((seen) => !seen).then(() => hidden.abort());
    await readUntil(hidden.signal);
  }
};

/** Returns when the signal aborts, or when there is no valid key. */
const readUntil = async (signal: AbortSignal): Promise<void> => {
  let pause = 0;
  while (!signal.aborted) {
    await connection.until((state) => state !== "offline");
    const began = performance.now();
    try {
      const onOpen = (): void => receive({ type: "behind" });
      for await (const change of client().changes({ signal, onOpen })) receive(change);
    } catch (error) {
      if (error instanceof ClientError && error.status === 401) return needsKey.set(true);
    }
    if (signal.aborted) return;
    ended();
    // A connection that is refused, or ends at once, is asked for ever less often.
    pause = performance.now() - began > longestPause ? 0 : Math.min(longestPause, Math.max(500, pause * 2));
    await new Promise((resolve) => void setTimeout(resolve, pause));
  }
};

void follow();
