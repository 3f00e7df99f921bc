import { z } from "zod";
import { Instant } from "./job.ts";
import { operation } from "./operation.ts";
import { isSecretName, isVariableName } from "./variable-name.ts";

/**
 * - setup: given to the commands of a setup's `run`
 * - agent: the agent has a placeholder; the door of its sandbox puts the value into requests to the secret's hosts
 * - checks: given to the commands that check the work
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
      description: "Hosts that it is for; a phase `agent` needs one",
    }),
  header: z
    .string()
    .regex(/^[A-Za-z0-9-]{1,100}$/, "must be the name of a header")
    .nullable()
    .default(null)
    .meta({
      example: null,
      description: "Phase `agent`: the header that it is put into; null: Authorization",
    }),
};

/** What is known of a secret. Its value is never read again. */
export const Secret = z.object({ ...known, created_at: Instant }).meta({ id: "Secret" });
export type Secret = z.infer<typeof Secret>;

/** Shortest value, characters: a shorter one would hide ordinary words. Longest, bytes: one variable holds it. */
const [shortest, longest] = [8, 65_536];

const SecretValue = z
  .string()
  .min(shortest, `must have at least ${shortest} characters`)
  .refine((text) => new TextEncoder().encode(text).length <= longest, `must have at most ${longest} bytes`)
  .refine((text) => !text.includes("\0"), "must not have a NUL")
  .refine((text) => text.trim().length >= shortest, `must have at least ${shortest} characters that show`);

const SetSecretInput = z
  .strictObject({ ...known, value: SecretValue.meta({ example: "npm_0123456789abcdef" }) })
  .refine(({ phase, hosts }) => phase !== "agent" || hosts.length > 0, {
    path: ["hosts"],
    error: "must name a host: an agent has a placeholder, and its value goes to these hosts only",
  })
  .refine(({ phase, value }) => phase !== "agent" || /^[\x20-\x7e]+$/.test(value), {
    path: ["value"],
    error: "must be one line of ASCII in phase agent: it goes into a header",
  })
  .refine(({ phase, header }) => phase === "agent" || header === null, {
    path: ["header"],
    error: "can be given in phase agent only",
  });

/** A secret is known by these three together. */
const Identity = z.strictObject({ name: SecretName, repo: Repo, phase: SecretPhase });
export type SecretIdentity = z.infer<typeof Identity>;

const SecretAnswer = z.object({ success: z.literal(true), secret: Secret });

export const secretOperations = {
  list_secrets: operation({
    name: "list_secrets",
    title: "List secrets",
    command: { name: "secrets list", group: "Secrets" },
    summary: "The secrets that jobs get: names, repositories, phases and hosts, never values.",
    input: z.strictObject({}),
    output: z.object({
      success: z.literal(true),
      count: z.int().meta({ example: 1 }),
      secrets: z.array(Secret).meta({ description: "By name, repository and phase" }),
    }),
    http: { method: "get", path: "/secrets" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: ["store_unavailable"],
  }),
  set_secret: operation({
    name: "set_secret",
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
    name: "remove_secret",
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
