import { z } from "zod";
import { Instant } from "./job.ts";
import { operation } from "./operation.ts";
import { isSecretName, isVariableName } from "./variable-name.ts";

/**
 * Who has a secret in its environment: the commands of a setup, the agent, or the commands that check the work. It is a
 * placeholder there, and the door of the sandbox puts the value into requests to the secret's hosts; a plain one is its value.
 */
export const secretPhases = ["setup", "agent", "checks"] as const;
const SecretPhase = z.enum(secretPhases).meta({ example: "setup", description: "Who gets it" });
export type SecretPhase = z.infer<typeof SecretPhase>;

const SecretName = z
  .string()
  .refine(isVariableName, "must be letters, digits and `_`")
  .refine(isSecretName, "is set by the service or steers how programs start: no secret can have this name")
  .meta({ example: "NPM_TOKEN", description: "Environment variable that it is given as" });

const Repo = z
  .string()
  .regex(/^[^\s\p{Cc}]{1,500}$/u, "must be a repository or a glob, `*` for all")
  .regex(/^[^*?]*([*?]+[^*?]+){0,7}([*?]+[^*?]*)?$/, "must have at most 8 wildcards")
  .regex(/^(\*$|\/|localhost\/|[^/]*[.:*?])/, "must begin with the host, as github.com/acme/app")
  .meta({
    example: "github.com/acme/*",
    description:
      "Repositories that it is for: a glob on host/owner/name, as `repo` of profiles; `*` alone: all",
  });

const Host = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9]\d{0,4})?$/i, "must be the name of a host, without a scheme");

const known = {
  name: SecretName,
  repo: Repo,
  phase: SecretPhase,
  hosts: z
    .array(Host)
    .max(20)
    .default([])
    .meta({
      example: ["npm.acme.example"],
      description: "Hosts whose requests get the value; without one it is plain, which phase `agent` refuses",
    }),
  header: z
    .string()
    .regex(/^[A-Za-z0-9-]{1,100}$/, "must be the name of a header")
    .nullable()
    .default(null)
    .meta({
      example: null,
      description: "The header that it is put into; null: Authorization",
    }),
  plain: z.boolean().default(false).meta({
    example: false,
    description: "Commands get the value itself in place of a placeholder, and can learn it",
  }),
};

const Branches = z.array(z.string().regex(/^[^\s\p{Cc}]{1,200}$/u, "must be a branch or a glob")).max(20);

/** What is known of a secret. Its value is never read again. */
export const Secret = z
  .object({
    ...known,
    branches: Branches.default([]).meta({
      example: ["release/*"],
      description: "Bases on which a setup gets a plain secret besides the remote's default branch; globs",
    }),
    created_at: Instant,
  })
  .meta({ id: "Secret" });
export type Secret = z.infer<typeof Secret>;

export const isPlain = ({ plain, hosts }: Pick<Secret, "plain" | "hosts">): boolean =>
  plain || hosts.length === 0;

/** Shortest value, characters: a shorter one would hide ordinary words. Longest, bytes: one variable holds it. */
const [shortest, longest] = [8, 65_536];

const SecretValue = z
  .string()
  .min(shortest, `must have at least ${shortest} characters`)
  .refine((text) => new TextEncoder().encode(text).length <= longest, `must have at most ${longest} bytes`)
  .refine((text) => !text.includes("\0"), "must not have a NUL")
  .refine((text) => text.trim().length >= shortest, `must have at least ${shortest} characters that show`);

const SetSecretInput = z
  .strictObject({
    ...known,
    branches: Branches.nullable().default(null).describe("As in Secret; null: those that it has"),
    value: SecretValue.meta({ example: "npm_0123456789abcdef" }),
  })
  .refine((secret) => secret.phase !== "agent" || !isPlain(secret), {
    path: ["hosts"],
    error:
      "must name a host, and plain be false: an agent has a placeholder, and its value goes to hosts only",
  })
  .refine((secret) => isPlain(secret) || /^[\x20-\x7e]+$/.test(secret.value), {
    path: ["value"],
    error: "must be one line of ASCII: it goes into a header; with plain: true commands get it as it is",
  })
  .refine((secret) => !isPlain(secret) || secret.header === null, {
    path: ["header"],
    error: "is for a secret that has hosts and is not plain",
  })
  .refine((secret) => secret.branches === null || (isPlain(secret) && secret.phase === "setup"), {
    path: ["branches"],
    error: "are for plain secrets of phase setup: a placeholder is given on every branch",
  });
export type SetSecretInput = z.infer<typeof SetSecretInput>;

/** A secret is known by these three together. */
const Identity = z.strictObject({ name: SecretName, repo: Repo, phase: SecretPhase });
export type SecretIdentity = z.infer<typeof Identity>;

const SecretAnswer = z.object({ success: z.literal(true), secret: Secret });

export const secretOperations = {
  list_secrets: operation({
    title: "List secrets",
    command: { name: "secrets list", group: "Secrets" },
    summary: "The secrets that jobs get: names, repositories, phases and hosts, never values.",
    input: z.strictObject({}),
    output: z.object({
      success: z.literal(true),
      count: z.int().meta({ example: 1 }),
      secrets: z.array(Secret).describe("By name, repository and phase"),
    }),
    http: { method: "get", path: "/secrets" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: ["store_unavailable"],
  }),
  set_secret: operation({
    title: "Set a secret",
    summary:
      "Store a secret, in place of the one with the same name, repository and phase. Its value is encrypted and never told again.",
    input: SetSecretInput,
    output: SecretAnswer,
    http: { method: "put", path: "/secrets/{name}" },
    // A value in a call of a model would be in its transcript, and what a model can remove it can break.
    mcp: false,
    annotations: { readOnly: false, destructive: true, idempotent: true },
    errors: ["invalid_request", "secrets_unavailable", "store_unavailable"],
  }),
  remove_secret: operation({
    title: "Remove a secret",
    command: { name: "secrets rm", args: ["name"], group: "Secrets" },
    summary: "Remove the secret with this name, repository and phase.",
    input: Identity,
    output: SecretAnswer,
    http: { method: "delete", path: "/secrets/{name}" },
    mcp: false,
    annotations: { readOnly: false, destructive: true, idempotent: true },
    errors: ["invalid_request", "secret_not_found", "store_unavailable"],
  }),
};
