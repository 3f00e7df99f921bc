import type { JobChange } from "../../../src/contract/job-list.ts";
import { ClientError } from "../../../src/client/client-error.ts";
import { client, connection, isBehind, lost, needsKey, queries } from "./service.ts";
import { createStore } from "./store.ts";

const look = (): boolean => document.visibilityState === "visible";

/** Whether the tab is in front. One that is not keeps no connection that it can take up again. */
export const isSeen = createStore(look());

document.addEventListener("visibilitychange", () => isSeen.set(look()));

/** Lets the browser paint and answer before it resolves, or waits for `ms`. */
export const pause = (ms = 0): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Milliseconds after which a connection that has ended is worth telling, as one that ends now and then is not. */
const briefMs = 3000;

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
    void queries.invalidateQueries({ queryKey: ["get_job"] });
  }
  if (change.type === "job") {
    const { job } = change;
    queries.setQueryData(
      ["get_job", { job_id: job.id }],
      (shown: unknown) => shown && { success: true, job },
    );
  }
  void readLists();
};

let isDue = false;
let isReading = false;

/** Reads the lists that are shown again, each time after a pause: a long one is read less often. */
const readLists = async (): Promise<void> => {
  isDue = true;
  if (isReading) return;
  isReading = true;
  for (let took = 0; isDue;) {
    await pause(150 + 3 * took);
    isDue = false;
    const began = performance.now();
    await queries.invalidateQueries({ queryKey: ["list_jobs"] });
    took = performance.now() - began;
  }
  isReading = false;
};

const longestPause = 30_000;

/** Returns when the signal aborts, or when there is no valid key. */
const readUntil = async (signal: AbortSignal): Promise<void> => {
  let wait = 0;
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
    wait = performance.now() - began > longestPause ? 0 : Math.min(longestPause, Math.max(500, wait * 2));
    await pause(wait);
  }
};

/** Reads the changes of jobs while this tab is seen: browsers open only six connections to a host. */
export const followChanges = async (): Promise<void> => {
  for (;;) {
    await needsKey.until((isNeeded) => !isNeeded);
    await isSeen.until((seen) => seen);
    const hidden = new AbortController();
    void isSeen.until((seen) => !seen).then(() => hidden.abort());
    await readUntil(hidden.signal);
  }
};
