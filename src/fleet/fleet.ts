import type { Client } from "../client/client.ts";
import type { Instance } from "../contract/instance.ts";

/** A running instance of the service. */
export type Remote = {
  /** Its `pod_name`; until it has said it, its pod's name or its host and port. Unique within a fleet. */
  name: string;
  /** `agent`: it runs with AGENT_MODE=true and answers chats, too; `orchestrator`: jobs only. */
  kind: "agent" | "orchestrator";
  source: "kubernetes" | "store" | "list";
  /** Where it can be reached; null: only through `kubectl`. */
  url: string | null;
  state: "ready" | "draining" | "unreachable";
  /** Why it is unreachable, a sentence that says what to do; else null. */
  fault: string | null;
  /** Its own description; null: it could not be asked. */
  instance: Instance | null;
  /** Jobs that are queued in its store; null: it could not be asked. */
  waiting: number | null;
};

/** A way to ask one instance; its clean-up ends what it needed (a forwarded port). */
export type Reached = AsyncDisposable & { client: Client; url: string };

/** A program that takes over the terminal: a shell in the instance, its log. */
export type Takeover = { program: string; args: string[] };

/** The instances that this machine can reach. Every function rejects with a sentence that says what to do. */
export type Fleet = {
  /** By name. An instance that cannot be asked is listed with its fault. `faults`: ways that found nothing, and why. */
  list: (signal: AbortSignal) => Promise<{ remotes: Remote[]; faults: string[] }>;
  reach: (remote: Remote, signal: AbortSignal) => Promise<Reached>;
  /** `hooks sync` inside the instance: result by target. */
  sync: (remote: Remote, signal: AbortSignal) => Promise<Record<string, string>>;
  shell: (remote: Remote) => Takeover;
  logs: (remote: Remote) => Takeover;
};
