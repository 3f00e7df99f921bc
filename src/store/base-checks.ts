import { z } from "zod";
import { CheckRun } from "../contract/check.ts";
import { parseWith, type Kind, type Records } from "./records.ts";

const BaseCheck = CheckRun.extend({ at: z.iso.datetime() });
type BaseCheck = z.infer<typeof BaseCheck>;

/** How long a result is kept, s: later jobs begin with later commits. */
const kept = 30 * 86_400;

/** How a check went on a commit before any change: a file each, or `{prefix}:base_check:{digest}`, which expires by itself. */
export const baseCheckKind: Kind<BaseCheck> = {
  noun: "result of a check",
  key: "base_check",
  isId: (digest) => /^[0-9a-f]{64}$/.test(digest),
  parse: parseWith(BaseCheck),
  expires: ({ at }) => Date.parse(at) + kept * 1000,
  literal: { seconds: () => kept },
};

/** By a digest of the commit and the command. Rejects with `ServiceError("store_unavailable")`. */
export const createBaseChecks = (records: Records<BaseCheck>, now: () => Date) => ({
  /** Null: it is not known. */
  get: async (digest: string): Promise<CheckRun | null> => {
    const found = await records.get(digest);
    return found === null ? null : CheckRun.parse(found);
  },
  put: async (digest: string, run: CheckRun): Promise<void> => {
    await records.expire(now());
    await records.change(digest, () => ({ ...run, at: now().toISOString() }));
  },
});

export type BaseChecks = ReturnType<typeof createBaseChecks>;
