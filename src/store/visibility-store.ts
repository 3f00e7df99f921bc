import { Visibility } from "../contract/visibility.ts";

/** Every other name has no visibility: it never becomes a path. */
export const isAgentName = (name: string): boolean => /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(name);

/**
 * PORT. The visibility of each agent, without end: `{prefix}:stream_config:{agent}` in the key-value store, or
 * `~/.service/stream_config/{agent}.json`. Both reject with `ServiceError("store_unavailable")`.
 */
export type VisibilityStore = {
  /** Null: never set (or not readable). */
  get: (agent: string) => Promise<Visibility | null>;
  set: (agent: string, visibility: Visibility) => Promise<void>;
};

/** The stored text as a visibility; null: it holds none. */
export const parseVisibility = (text: string): Visibility | null => {
  try {
    return Visibility.parse(JSON.parse(text));
  } catch {
    return null;
  }
};
