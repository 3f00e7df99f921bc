import { everythingVisible, type Visibility } from "../contract/visibility.ts";
import type { VisibilityStore } from "../store/visibility-store.ts";
import { applySlashTokens, type SlashToken } from "./slash-tokens.ts";

/** The settings of what an agent shows, for all its callers. */
export const createAgentVisibility = (store: VisibilityStore, agent: string) => {
  const now = async (): Promise<Visibility> => (await store.get(agent)) ?? everythingVisible;
  const change = (next: (current: Visibility) => Visibility): Promise<Visibility> =>
    store.change(agent, (current) => next(current ?? everythingVisible));

  return {
    now,
    change,
    apply: (tokens: readonly SlashToken[]): Promise<Visibility> =>
      tokens.every((token) => token === "/stream-status")
        ? now()
        : change((current) => applySlashTokens(current, tokens)),
  };
};
