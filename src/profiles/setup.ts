import { z } from "zod";
import { isOwnName, isVariableName } from "../contract/variable-name.ts";
import { seconds } from "./checks.ts";
import { Globs, matchesRepository } from "./match.ts";
import { hostList } from "./sandbox-policy.ts";
import { parseYaml } from "./yaml-map.ts";

const variableName = z
  .string()
  .refine(isVariableName, "must be letters, digits and `_`")
  .refine((name) => !isOwnName(name), "is set by the service, and cannot be set here");

const command = z
  .string("must be text")
  .refine((text) => text.trim() !== "" && !text.includes("\0"), "must not be empty or have a NUL")
  .max(2000, "must have at most 2000 characters");

/** Together they are one argument of a program. */
const commands = z.array(command, "must be a list").max(20, "must be at most 20").nullish();

/** Runs beside what the job does. `ready`: a command that succeeds once it does its work. */
const SetupService = z.strictObject({
  name: z
    .string("must be text")
    .regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "must be lower-case letters, digits and `-`"),
  command,
  ready: command,
});
export type SetupService = z.infer<typeof SetupService>;

/** `~/` is the HOME of the job; all others are in the worktree. */
const cachePath = z
  .string("must be text")
  .max(200, "must have at most 200 characters")
  .regex(
    /^(~\/)?(?!\.svc(\/|$)|~)[\w.@+~-]+(\/[\w.@+~-]+)*$/,
    "must be a relative path, or begin with ~/, of letters, digits and . _ @ + ~ -, and not .git or .svc",
  )
  .refine((path) => !/(^|\/)\.(\.?|git)(\/|$)/i.test(path), "must not have `.`, `..` or `.git`")
  .refine((path) => !/^~\/\.(claude|service|ssh)(\/|$)/.test(path), "is what the service has there");

const fileList = z
  .array(z.string("must be text").regex(/^[^\p{Cc}]{1,200}$/u, "must be a path"), "must be a list")
  .max(20);

/** What is kept of a setup, and the files of the commit that decide whether it fits. */
const SetupCache = z.strictObject({
  key: fileList,
  paths: z
    .array(cachePath, "must be a list")
    .min(1, "must name a path")
    .max(20, "must be at most 20")
    .refine(
      (paths) => !paths.some((one) => paths.some((other) => one !== other && one.startsWith(`${other}/`))),
      "must not be in one another",
    ),
});
export type SetupCache = z.infer<typeof SetupCache>;

const keys = {
  run: commands,
  each: commands,
  services: z
    .array(SetupService, "must be a list")
    .max(8, "must be at most 8")
    .refine(
      (services) => new Set(services.map(({ name }) => name)).size === services.length,
      "must have a name of their own each",
    )
    .nullish(),
  cache: SetupCache.nullish(),
  /** Seconds, of all commands. */
  timeout: seconds.nullish(),
  on_failure: z.enum(["fail", "continue"], "must be fail or continue").nullish(),
  env: z
    .record(
      variableName,
      z
        .string('must be text, as "1"')
        .max(10_000, "must have at most 10000 characters")
        .refine((text) => !text.includes("\0"), "must not have a NUL"),
      "must be NAME: value lines",
    )
    .nullish(),
  hosts: hostList.nullish(),
  /** By program. YAML takes 3.10 for the number 3.1. */
  versions: z
    .record(
      z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$/, "is no name of a program"),
      z
        .union([z.int(), z.string()], 'must be a whole number, or text as "3.12"')
        .transform(String)
        .pipe(z.string().regex(/^\d+(\.\d+)*$/, 'must be a version, as 24 or "3.12"')),
      "must be program: version lines",
    )
    .nullish(),
};

const SetupKeys = z.strictObject(keys);
export type SetupKeys = z.infer<typeof SetupKeys>;

/** `setup` of a profile: a map is a list of one. */
export const Setups = z.preprocess(
  (value) => (typeof value === "object" && value !== null && !Array.isArray(value) ? [value] : value),
  z.array(z.strictObject({ ...keys, repo: Globs.nullish() }), "must be a map, or a list of maps"),
);
type Setups = z.infer<typeof Setups>;

/** The first that is for the repository; one without `repo` is for all. Null: none is. */
export const setupFor = (setups: Setups, repoUrl: string): SetupKeys | null =>
  setups.find(({ repo }) => repo === null || repo === undefined || matchesRepository(repo, repoUrl)) ?? null;

/** Where a repository says how it is made ready. */
export const setupFile = ".svc/setup.yml";

/** @throws FileFault with all its faults in one sentence */
export const parseSetupFile = (source: string): SetupKeys =>
  parseYaml({ path: setupFile, source, schema: SetupKeys }, (at) =>
    Object.keys(at === "" ? keys : at === "cache" ? SetupCache.shape : SetupService.shape),
  );
