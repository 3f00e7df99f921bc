import type { Kv } from "../../kv/kv.ts";
import type { Log } from "../../lib/log.ts";
import { isAgentName, parseVisibility, type VisibilityStore } from "../visibility-store.ts";
import { readText } from "./read-text.ts";

/** A key of its own for each agent, without end: `{prefix}:stream_config:{agent}`. */
export const createRedisVisibilityStore = ({ kv, log }: { kv: Kv; log: Log }): VisibilityStore => {
  const keyOf = (agent: string): string => kv.key("stream_config", agent);
  const warned = new Set<string>();

  return {
    get: async (agent) => {
      if (!isAgentName(agent)) return null;
      const text = await readText(kv, (client) => client.get(keyOf(agent)));
      if (text === null) return null;
      const visibility = parseVisibility(text);
      if (visibility === null && !warned.has(agent)) {
        warned.add(agent);
        log.warn({ agent }, "stored visibility skipped: it does not hold the five flags");
      }
      return visibility;
    },
    set: async (agent, visibility) => {
      if (!isAgentName(agent)) throw new Error("the name of an agent is letters, digits and ._-");
      await kv.ask((client) => client.set(keyOf(agent), JSON.stringify(visibility)));
    },
  };
};
