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

/** `closed`: the connection has ended. `ask`: the tab that has it is to say `here`. */
type Message = JobChange | { type: "closed" } | { type: "ask" } | { type: "here" };

/*
 * Of several tabs one has the connection and tells the others: browsers open only six to a host, which four pages with
 * a job each would take up. When that tab is closed, the lock goes to the next. One that is frozen keeps the lock: it
 * does not answer, and another takes it away.
 */
const others = new BroadcastChannel("svc.changes");
const lock = "svc.changes";

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

const receive = (message: Message): void => {
  if (message.type === "closed") {
    isLate ??= setTimeout(() => isBehind.set(true), briefMs);
    return lost();
  }
  if (message.type === "ask") {
    if (isLeading) others.postMessage({ type: "here" } satisfies Message);
    return;
  }
  if (message.type === "here") {
    isAsking = false;
    return begin();
  }
  if (message.type === "behind") {
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
  waiting.push(message);
};

const tell = (message: Message): void => {
  others.postMessage(message);
  receive(message);
};

const longestPause = 30_000;

/** Reads the changes while this tab may; returns when it has no valid key. */
const lead = async (signal: AbortSignal): Promise<void> => {
  let pause = 0;
  while (!signal.aborted) {
    await connection.until((state) => state !== "offline");
    const began = performance.now();
    try {
      const onOpen = (): void => tell({ type: "behind" });
      for await (const change of client().changes({ signal, onOpen })) tell(change);
    } catch (error) {
      if (error instanceof ClientError && error.status === 401) return needsKey.set(true);
    }
    if (signal.aborted) return;
    tell({ type: "closed" });
    // A connection that is refused, or ends at once, is asked for ever less often.
    pause = performance.now() - began > longestPause ? 0 : Math.min(longestPause, Math.max(500, pause * 2));
    await new Promise((resolve) => void setTimeout(resolve, pause));
  }
};

let isLeading = false;
/** Whether this tab has asked for the one that reads, and was not answered yet. */
let isAsking = false;
let isStealing = false;
let request = new AbortController();

const follow = async (): Promise<void> => {
  for (;;) {
    await needsKey.until((isNeeded) => !isNeeded);
    const end = new AbortController();
    const leadOn = async (): Promise<void> => {
      isLeading = true;
      await lead(end.signal).finally(() => (isLeading = false));
    };
    const options = isStealing ? { steal: true } : { signal: request.signal };
    isStealing = false;
    if ("locks" in navigator) {
      // It fails when another tab has taken the lock, or this one no longer waits for it.
      await navigator.locks.request(lock, options, leadOn).catch(() => undefined);
      end.abort();
    } else {
      // Browsers have locks on HTTPS and on loopback only. Elsewhere each tab that is seen has a connection.
      await isSeen.until((seen) => seen);
      void isSeen.until((seen) => !seen).then(() => end.abort());
      await leadOn();
    }
  }
};

/** A tab that is seen makes sure that some tab reads the changes. */
const watch = (): void => {
  if (isLeading || needsKey.get() || !isSeen.get()) {
    isAsking = false;
    return;
  }
  if (isAsking) {
    isStealing = true;
    request.abort();
    request = new AbortController();
  } else others.postMessage({ type: "ask" } satisfies Message);
  isAsking = !isAsking;
};

others.onmessage = ({ data }: MessageEvent<Message>) => receive(data);
others.postMessage({ type: "ask" } satisfies Message);
if ("locks" in navigator) setInterval(watch, 5000);
void follow();
