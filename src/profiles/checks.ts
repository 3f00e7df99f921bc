import { z } from "zod";
import { Globs } from "./match.ts";
import { parseYaml } from "./yaml-map.ts";

/** A command that the service runs on an agent's work. */
export type CheckDefinition = {
  name: string;
  /** For `sh -c`, in the worktree. */
  run: string;
  /** Seconds. */
  timeout: number;
  /** Patterns of changed paths for which it is run; null: always. */
  when: string[] | null;
  /** Whether it fails the job, too, when it was red before. */
  mustPass: boolean;
};

/** A time limit. */
export const seconds = z
  .number("must be a number of seconds")
  .positive("must be more than 0")
  .max(86_400, "must be at most 86400");

export const Checks = z
  .array(
    z.strictObject({
      name: z
        .string("must be text")
        .regex(
          /^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$/,
          "must be at most 100 letters, digits, spaces, `.`, `_` and `-`",
        ),
      run: z
        .string("must be text")
        .refine((text) => text.trim() !== "", "must not be empty")
        .max(10_000, "must have at most 10000 characters"),
      timeout: seconds.nullish(),
      when: Globs.nullish(),
      must: z.literal("pass", "must be pass").nullish(),
    }),
    "must be a list",
  )
  .max(50, "must be at most 50")
  .superRefine((checks, context) => {
    const names = checks.map(({ name }) => name);
    for (const [nth, name] of names.entries())
      if (names.indexOf(name) < nth) context.addIssue(`has two that are named ${name}`);
  });

/** Seconds that a check may take which does not say. */
const usualTimeout = 600;

export const definedChecks = (checks: z.infer<typeof Checks> | null | undefined): CheckDefinition[] =>
  (checks ?? []).map(({ name, run, timeout, when, must }) => ({
    name,
    run,
    timeout: timeout ?? usualTimeout,
    when: when ?? null,
    mustPass: must === "pass",
  }));

/** Those that a submission names by their commands alone. */
export const checksOfCommands = (commands: readonly string[]): CheckDefinition[] =>
  commands.map((run) => ({
    name: run.replace(/\s+/g, " ").slice(0, 100),
    run,
    timeout: usualTimeout,
    when: null,
    mustPass: false,
  }));

/** Where a repository says its checks. */
export const checksFile = ".svc/checks.yml";

/** The checks of that file. @throws FileFault with all its faults in one sentence */
export const parseChecksFile = (source: string): CheckDefinition[] =>
  definedChecks(
    parseYaml({ path: checksFile, source, schema: z.strictObject({ checks: Checks }) }, (at) =>
      at === "" ? ["checks"] : ["name", "run", "timeout", "when", "must"],
    ).checks,
  );
