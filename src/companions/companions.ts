import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import { companionTargets, type CompanionTarget } from "../contract/companion.ts";
import type { Log } from "../lib/log.ts";
import { pause } from "../lib/wait.ts";
import { createCompanion, type Companion, type CompanionFiles } from "./companion.ts";
import type { CheckOut } from "./companion.ts";

type CompanionSettings = Pick<
  Settings,
  | "hooksPath"
  | "hooksUrl"
  | "hooksBranch"
  | "bundleUrl"
  | "bundleSyncInterval"
  | "hubPath"
  | "hubUrl"
  | "hubSyncInterval"
>;

type Request = {
  settings: CompanionSettings;
  directory: string;
  checkOut: CheckOut;
  now: () => Date;
  log: Log;
};

export type Companions = {
  /** The files as they are now; null: none is configured, or it was never fetched. */
  files: (target: CompanionTarget) => Promise<CompanionFiles | null>;
  /** Fetches now. `ok`, `skipped (…)` or `error: …` for each target. */
  sync: (
    targets: readonly CompanionTarget[],
    signal: AbortSignal,
  ) => Promise<Partial<Record<CompanionTarget, string>>>;
  /** Companions with a URL; `ageSeconds`: since the last fetch that succeeded; null: none has. */
  states: () => Promise<{ target: CompanionTarget; ageSeconds: number | null; failing: boolean }[]>;
  /** Begins to fetch. Waits, for a while, for those that were never fetched before. */
  start: () => Promise<void>;
  stop: () => Promise<void>;
};

/**
 * The companion repositories of this instance. A failed fetch changes nothing: the last good checkout stays. A checkout is
 * never changed: a fetch makes a new one, and a symbolic link, swapped by rename, says which is current.
 */
export const createCompanions = ({ settings, directory, checkOut, now, log }: Request): Companions => {
  const { hooksPath, hooksUrl, hooksBranch, bundleUrl, bundleSyncInterval, hubPath, hubUrl } = settings;
  const companion = (target: CompanionTarget, url: string | null, more: Partial<Source> = {}): Companion =>
    createCompanion({
      source: { target, path: null, url, branch: "", intervalSeconds: 0, ...more },
      directory,
      checkOut,
      log,
    });
  const companions: Record<CompanionTarget, Companion> = {
    hooks: companion("hooks", hooksUrl, { path: hooksPath, branch: hooksBranch }),
    bundle: companion("bundle", bundleUrl, { intervalSeconds: bundleSyncInterval }),
    hub: companion("hub", hubUrl, { path: hubPath, intervalSeconds: settings.hubSyncInterval }),
  };
  const all = Object.values(companions);

  return {
    files: (target) => companions[target].files(),
    sync: async (targets, signal) => {
      const results = targets.map(async (target) => [target, await companions[target].sync(signal)] as const);
      return Object.fromEntries(await Promise.all(results));
    },
    states: async () => {
      const states = all.map(async ({ target, syncedAt, isFailing, isFetched }) => {
        const at = await syncedAt();
        const ageSeconds = at === null ? null : Math.max(0, (now().getTime() - at.getTime()) / 1000);
        return isFetched ? [{ target, ageSeconds, failing: isFailing() }] : [];
      });
      return (await Promise.all(states)).flat();
    },
    start: async () => {
      const stop = new AbortController();
      const first = Promise.all(all.map((each) => each.start()));
      await Promise.race([first, pause(longestStartMs, stop.signal)]);
      stop.abort();
    },
    stop: async () => {
      await Promise.all(all.map((each) => each.stop()));
    },
  };
};

type Source = Parameters<typeof createCompanion>[0]["source"];

/** How long a start waits for companions that were never fetched before: a remote may not answer. */
const longestStartMs = 15_000;

export const targetsOf = (target: CompanionTarget | "all"): readonly CompanionTarget[] =>
  target === "all" ? companionTargets : [target];

/** Where the checkouts are: beside the user's profiles. */
export const companionsDirectory = (home: string): string => join(home, ".service", "companions");
