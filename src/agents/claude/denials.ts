import { isIP } from "node:net";
import type { AgentEvent } from "../../contract/event.ts";
import type { Denied } from "../../contract/job.ts";
import { isRefusedAddress } from "../../lib/addresses.ts";

type DeniedEvent = Extract<AgentEvent, { type: "denied" }>;

/** Counts what a process was refused: hosts as `registry.example.com:443`, requests as `GET /v1/files`. */
export const createDenials = () => {
  const counts = new Map<string, number>();
  const untold = new Set<string>();
  let tell = (): void => {};
  const eventsOf = (names: Iterable<string>, atEnd: boolean): DeniedEvent[] =>
    Array.from(names, (name) => ({
      type: "denied",
      ...deniedHost(name, counts.get(name) ?? 0),
      at_end: atEnd,
    }));
  return {
    /** A program can ask for ever more names. */
    add: (name: string): void => {
      const count = counts.get(name) ?? 0;
      if (count === 0 && counts.size >= mostNames) return;
      counts.set(name, count + 1);
      if (count > 0) return;
      untold.add(name);
      tell();
    },
    /** Called when there is a fresh one. */
    onFresh: (listener: () => void): void => void (tell = listener),
    /** Those that were refused for the first time since this was asked. */
    fresh: (): DeniedEvent[] => {
      const events = eventsOf(untold, false);
      untold.clear();
      return events;
    },
    /** All since the end of the turn before. */
    atEnd: (): DeniedEvent[] => {
      const events = eventsOf(counts.keys(), true);
      counts.clear();
      untold.clear();
      return events;
    },
  };
};

export type Denials = ReturnType<typeof createDenials>;

const mostNames = 100;

const deniedHost = (name: string, count: number): Denied & { message: string } => {
  const times = count > 1 ? ` ${count} times` : "";
  if (name.includes(" ")) {
    const message = `The agent wanted ${name} with the model's credential, which is for messages only, and was refused${times}.`;
    return { kind: "path", name, count, allow: "", message };
  }
  const host = name.replace(/:\d+$/, "");
  const isUsual = name.endsWith(":443") || name.endsWith(":80");
  const bare = host.replace(/^\[|\]$/g, "");
  if (bare === "localhost" || (isIP(bare) !== 0 && isRefusedAddress(bare))) {
    const message = `The agent wanted ${name}, an address of this machine or its network's own, and was refused${times}. Only the operator can allow it: SERVICE_AGENT_SANDBOX_HOSTS=${name}`;
    return { kind: "host", name, count, allow: name, message };
  }
  const allow = isUsual ? host : name;
  const message = `The agent wanted ${name} and was refused${times}. Allow it with sandbox.hosts in the profile, or svc run --allow-host ${allow}`;
  return { kind: "host", name, count, allow, message };
};
