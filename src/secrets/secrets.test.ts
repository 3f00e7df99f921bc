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
import { whyWithheld } from "./plain.ts";
import { createSecrets, hiddenOf, matching, valuesInside, variablesOf } from "./secrets.ts";

const value = "tok-0123456789";
const token = {
  name: "TOKEN",
  repo: "github.com/acme/*",
  phase: "setup" as "setup" | "agent" | "checks",
  hosts: [] as string[],
  header: null,
  plain: false,
  branches: null as string[] | null,
};
const repoUrl = "https://github.com/acme/app";

type Over = { secretsKey?: string; kvUrl?: string; secretsUnsandboxed?: string[]; isSandboxed?: boolean };

/** The secrets of a service whose files are in the directory. */
const openSecrets = async (jobsDir: string, { isSandboxed = true, ...over }: Over = {}) => {
  const log = createLog("silent", String);
  const now = () => new Date("2026-01-02T03:04:05Z");
  const records = await openFilesRecords(secretKind, { directory: join(jobsDir, "secrets"), now, log });
  const redact = createRedactor([]);
  const agentSandboxHosts = ["127.0.0.1:4873", "10.0.0.7", "169.254.169.254"];
  const settings = {
    jobsDir,
    secretsKey: null,
    kvUrl: null,
    agentSandboxHosts,
    secretsUnsandboxed: [],
    ...over,
  };
  const { signal } = new AbortController();
  const store = createSecretStore(records);
  const secrets = createSecrets({ store, settings, isSandboxed, redact, now, log, signal });
  return { ...secrets, redact, settings };
};

test("a secret is stored encrypted, given to jobs of its repositories, masked, and outlives a restart", async () => {
  const directory = await temporaryDirectory();
  const before = await openSecrets(directory);
  const shown = { ...token, plain: true, branches: [], created_at: "2026-01-02T03:04:05.000Z" };
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

test.each([
  ["127.0.0.1:4873", true],
  ["10.0.0.7", true],
  ["10.0.0.7:8443", false],
  ["127.0.0.1:6379", false],
  ["127.0.0.1", false],
  ["localhost:4873", false],
  ["127.1", false],
  ["0x7f000001", false],
  ["10.0.0.8", false],
  ["192.168.1.1:443", false],
  ["100.64.0.1", false],
  // The operator names it without a port, so no agent reaches it either.
  ["169.254.169.254:80", false],
  ["169.254.169.254", false],
  ["8.8.8.8", true],
])("a secret for the host %s is stored: %s", async (host, isStored) => {
  const secrets = await openSecrets(await temporaryDirectory());
  for (const plain of [false, true]) {
    const setting = secrets.set({ ...token, hosts: [host], plain, value });
    const said = await setting.then(() => "stored", String);
    expect(said).toMatch(isStored ? "stored" : "name it in SERVICE_AGENT_SANDBOX_HOSTS");
  }
  expect(await secrets.list()).toHaveLength(isStored ? 1 : 0);
});

test("branches stay when a plain secret is set anew without them, and go when it is a placeholder", async () => {
  const secrets = await openSecrets(await temporaryDirectory());
  const branches = async (over: Partial<typeof token>) =>
    (await secrets.set({ ...token, value, ...over })).branches;
  expect(await branches({ branches: ["release/*"] })).toEqual(["release/*"]);
  expect(await branches({})).toEqual(["release/*"]);
  expect(await branches({ branches: [] })).toEqual([]);
  await branches({ branches: ["v1"] });
  expect(await branches({ hosts: ["8.8.8.8"] })).toEqual([]);
});

test("a secret from before there were plain ones is read: it is one if it has no hosts", async () => {
  const directory = await temporaryDirectory();
  const secrets = await openSecrets(directory);
  for (const hosts of [[], ["8.8.8.8"]]) {
    await secrets.set({ ...token, hosts, value });
    const [file = ""] = await readdir(join(directory, "secrets"));
    const path = join(directory, "secrets", file);
    const { plain, branches: _branches, ...old } = JSON.parse(await readFile(path, "utf8")) as typeof token;
    await writeFile(path, JSON.stringify(old));
    const after = await openSecrets(directory);
    const expected = { plain: hosts.length === 0, branches: [] };
    expect(plain).toBe(expected.plain);
    expect(await after.list()).toMatchObject([expected]);
    expect(await after.forPhase(repoUrl, "setup", "job")).toMatchObject([{ ...expected, value }]);
    await writeFile(path, JSON.stringify({ ...old, plain: true, branches: ["**"] }));
    await expect((await openSecrets(directory)).forPhase(repoUrl, "setup", "job")).rejects.toThrow(
      "another key",
    );
  }
});

const phasesOf = [
  ["setup", false],
  ["checks", false],
  ["agent", false],
  ["setup", true],
  ["checks", true],
] as const;

/** Secrets of these rules, of which TOKEN is one with hosts, and OTHER a plain one with the same value. */
const openWith = async (isSandboxed: boolean, inTheOpen: string, phase: "setup" | "checks" | "agent") => {
  const over = { isSandboxed, secretsUnsandboxed: [inTheOpen] };
  const secrets = await openSecrets(await temporaryDirectory(), over);
  const set = (more: Partial<typeof token>) => secrets.set({ ...token, phase, value, ...more });
  return { ...secrets, set };
};

test.each(phasesOf)("in phase %s jobs have what the rules say; plain: %s", async (phase, plain) => {
  for (const [isSandboxed, inTheOpen] of [
    [true, "OTHER"],
    [true, "TOKEN"],
    [false, "TOKEN"],
    ...(plain ? [[false, "OTHER"] as const] : []),
  ] as const) {
    const secrets = await openWith(isSandboxed, inTheOpen, phase);
    await secrets.set({ hosts: ["8.8.8.8"], plain });
    await secrets.requireSandbox(repoUrl);
    const all = await secrets.forPhase(repoUrl, phase, "job");
    const isInside = plain || !isSandboxed;
    expect(variablesOf(all)["TOKEN"]).toMatch(isInside ? value : /^svc_placeholder_/);
    expect(hiddenOf(all)).toHaveLength(isInside ? 0 : 1);
    expect(valuesInside(all, repoUrl)).toEqual(isInside ? [value] : []);
  }
});

test("a plain secret with the value of another makes that no less a placeholder", async () => {
  const secrets = await openWith(true, "", "setup");
  await secrets.set({ hosts: ["8.8.8.8"] });
  await secrets.set({ name: "OTHER" });
  const all = await secrets.forPhase(repoUrl, "setup", "job");
  expect(variablesOf(all)).toMatchObject({
    OTHER: value,
    TOKEN: expect.not.stringContaining(value) as string,
  });
});

test.each(["setup", "checks", "agent"] as const)(
  "without a sandbox jobs are refused for a secret of phase %s that nobody opens",
  async (phase) => {
    const secrets = await openWith(false, "OTHER", phase);
    await secrets.set({ hosts: ["8.8.8.8"] });
    await expect(secrets.forPhase(repoUrl, phase, "job")).rejects.toThrow("TOKEN: set up a sandbox");
    await expect(secrets.requireSandbox(repoUrl)).rejects.toMatchObject({ code: "sandbox_required" });
    await secrets.requireSandbox("https://github.com/other/app");
  },
);

const people = { branch: "topic", defaultBranch: "main", isOwn: false, isUntouched: true };

test.each([
  ["the default branch", { branch: "main" }, [], null],
  [
    "another branch",
    {},
    [],
    "the base topic is not the remote's default branch (main). Set it again with --branch topic",
  ],
  ["a branch that it names", {}, ["topic"], null],
  ["a branch that fits", { branch: "release/1/2" }, ["release/**"], null],
  ["a branch that fits in part", { branch: "release/1/2" }, ["release/*"], "the base release/1/2 is not"],
  ["a remote that does not say", { defaultBranch: null }, [], "(which it did not say)"],
  [
    "a branch of this service that fits",
    { branch: "service/1", isOwn: true },
    ["**"],
    "that this service pushed",
  ],
  [
    "a default branch that this service pushed",
    { branch: "main", isOwn: true },
    [],
    "that this service pushed",
  ],
  ["a worktree of an agent", { branch: "main", isUntouched: false }, ["**"], "an agent may have worked"],
])("a plain secret and a setup on %s", (_on, over, branches, why) => {
  const said = whyWithheld({ name: "TOKEN", branches }, { ...people, ...over });
  expect(said ?? "it is given").toContain(why ?? "it is given");
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
  [{ header: "X-Key", hosts: ["a.example"] }, true],
  [{ hosts: ["a.example"], value: "two lines\nof it" }, false],
  [{ hosts: ["a.example"], value: "two lines\nof it", plain: true }, true],
  [{ hosts: ["a.example"], plain: true, header: "X-Key" }, false],
  [{ phase: "agent", hosts: ["a.example"], plain: true }, false],
  [{ branches: ["release/*"] }, true],
  [{ branches: ["release/*"], hosts: ["a.example"] }, false],
  [{ branches: ["release/*"], phase: "checks" }, false],
  ...[
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "GIT_SSL_CAINFO",
    "NODE_PATH",
    "NODE_COMPILE_CACHE",
    "BUN_OPTIONS",
  ].map((name): [object, boolean] => [{ name }, false]),
  [{ phase: "each" }, false],
])("%j is accepted: %s", (over, isAccepted) => {
  const { input } = operations.set_secret;
  expect(input.safeParse({ ...token, hosts: [], value, ...over }).success).toBe(isAccepted);
});
