import { chmod, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { operations } from "../contract/operations.ts";
import { createLog } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { openFilesRecords } from "../store/files-records.ts";
import { createSecretStore, secretKind } from "../store/secret-store.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { keyProblem } from "./seal.ts";
import { createSecrets, matching } from "./secrets.ts";

const value = "tok-0123456789";
const token = { name: "TOKEN", repo: "github.com/acme/*", phase: "setup" as const, hosts: [], header: null };
const repoUrl = "https://github.com/acme/app";

/** The secrets of a service whose files are in the directory. */
const openSecrets = async (jobsDir: string, over: { secretsKey?: string; kvUrl?: string } = {}) => {
  const log = createLog("silent", String);
  const now = () => new Date("2026-01-02T03:04:05Z");
  const records = await openFilesRecords(secretKind, { directory: join(jobsDir, "secrets"), now, log });
  const redact = createRedactor([]);
  const settings = { jobsDir, secretsKey: null, kvUrl: null, ...over };
  const { signal } = new AbortController();
  const store = createSecretStore(records);
  const secrets = createSecrets({ store, settings, redact, now, log, signal });
  return { ...secrets, redact, settings };
};

test("a secret is stored encrypted, given to jobs of its repositories, masked, and outlives a restart", async () => {
  const directory = await temporaryDirectory();
  const before = await openSecrets(directory);
  const shown = { ...token, created_at: "2026-01-02T03:04:05.000Z" };
  expect(await before.set({ ...token, value })).toEqual(shown);
  expect(before.redact(`say ${value}`)).toBe("say ***");
  const [file = ""] = await readdir(join(directory, "secrets"));
  const stored = await readFile(join(directory, "secrets", file), "utf8");
  expect(stored).not.toContain(value);
  expect(stored).not.toContain(Buffer.from(value).toString("base64"));
  expect((await stat(join(directory, "secrets.key"))).mode & 0o777).toBe(0o600);
  const after = await openSecrets(directory);
  expect(await after.list()).toEqual([shown]);
  await after.maskAll();
  expect(after.redact(value)).toBe("***");
  expect(await after.forPhase(repoUrl, "setup", "job")).toMatchObject([{ name: "TOKEN", value }]);
  expect(await after.forPhase(repoUrl, "checks", "job")).toEqual([]);
  for (const other of ["https://github.com/fork/app", "https://gitlab.com/acme/app", ""])
    expect(await after.forPhase(other, "setup", "job")).toEqual([]);
  expect(await after.remove(token)).toEqual(shown);
  expect(await after.list()).toEqual([]);
  await expect(after.remove(token)).rejects.toMatchObject({ code: "secret_not_found" });
});

test("an agent's placeholder is the same at each start of its job, another in another job, and masked", async () => {
  const secrets = await openSecrets(await temporaryDirectory());
  await secrets.set({ ...token, phase: "agent", hosts: ["api.example"], value });
  const of = async (job: string) => (await secrets.forPhase(repoUrl, "agent", job))[0]?.placeholder ?? "";
  expect(await of("one")).toBe(await of("one"));
  expect(await of("one")).not.toBe(await of("two"));
  expect(secrets.redact(await of("one"))).toBe("***");
});

test("a value that was stored with another key, or whose record was changed, is not read", async () => {
  const directory = await temporaryDirectory();
  const own = await openSecrets(directory);
  await own.set({ ...token, value });
  const other = await openSecrets(directory, { secretsKey: "k".repeat(32) });
  const isRefused = {
    code: "secrets_unavailable",
    message: expect.stringContaining("another key") as string,
  };
  await expect(other.forPhase(repoUrl, "setup", "job")).rejects.toMatchObject(isRefused);
  const [file = ""] = await readdir(join(directory, "secrets"));
  const path = join(directory, "secrets", file);
  const record = JSON.parse(await readFile(path, "utf8")) as object;
  await writeFile(path, JSON.stringify({ ...record, hosts: ["evil.example"] }));
  await expect(own.forPhase(repoUrl, "setup", "job")).rejects.toMatchObject(isRefused);
});

test("without a key nothing is stored or read, and the operator is told", async () => {
  const directory = await temporaryDirectory();
  const shared = await openSecrets(directory, { kvUrl: "redis://127.0.0.1:9" });
  await expect(shared.set({ ...token, value })).rejects.toMatchObject({
    code: "secrets_unavailable",
    message: expect.stringContaining("SERVICE_SECRETS_KEY") as string,
  });
  const own = await openSecrets(directory);
  expect(await keyProblem(own.settings, false)).toBeNull();
  await own.set({ ...token, value });
  const key = join(directory, "secrets.key");
  expect(await keyProblem(own.settings, true)).toBeNull();
  await chmod(key, 0o644);
  expect(await keyProblem(own.settings, true)).toContain(`chmod 600 ${key}`);
  await writeFile(key, "torn");
  await expect(own.set({ ...token, value })).rejects.toMatchObject({ code: "secrets_unavailable" });
  await rm(key);
  expect(await keyProblem(own.settings, true)).toContain("is gone");
  await expect(own.forPhase(repoUrl, "setup", "job")).rejects.toMatchObject({ code: "secrets_unavailable" });
});

test.each([
  [["*", "github.com/**", "github.com/acme/*", "github.com/acme/app"], "github.com/acme/app"],
  [["*", "github.com/acme/*", "github.com/**"], "github.com/acme/*"],
  [["*", "github.com/**"], "github.com/**"],
  [["github.com/*/app", "github.com/acme/*"], "github.com/acme/*"],
  [["github.com/a?me/app", "github.com/acm?/app"], "github.com/a?me/app"],
  [["github.com/fork/*", "*"], "*"],
  [["github.com/fork/*"], undefined],
])("of %j the most specific one counts: %s", (globs, taken) => {
  const all = globs.map((repo) => ({ name: "A", phase: "setup" as const, repo }));
  expect(matching(all, repoUrl).map(({ repo }) => repo)).toEqual(taken === undefined ? [] : [taken]);
  expect(matching(all.toReversed(), repoUrl)[0]?.repo).toBe(taken);
});

test("a thousand secrets with the slowest globs that are taken cost one submission less than three seconds of processor", () => {
  const all = Array.from({ length: 1000 }, (_, nth) => ({
    name: `A${nth}`,
    phase: "agent" as const,
    repo: "*.example/**a**a**a**a**a**a**ab",
  }));
  const before = process.cpuUsage();
  expect(matching(all, `https://x.example/${"a".repeat(2000)}`)).toEqual([]);
  expect(matching(all, `https://x.example/${"/".repeat(2000)}a`)).toEqual([]);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1e6).toBeLessThan(3);
});

test.each<[object, boolean]>([
  [{}, true],
  [{ name: "1A" }, false],
  ...["PATH", "HOME", "PORT", "SERVICE_API_KEY", "LD_PRELOAD", "NODE_OPTIONS", "ANTHROPIC_API_KEY"].map(
    (name): [object, boolean] => [{ name }, false],
  ),
  [{ repo: "" }, false],
  [{ repo: "*" }, true],
  [{ repo: "acme/app" }, false],
  [{ repo: "*.example/**a**a**a**a**a**a**ab" }, true],
  [{ repo: "*.example/**a**a**a**a**a**a**a**ab" }, false],
  [{ repo: `*.example/${"*a".repeat(200)}` }, false],
  [{ repo: "git@github.com:acme/app.git" }, true],
  [{ value: "1234567" }, false],
  [{ value: "1234567 " }, false],
  [{ value: "has\0a NUL" }, false],
  [{ value: "x".repeat(65_537) }, false],
  [{ hosts: ["https://a.example"] }, false],
  [{ phase: "agent" }, false],
  [{ phase: "agent", hosts: ["a.example:8443"], header: "Authorization" }, true],
  [{ phase: "agent", hosts: ["a.example"], value: "two lines\nof it" }, false],
  [{ header: "Authorization" }, false],
  [{ phase: "each" }, false],
])("%j is accepted: %s", (over, isAccepted) => {
  const { input } = operations.set_secret;
  expect(input.safeParse({ ...token, hosts: [], value, ...over }).success).toBe(isAccepted);
});
