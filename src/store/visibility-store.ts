import { Visibility } from "../contract/visibility.ts";
import { parseWith, type Kind, type Records } from "./records.ts";

const isAgentName = (name: string): boolean => /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(name);

/** `{prefix}:stream_config:{agent}` in the key-value store, without expiry; or `~/.service/stream_config/{agent}.json`. */
export const visibilityKind: Kind<Visibility> = {
  noun: "visibility",
  key: "stream_config",
  isId: isAgentName,
  parse: parseWith(Visibility),
  editable: true,
  literal: { seconds: () => 0 },
};

/** The visibility of each agent. The functions reject with `ServiceError("store_unavailable")`. */
export const createVisibilityStore = (records: Records<Visibility>) => ({
  /** Null: never set, or unreadable. */
  get: records.get,
  /** Compare-and-set: writes what `next` makes of the current one, and resolves to it. Two changes at once both count. */
  change: async (agent: string, next: (current: Visibility | null) => Visibility): Promise<Visibility> => {
    let written!: Visibility;
    await records.change(agent, (current) => (written = next(current)));
    return written;
  },
});

export type VisibilityStore = ReturnType<typeof createVisibilityStore>;
