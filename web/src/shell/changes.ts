import type { JobChange } from "../../../src/contract/job-list.ts";
import { ClientError } from "../../../src/client/client-error.ts";
import { client, connection, lost, needsKey } from "./service.ts";

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

/** `lost`: the connection of the tab that has it is broken. */
type Message = JobChange | { type: "lost" };

/*
 * Of several tabs one has the connection and tells the others: browsers open only six to a host, which four pages with
 * a job each would take up. When that tab is closed, the lock goes to the next.
 */
const others = new BroadcastChannel("svc.changes");

let waiting: JobChange[] = [];

const receive = (message: Message): void => {
  if (message.type === "lost") return lost();
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

/** Reads the changes while this tab may; returns when it has no valid key. */
const lead = async (): Promise<void> => {
  for (;;) {
    await connection.until((state) => state !== "offline");
    try {
      for await (const change of client().changes({ onOpen: () => tell({ type: "behind" }) })) tell(change);
    } catch (error) {
      if (error instanceof ClientError && error.status === 401) return needsKey.set(true);
      tell({ type: "lost" });
    }
    await new Promise((resolve) => void setTimeout(resolve, 1000));
  }
};

const follow = async (): Promise<void> => {
  others.onmessage = ({ data }: MessageEvent<Message>) => receive(data);
  for (;;) {
    await needsKey.until((isNeeded) => !isNeeded);
    // Browsers have locks on HTTPS and on loopback only; elsewhere each tab has a connection.
    await ("locks" in navigator ? navigator.locks.request("svc.changes", lead) : lead());
  }
};

void follow();
