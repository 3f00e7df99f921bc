import { isFinal, jobStatuses, RunTaskInput, type Message } from "../contract/job.ts";
import {
  continueInput,
  maxMessages,
  type MessageAnswer,
  type MessageInput,
  type TakeBackInput,
} from "../contract/message.ts";
import { ServiceError } from "../contract/errors.ts";
import type { RequestContext } from "../contract/operation.ts";
import type { Notifier } from "../lib/notifier.ts";
import { toJob, toMessage, type JobRecord, type StoredMessage } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";
import { digestsOf, type Submit } from "./submit.ts";

type Dependencies = {
  store: JobStore;
  /** Wakes the run of the job, and who waits until a message is taken back. */
  jobEnds: Notifier;
  /** The job. @throws ServiceError `job_not_found` */
  get: (id: string) => Promise<JobRecord>;
  submit: Submit;
  now: () => Date;
  newId: () => string;
};

/** Longest time that a caller waits until the agent has given a message back, ms. */
const takeBackTimeout = 10_000;

/**
 * What the user says to a job's agent, in the order in which it came.
 *
 * | the job is        | a message                                                                             |
 * |-------------------|---------------------------------------------------------------------------------------|
 * | queued, parked    | is kept until its agent runs                                                          |
 * | running           | is given to its agent, which takes it up as `when` says                               |
 * | ended             | is the task of a further job in the same session; `nothing_to_continue` without one   |
 *
 * It is added in the compare-and-set that requires that the job has not ended: what it gets is heard, or the ended job names it
 * in its warnings. It stays `queued` until the agent says that it has it.
 */
export const createMessages = (deps: Dependencies) => {
  const { store, jobEnds, now, newId } = deps;

  const say = async (input: MessageInput, context: RequestContext): Promise<MessageAnswer> => {
    const { id } = await deps.get(input.job_id);
    const { text, when } = input;
    const idempotency = digestsOf(context.idempotencyKey, context.principal, { message: id, text, when });
    const at = now().toISOString();
    const message: StoredMessage = {
      id: newId(),
      text,
      when,
      status: "queued",
      at,
      given: false,
      recalled: false,
      idempotency,
    };
    const added = await store.update(id, { status: ["queued", "running"] }, ({ messages }) =>
      earlier(messages, idempotency) === null ? { messages: withMessage(messages, message) } : null,
    );
    if (added !== null) {
      jobEnds.notify(id);
      return { success: true, message: toMessage(message) };
    }
    const record = await deps.get(id);
    const before = earlier(record.messages, idempotency);
    if (before !== null) return { success: true, message: toMessage(before) };
    return await continued(record, input, context);
  };

  /** A job that has ended goes on as another one. */
  const continued = async (
    record: JobRecord,
    { text }: MessageInput,
    context: RequestContext,
  ): Promise<MessageAnswer> => {
    if (record.session_id === null)
      throw new ServiceError(
        "nothing_to_continue",
        `The job had ended before its agent began, so there is nothing to continue: svc retry ${record.id.slice(0, 8)}`,
      );
    const input = RunTaskInput.parse(continueInput(toJob(record), record.session_id, text));
    return { success: true, continued: true, job: toJob(await deps.submit(input, context)) };
  };

  /**
   * | the message is                         | becomes                                                            |
   * |----------------------------------------|--------------------------------------------------------------------|
   * | taken                                  | `message_taken`                                                    |
   * | queued, and no process has got it      | withdrawn at once, as in a job that has ended                      |
   * | queued, and a process has got it       | recalled; withdrawn when the process has given it back, or ended   |
   */
  const takeBack = async (input: TakeBackInput, { signal }: RequestContext): Promise<Message> => {
    const { id } = await deps.get(input.job_id);
    const isOne = (message: StoredMessage): boolean =>
      message.id === input.message_id ||
      (input.message_id.length >= 8 && message.id.startsWith(input.message_id));
    await store.update(id, { status: jobStatuses }, (record) =>
      changedMessages(record, (one) => {
        if (!isOne(one) || one.status !== "queued") return {};
        return one.given && !isFinal(record.status) ? { recalled: true } : { status: "withdrawn" };
      }),
    );
    jobEnds.notify(id);
    const waits = AbortSignal.any([signal, AbortSignal.timeout(takeBackTimeout)]);
    for (;;) {
      const changed = jobEnds.waitFor(id, waits);
      const { status, messages } = await deps.get(id);
      const message = messages.find(isOne);
      if (message === undefined)
        throw new ServiceError(
          "message_not_found",
          `The job has no message ${input.message_id.slice(0, 100)}; its messages are in messages of the job`,
        );
      if (message.status === "taken")
        throw new ServiceError(
          "message_taken",
          "The agent has taken the message up: say what it is to do instead",
        );
      if (message.status === "withdrawn" || isFinal(status) || waits.aborted) return toMessage(message);
      await changed;
    }
  };

  return { say, takeBack };
};

export type Messages = ReturnType<typeof createMessages>;

const withMessage = (messages: StoredMessage[], message: StoredMessage): StoredMessage[] => {
  if (messages.length < maxMessages) return [...messages, message];
  throw new ServiceError(
    "invalid_request",
    `The job has had ${maxMessages} messages already: wait for its end, and continue it`,
  );
};

/** What the same key has said before. @throws ServiceError `idempotency_conflict` */
const earlier = (
  messages: readonly StoredMessage[],
  idempotency: JobRecord["idempotency"],
): StoredMessage | null => {
  const found = messages.find((one) => idempotency !== null && one.idempotency?.key === idempotency.key);
  if (found === undefined) return null;
  if (found.idempotency?.body === idempotency?.body) return found;
  throw new ServiceError(
    "idempotency_conflict",
    `Idempotency-Key: was used for message ${found.id} with another text; use a new key`,
  );
};

/** What a change makes of each message; null: nothing changes. */
export const changedMessages = (
  { messages }: Pick<JobRecord, "messages">,
  change: (message: StoredMessage) => Partial<StoredMessage>,
): JobPatch | null => {
  const changes = messages.map(change);
  if (changes.every((each) => Object.keys(each).length === 0)) return null;
  return { messages: messages.map((message, at) => ({ ...message, ...changes[at] })) };
};
