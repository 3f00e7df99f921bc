import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import type { Kv } from "../kv/kv.ts";
import type { Bell } from "../lib/bell.ts";
import type { Log } from "../lib/log.ts";
import type { CompletionStore } from "../store/completion-store.ts";
import type { ConversationStore } from "../store/conversation-store.ts";
import type { EventBus } from "../store/event-bus.ts";
import { openFilesCompletionStore } from "../store/files/files-completion-store.ts";
import { openFilesConversationStore } from "../store/files/files-conversation-store.ts";
import { createFilesVisibilityStore } from "../store/files/files-visibility-store.ts";
import { createLocalEventBus } from "../store/local/local-event-bus.ts";
import { createRedisCompletionStore } from "../store/redis/redis-completion-store.ts";
import { createRedisConversationStore } from "../store/redis/redis-conversation-store.ts";
import { createRedisEventBus } from "../store/redis/redis-event-bus.ts";
import { createRedisVisibilityStore } from "../store/redis/redis-visibility-store.ts";
import type { VisibilityStore } from "../store/visibility-store.ts";

/** What agent mode keeps. */
export type AgentStores = {
  conversations: ConversationStore;
  completions: CompletionStore;
  visibilities: VisibilityStore;
  bus: EventBus;
};

type Request = { settings: Settings; home: string; log: Log; now: () => Date };

export const openAgentFiles = async ({ settings, home, log, now }: Request): Promise<AgentStores> => {
  const { jobsDir } = settings;
  return {
    conversations: await openFilesConversationStore({
      directory: join(jobsDir, "conversations"),
      ttlSeconds: settings.agentModeConversationTtl,
      now,
      log,
    }),
    completions: await openFilesCompletionStore({
      directory: join(jobsDir, "completions"),
      ttlSeconds: settings.jobTtl,
      now,
      log,
    }),
    visibilities: createFilesVisibilityStore(join(home, ".service", "stream_config"), log),
    bus: createLocalEventBus({ now }),
  };
};

export const openSharedAgentStores = (
  { kv, bell }: { kv: Kv; bell: Bell },
  { settings, log, now }: Omit<Request, "home">,
): AgentStores => ({
  conversations: createRedisConversationStore({
    kv,
    ttlSeconds: settings.agentModeConversationTtl,
    now,
    log,
  }),
  completions: createRedisCompletionStore({ kv, ttlSeconds: settings.jobTtl, log }),
  visibilities: createRedisVisibilityStore({ kv, log }),
  bus: createRedisEventBus({ kv, bell, log }),
});
