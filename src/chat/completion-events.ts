import type { AgentEvent } from "../contract/event.ts";
import type { EngineEvent } from "./engine.ts";
import type { Log } from "../lib/log.ts";
import { shorten } from "../store/event-log.ts";
import type { BusEvent, EventBus } from "../store/event-bus.ts";

type Published = Pick<BusEvent, "event_type" | "content">;

/** What subscribers get for an event of the agent; null: nothing. */
const publishedOf = (given: AgentEvent): Published | null => {
  const event = shorten(given);
  if (event.type === "thinking") return { event_type: "thinking", content: event.text };
  if (event.type === "text") return { event_type: "assistant_text", content: event.text };
  if (event.type !== "tool_use" && event.type !== "tool_result") return null;
  const { type, ...rest } = event;
  return { event_type: type, content: JSON.stringify(rest) };
};

/** Pieces of one text that come at once are one event. */
const joined = (all: readonly Published[]): Published[] => {
  const events: Published[] = [];
  for (const event of all) {
    const last = events.at(-1);
    const isText = event.event_type === "thinking" || event.event_type === "assistant_text";
    if (isText && last?.event_type === event.event_type)
      events[events.length - 1] = { ...last, content: last.content + event.content };
    else events.push(event);
  }
  return events;
};

type PublisherDependencies = { bus: Pick<EventBus, "publish">; now: () => Date; log: Log };

export type BusPublisher = {
  take: (event: EngineEvent) => void;
  /** Nothing follows. `content` of the last entry is the final status. */
  end: (status: string, error: string | null) => void;
};

/** Publishes the agent's events on the bus for subscribers. Never throws: the answer matters more. */
export const createPublisher = (
  { bus, now, log }: PublisherDependencies,
  correlationId: string,
): BusPublisher => {
  let session = "";
  let pending: Published[] = [];
  const publish = (published: Published): void =>
    bus.publish({
      ...published,
      ts: now().toISOString(),
      session_id: session,
      correlation_id: correlationId,
    });
  const flush = (): void => {
    const all = pending;
    pending = [];
    joined(all).forEach(publish);
  };
  return {
    take: (event) => {
      if (event.type === "session") session = event.id;
      if (["session", "ready", "spent", "ended"].includes(event.type)) return;
      try {
        const published = publishedOf(event as AgentEvent);
        if (published === null) return;
        // After the events that came with it.
        if (pending.length === 0) process.nextTick(flush);
        pending.push(published);
      } catch (err) {
        log.error({ err, correlation_id: correlationId }, "what the agent does could not be published");
      }
    },
    end: (status, error) => {
      flush();
      if (error !== null) publish({ event_type: "error", content: error });
      publish({ event_type: "done", content: status });
    },
  };
};
