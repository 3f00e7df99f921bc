import type { AgentProcess } from "../agents/agent.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Run } from "../jobs/run.ts";
import type { Log } from "../lib/log.ts";
import { orAborted } from "../lib/wait.ts";
import type { StoredMessage } from "../store/job-record.ts";

/**
 * What is to be done for a message, whenever there may be something new. A message is marked as given before it is given, and
 * as taken when the agent says that it has it. So a crash at any moment leaves one that is not marked as taken, or whose
 * session has it: the next process gets both, and leaves out what its session has.
 *
 * | stored as         | given to this process | next                                                               |
 * |-------------------|-----------------------|--------------------------------------------------------------------|
 * | queued            | no                    | `say`                                                              |
 * | queued, recalled  | no                    | `withdraw`: it went to an earlier process that did not take it up  |
 * | queued, recalled  | yes                   | `take_back`, and withdraw it if that succeeds                      |
 * | taken             | no                    | `say`: an end of the process may have taken it from the session    |
 * | anything else     |                       | nothing                                                            |
 */
export const nextFor = (
  { id, status, recalled }: Pick<StoredMessage, "id" | "status" | "recalled">,
  given: ReadonlySet<string>,
): "say" | "withdraw" | "take_back" | null => {
  if (status === "withdrawn") return null;
  if (status === "queued" && recalled) return given.has(id) ? "take_back" : "withdraw";
  return given.has(id) ? null : "say";
};

/** Messages that the agent has not heard: a reason for a further turn. None while the store is unreachable. */
export const unheard = async ({ messages }: Pick<Run, "messages">): Promise<StoredMessage[]> => {
  const all = await messages.read().catch(() => []);
  return all.filter(({ status, recalled }) => status === "queued" && !recalled);
};

/** Tells the agent what is said to the job, until it is disposed of. Call it when the turn has begun. */
export const tellMessages = (
  { messages, signal }: Pick<Run, "messages" | "signal">,
  process: Pick<AgentProcess, "say" | "takeBack">,
  { log, begins }: { log: Log; begins: StoredMessage | null },
): AsyncDisposable => {
  const over = new AbortController();
  const given = new Set(begins === null ? [] : [begins.id]);
  /** What was said before the turn has nothing to cut off. */
  let isEarly = true;

  const say = async ({ id, text, status, ...said }: StoredMessage): Promise<void> => {
    const when = isEarly && said.when === "now" ? "next" : said.when;
    const isQueued = status === "queued";
    if (isQueued && !(await messages.change(onlyQueued(id, { given: true })))) return;
    given.add(id);
    if (!(await process.say({ id, text, when })) && isQueued)
      await messages.change(onlyQueued(id, { given: false }));
  };
  const withdraw = (id: string): Promise<unknown> => messages.change(onlyQueued(id, { status: "withdrawn" }));
  /** The others are told meanwhile: a CLI that does not answer holds up nothing. */
  const takingBack = new Map<string, Promise<unknown>>();
  const takeBack = (id: string): void => {
    if (takingBack.has(id)) return;
    const asking = process.takeBack(id).then((isFree) => isFree && withdraw(id));
    const asked = asking
      .catch((err: unknown) => log.warn({ err }, "a message could not be taken back"))
      .finally(() => takingBack.delete(id));
    takingBack.set(id, asked);
  };
  const tell = async (): Promise<void> => {
    for await (const all of messages.watch(AbortSignal.any([over.signal, signal]))) {
      for (const message of all) {
        if (over.signal.aborted) return;
        const next = nextFor(message, given);
        if (next === "say") await say(message);
        else if (next === "withdraw") await withdraw(message.id);
        else if (next === "take_back") takeBack(message.id);
      }
      isEarly = false;
    }
  };
  const told = tell().catch((err: unknown) => log.warn({ err }, "messages could not be passed on"));

  return {
    /** What the process has not taken up is free again. */
    [Symbol.asyncDispose]: async () => {
      over.abort();
      const freed = told
        .then(() => Promise.all(takingBack.values()))
        .then(async () => given.size > 0 && (await messages.change(freedAfter(given))));
      // A job does not wait for a store that is away: the next process does the same.
      await orAborted(freed, AbortSignal.timeout(freeTimeout)).catch((err: unknown) =>
        log.warn({ err }, "messages that were not heard could not be freed"),
      );
    },
  };
};

/** Longest time in which they are freed, ms. */
const freeTimeout = 10_000;

const freedAfter =
  (given: ReadonlySet<string>) =>
  ({ id, status, given: isGiven, recalled }: StoredMessage): Partial<StoredMessage> => {
    if (status !== "queued" || !given.has(id)) return {};
    if (recalled) return { status: "withdrawn" };
    return isGiven ? { given: false } : {};
  };

/** Only as long as nobody else has decided about it. `given` is no more than a claim: one that is recalled is not given. */
const onlyQueued =
  (id: string, change: Partial<StoredMessage>) =>
  (message: StoredMessage): Partial<StoredMessage> =>
    message.id !== id || message.status !== "queued" || (change.given === true && message.recalled)
      ? {}
      : change;

/** The agent has it: on record first, so that it is told once. */
export const noteHeard = async (
  { messages, event }: Pick<Run, "messages" | "event">,
  heard: Extract<AgentEvent, { type: "message" }>,
): Promise<void> => {
  let { when } = heard;
  const taken = onlyQueued(heard.id, { status: "taken" });
  const isFirst = await messages.change((message) => {
    if (message.id === heard.id) ({ when } = message);
    return taken(message);
  });
  if (isFirst) event({ ...heard, when });
};
