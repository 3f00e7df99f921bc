import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { generate } from "selfsigned";
import { beforeAll, expect, test } from "vitest";
import { secretPhases } from "../../src/contract/secret.ts";
import { afterFile } from "../cleanup.ts";
import { svc } from "../cli/run-svc.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { watchCommandLines } from "./command-lines.ts";
import { runJob } from "./ended-job.ts";

/* Secrets of each phase, in the sandbox: where they are, and where they are not. */

let service: Service;
let home: string;
/** A host of this machine, and what it was sent. */
let host: string;
const received: string[] = [];
/** Another one, by TLS, whose certificate the service trusts. */
let tlsHost: string;
const authorized: string[] = [];

beforeAll(async () => {
  home = await temporaryDirectory();
  const server = createServer((asked, answer) => {
    received.push(String(asked.headers["x-token"]));
    answer.end("a package");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterFile(() => void server.close());
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { private: key, cert } = await generate([{ name: "commonName", value: "test" }], {
    keyType: "ec",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "subjectAltName", altNames: [{ type: 7, ip: "127.0.0.1" }] },
    ],
  });
  const secure = createSecureServer({ key, cert }, (asked, answer) => {
    authorized.push(`${asked.url} ${asked.headers.authorization}`);
    answer.end(`hello ${asked.url}\n`);
  });
  await new Promise<void>((resolve) => secure.listen(0, "127.0.0.1", resolve));
  afterFile(() => void secure.close());
  tlsHost = `127.0.0.1:${(secure.address() as AddressInfo).port}`;
  await writeFile(join(home, "ca.pem"), cert);
  service = await startService({
    home,
    env: {
      NODE_EXTRA_CA_CERTS: join(home, "ca.pem"),
      SERVICE_AGENT_SANDBOX_HOSTS: `${tlsHost},${host}`,
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "secrets-agent"),
      SERVICE_AGENT_SANDBOX_READ: join(import.meta.dirname, "../fake-agent"),
      ANTHROPIC_API_KEY: "sk-canary",
    },
  });
});

const valueOf = (phase: string): string =>
  `canary+${phase}/0123456789${phase === "agent" ? "" : "\n"}second-line-${phase}`;

const command = async (args: string[], input?: string) =>
  await svc(["secrets", ...args], {
    env: { SERVICE_PORT: new URL(service.url).port },
    ...(input !== undefined && { input }),
  });

/** As they are, and in the forms in which programs write them. */
const formsOf = (phase: string): string[] => {
  const [first = "", second = first] = valueOf(phase).split("\n");
  return [first, second, encodeURIComponent(first), Buffer.from(first).toString("base64").slice(0, 24)];
};

/** Files below a directory in which one of the texts is. */
const filesWith = async (directory: string, texts: readonly string[]): Promise<string[]> => {
  const found: string[] = [];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile()) continue;
    const content = await readFile(path, "latin1").catch(() => "");
    if (texts.some((text) => content.includes(text))) found.push(path);
  }
  return found;
};

test("secrets of each phase are found nowhere but where they belong", async () => {
  // Not in an argument: that would be the command's own fault.
  const asks = `{ printf 'header = "x-token: '; printf %s "$SETUP_SECRET" | head -n 1 | tr -d '\\n'; echo '"'; } | curl --silent --max-time 20 --config - http://${host}/`;
  const file = {
    run: [
      `printf %s "$SETUP_SECRET"; printf %s "$SETUP_SECRET" | base64 -w0; printf 1"$SETUP_SECRET" | base64`,
      `test "$(${asks})" = "a package"; test -z "$AGENT_SECRET$CHECKS_SECRET"`,
    ],
    each: [`test -z "$SETUP_SECRET"`],
  };
  const { path: repo } = await makeRemote({
    ".svc/setup.yml": JSON.stringify(file),
    ".svc/checks.yml": JSON.stringify({
      checks: [{ name: "has", run: 'echo "$CHECKS_SECRET"; test -n "$CHECKS_SECRET"' }],
    }),
    ".gitignore": "*.ignored",
  });
  const watch = watchCommandLines(service.pid);
  for (const phase of secretPhases) {
    const args = ["set", `${phase.toUpperCase()}_SECRET`, "--repo", repo, "--phase", phase, "--host", host];
    const isPlain = phase !== "agent";
    const warned = isPlain ? "Code that runs with this secret can learn it: it is plain. " : "";
    expect(await command([...args, ...(isPlain ? ["--plain"] : [])], `${valueOf(phase)}\n`)).toMatchObject({
      code: 0,
      stdout: `${warned}Secret ${phase.toUpperCase()}_SECRET of ${repo} (${phase}) is stored\n`,
    });
  }
  const job = await runJob(service, "work", { repo_url: repo, profile: "code" });
  const commandLines = await watch.stop();
  expect({ status: job.status, error: job.error }).toEqual({ status: "succeeded", error: null });
  expect(received).toEqual([formsOf("setup")[0]]);
  const seen = await readFile(join(String(job.worktree_path), "seen.ignored"), "utf8");
  expect(seen).toMatch(/^AGENT_SECRET=svc_placeholder_[0-9a-f]{40}$/m);
  const events = await Array.fromAsync(
    service.client.events(job.id, { signal: AbortSignal.timeout(100_000) }),
  );
  expect(JSON.stringify(events)).toContain("***");
  const asked = ["jobs", `jobs/${job.id}`, `jobs/${job.id}/diff`, "secrets", "metrics", "openapi.json"].map(
    async (path) => [path, await (await fetch(`${service.url}/${path}`)).text()],
  );
  const places: Record<string, string> = {
    ...(Object.fromEntries(await Promise.all(asked)) as Record<string, string>),
    events: JSON.stringify(events),
    commits: await git(repo, "log", "--all", "--patch", "--format=raw"),
    "what the agent sees": seen,
    "what the service logs": service.output.stdout + service.output.stderr,
    "arguments of processes": commandLines.join("\n"),
  };
  const leaks = Object.entries(places).flatMap(([place, text]) =>
    secretPhases.flatMap(formsOf).flatMap((form) => (text.includes(form) ? [`${place}: ${form}`] : [])),
  );
  expect(leaks).toEqual([]);
  expect(await filesWith(home, secretPhases.flatMap(formsOf))).toEqual([]);
  expect((await stat(join(home, ".service/jobs/secrets.key"))).mode & 0o777).toBe(0o600);
});

test("an agent's placeholder becomes the value on its way to the secret's host alone", async () => {
  const setup = { env: { AT: `https://${tlsHost}` } };
  const { path: repo } = await makeRemote({
    ".svc/setup.yml": JSON.stringify(setup),
    ".gitignore": "*.ignored",
  });
  const value = "the-real/value+0123456789";
  const short = await command(["set", "WORD", "--repo", repo, "--phase", "checks", "--plain"], "password");
  expect(short).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("fewer than 12 characters") as string,
  });
  await command(["rm", "WORD", "--repo", repo, "--phase", "checks"]);
  await command(["set", "API_SECRET", "--repo", repo, "--phase", "agent", "--host", tlsHost], value);
  const job = await runJob(service, "work", { repo_url: repo, profile: "code" });
  expect({ status: job.status, error: job.error }).toEqual({ status: "succeeded", error: null });
  const answered = await readFile(join(String(job.worktree_path), "answered.ignored"), "utf8");
  expect(answered).toBe("hello /curl\nhello /node\n\n");
  expect(authorized).toEqual([`/curl Bearer ${value}`, `/node Basic ${btoa(`me:${value}`)}`]);
  expect(await filesWith(home, [value, btoa(`me:${value}`)])).toEqual([]);
});
