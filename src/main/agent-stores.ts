import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import { completionKind, createCompletionStore, type CompletionStore } from "../store/completion-store.ts";
import {
  conversationKind,
  createConversationStore,
  type ConversationStore,
} from "../store/conversation-store.ts";
import type { EventBus } from "../store/event-bus.ts";
import type { OpenRecords } from "../store/records.ts";
import { createVisibilityStore, visibilityKind, type VisibilityStore } from "../store/visibility-store.ts";

/** What agent mode keeps. */
export type AgentStores = {
  conversations: ConversationStore;
  completions: CompletionStore;
  visibilities: VisibilityStore;
  bus: EventBus;
};

type Request = { open: OpenRecords; settings: Settings; home: string; bus: EventBus };

export const openAgentStores = async ({ open, settings, home, bus }: Request): Promise<AgentStores> => {
  const { jobsDir, agentModeConversationTtl, jobTtl } = settings;
  const conversations = await open(
    conversationKind(agentModeConversationTtl),
    join(jobsDir, "conversations"),
  );
  const completions = await open(completionKind(jobTtl), join(jobsDir, "completions"));
  const visibilities = await open(visibilityKind, join(home, ".service", "stream_config"));
  return {
    conversations: createConversationStore(conversations),
    completions: createCompletionStore(completions),
    visibilities: createVisibilityStore(visibilities),
    bus,
  };
};
