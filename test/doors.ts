import { ClientError } from "../src/client/client-error.ts";
import { hasBody, type Operation } from "../src/contract/operation.ts";
import { operations, type Operations } from "../src/contract/operations.ts";
import { svc } from "./cli/run-svc.ts";
import { mcpDoors } from "./mcp-doors.ts";
import type { Service } from "./service-process.ts";

export type Question = {
  operation: keyof Operations;
  input: Record<string, string | number | boolean>;
  idempotencyKey?: string;
};

/** A way of asking the service. */
export type Door = {
  name: string;
  /** The body of the answer, with the HTTP status where the door has one; null: this door has no way to ask that. */
  ask: (service: Service, question: Question) => Promise<{ status?: number; body: unknown } | null>;
};

const rest: Door = {
  name: "REST",
  ask: async ({ url }, { operation, input, idempotencyKey }) => {
    const asked: Operation = operations[operation];
    const { http } = asked;
    const left = new Map(Object.entries(input));
    const path = http.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
      const value = String(left.get(name));
      left.delete(name);
      return encodeURIComponent(value);
    });
    const query = new URLSearchParams(
      [...left].map(([name, value]): [string, string] => [name, String(value)]),
    );
    const response = await fetch(hasBody(asked) ? url + path : `${url}${path}?${query.toString()}`, {
      method: http.method.toUpperCase(),
      headers: {
        "content-type": "application/json",
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      },
      ...(hasBody(asked) && { body: JSON.stringify(Object.fromEntries(left)) }),
    });
    return { status: response.status, body: await response.json() };
  },
};

type Methods = Record<
  string,
  (input: Question["input"], options: { idempotencyKey?: string }) => Promise<unknown>
>;

const client: Door = {
  name: "client",
  ask: async (service, { operation, input, idempotencyKey }) => {
    const methods = service.client as unknown as Methods;
    try {
      const body = await methods[operation]?.(input, idempotencyKey === undefined ? {} : { idempotencyKey });
      return { status: 200, body };
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      return { status: error.status, body: { success: false, error: error.message, code: error.code } };
    }
  },
};

/**
 * How each command gets its input; an input that is not named here cannot be given to it. Null: there is no such
 * command.
 */
const commands: Record<keyof Operations, Command | null> = {
  run_task: {
    command: "run",
    positional: "task",
    options: {
      repo_url: "--repo",
      profile: "--profile",
      base_ref: "--base-ref",
      session_id: "--session-id",
      file_path: "--file-path",
      worktree_id: "--worktree-id",
    },
  },
  get_job: { command: "job", positional: "job_id", options: {} },
  list_jobs: {
    command: "jobs",
    options: {
      limit: "--limit",
      status: "--status",
      session_id: "--session",
      repo_url: "--repo",
      profile: "--profile",
      since: "--since",
      q: "--search",
      cursor: "--cursor",
    },
  },
  answer_job: {
    command: "answer",
    positional: "job_id",
    second: "text",
    options: { approve: "--approve" },
  },
  message_job: { command: "say", positional: "job_id", second: "text", options: {} },
  take_back_message: {
    command: "say",
    positional: "job_id",
    options: { message_id: "--take-back" },
  },
  cancel_job: { command: "cancel", positional: "job_id", options: {} },
  get_diff: { command: "diff", positional: "job_id", options: { repository: "--repository" } },
  // svc files reads them in the job.
  list_files: null,
  list_profiles: { command: "profiles", options: {} },
  // svc run --wait and svc logs -f follow the events instead.
  wait_for_job: null,
  prepare_worktree: {
    command: "worktrees prepare",
    positional: "repo_url",
    options: { base_ref: "--base-ref" },
  },
  get_worktree: { command: "worktrees show", positional: "worktree_id", options: {} },
  list_worktrees: { command: "worktrees list", options: {} },
  cleanup_worktrees: {
    command: "worktrees cleanup",
    positional: "paths",
    several: true,
    options: { max_age_hours: "--max-age-hours", force: "--force", dry_run: "--dry-run" },
  },
  clear_environments: { command: "cache clear", options: { repo: "--repo" } },
  get_disk_usage: { command: "disk", options: {} },
  list_secrets: { command: "secrets list", options: {} },
  // svc secrets set reads the value from standard input.
  set_secret: null,
  remove_secret: {
    command: "secrets rm",
    positional: "name",
    options: { repo: "--repo", phase: "--phase" },
  },
  list_instances: { command: "instances", options: {} },
  // svc hooks sync works without the service.
  sync_companions: null,
  get_usage: {
    command: "usage",
    options: {
      by: "--by",
      since: "--since",
      until: "--until",
      profile: "--profile",
      repo_url: "--repo",
      model: "--model",
    },
  },
  // svc chat talks over chat completions instead.
  agent_completions: null,
  get_completion: null,
  list_completions: null,
  cancel_completion: null,
  get_visibility: { command: "visibility", options: {} },
  set_visibility: {
    command: "visibility",
    words: (input) =>
      Object.entries(input).map(([name, shown]) => `${name.replace("show_", "")}=${shown ? "on" : "off"}`),
    options: {},
  },
};

type Command = {
  command: string;
  positional?: string;
  /** What follows it. */
  second?: string;
  /** The positional one is a comma-separated list, given as that many words; without any the command says so itself. */
  several?: boolean;
  /** The input as words, in place of options. */
  words?: (input: Question["input"]) => string[];
  options: Record<string, string>;
};

const cli: Door = {
  name: "CLI --json",
  ask: async (service, { operation, input, idempotencyKey }) => {
    const asked = commands[operation];
    if (asked === null) return null;
    const { command, positional, second = "", several = false, words: wordsOf, options } = asked;
    const named = Object.entries(input).filter(
      ([name]) => name !== positional && name !== second && wordsOf === undefined,
    );
    if (named.some(([name]) => !(name in options))) return null;
    const words = argumentsOf(asked, input);
    if (several && words.length === 0 && !("max_age_hours" in input)) return null;
    const args = [
      ...command.split(" "),
      ...(wordsOf?.(input) ?? []),
      ...named.flatMap(([name, value]) => optionOf(options[name] ?? "", value)),
      ...(idempotencyKey === undefined ? [] : ["--idempotency-key", idempotencyKey]),
      "--json",
      ...(positional === undefined ? [] : ["--", ...words]),
    ];
    const { hostname, port } = new URL(service.url);
    const env = { ...service.env, SERVICE_HOST: hostname, SERVICE_PORT: port };
    // The exit code reports a failure too; its body is on stdout all the same.
    const { stdout } = await svc(args, { env, cwd: service.home });
    return { body: JSON.parse(stdout) as unknown };
  },
};

const argumentsOf = ({ positional, second = "", several }: Command, input: Question["input"]): string[] => {
  const argument = positional === undefined ? "" : String(input[positional] ?? "");
  const words = several === true ? argument.split(",").filter((word) => word !== "") : [argument];
  return second in input ? [...words, String(input[second])] : words;
};

const optionOf = (option: string, value: string | number | boolean): string[] => {
  if (typeof value === "boolean") return value ? [option] : [];
  return [option, String(value)];
};

export const doors: readonly Door[] = [rest, client, cli, ...mcpDoors];
