import type { AgentEvent } from "../contract/event.ts";

export type EventQueue = {
  /** `bytes` is about what the event takes. Never waits. */
  push: (event: AgentEvent, bytes: number) => void;
  /** No event follows. */
  close: () => void;
  /** The events in their order, until the queue is closed and empty. For one reader. */
  read: () => AsyncGenerator<AgentEvent, void, void>;
};

/**
 * Between an agent that must never be made to wait (it loses output when its pipe is full) and a reader that may be
 * slow. Past `maxBytes` pieces of text and thinking are left out, which the result and the transcript still have; past
 * eight times that the contents of tool calls and results too. What happened is always told.
 */
export const createEventQueue = (maxBytes = 8 * 1024 * 1024): EventQueue => {
  let waiting: { event: AgentEvent; bytes: number }[] = [];
  let bytesWaiting = 0;
  let closed = false;
  let warned = false;
  let wake = Promise.withResolvers<void>();

  const add = (event: AgentEvent, bytes: number): void => {
    waiting.push({ event, bytes });
    bytesWaiting += bytes;
    wake.resolve();
  };
  const warn = (): void => {
    if (!warned) add({ type: "warning", message: tooSlow }, tooSlow.length);
    warned = true;
  };

  return {
    push: (event, bytes) => {
      if (bytesWaiting + bytes <= maxBytes) return add(event, bytes);
      if (event.type === "text" || event.type === "thinking") return warn();
      if (bytesWaiting + bytes <= maxBytes * 8) return add(event, bytes);
      warn();
      const bare = withoutContent(event);
      return add(bare, bare === event ? bytes : bareBytes);
    },
    close: () => {
      closed = true;
      wake.resolve();
    },
    async *read() {
      for (;;) {
        await wake.promise;
        wake = Promise.withResolvers<void>();
        const batch = waiting;
        waiting = [];
        for (const { event, bytes } of batch) {
          // What the reader has in hand, and has not come back from, still waits.
          yield event;
          bytesWaiting -= bytes;
        }
        if (closed && waiting.length === 0) return;
      }
    },
  };
};

const tooSlow = "The events were read too slowly: pieces of text, thinking or tool contents were left out.";
const leftOut = "[… left out: the events were read too slowly …]";
const bareBytes = 300;

const withoutContent = (event: AgentEvent): AgentEvent => {
  if (event.type === "tool_result") return { ...event, content: leftOut };
  return event.type === "tool_use" ? { ...event, input: leftOut } : event;
};
