import type { Job, Message } from "../contract/job.ts";
import type { MessageAnswer } from "../contract/message.ts";
import type { Fact } from "./columns.ts";
import { oneLine, sanitise } from "./sanitise.ts";

/** When the agent hears it, as the end of a sentence. */
export const whenHeard: Record<Message["when"], string> = {
  next: "between two steps of its work",
  now: "at once",
  later: "when it is done with the rest",
};

export const messageLine = ({ message, job }: MessageAnswer): string => {
  if (message === undefined) return `The job had ended: job ${job?.id} continues it`;
  const { id, status, when } = message;
  if (status !== "queued") return `Message ${id.slice(0, 8)} is ${status}`;
  return `Message ${id.slice(0, 8)}: the agent hears it ${whenHeard[when]}`;
};

export const messagesFact = ({ messages }: Pick<Job, "messages">): Fact => [
  "Said",
  messages
    .map(({ id, status, text }) => `${id.slice(0, 8)}  ${status}  ${oneLine(sanitise(text).slice(0, 200))}`)
    .join("\n") || null,
];
