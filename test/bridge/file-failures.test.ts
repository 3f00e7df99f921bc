import { execFileSync } from "node:child_process";
import { appendFile, chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeAll, expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { bridge, recordedHome, serveBridge } from "./run-bridge.ts";

/* What users meet when files cannot be used, and that nothing is lost by it. */

/** Without root's right to read every file. */
const plainly = process.getuid?.() === 0 ? ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] : [];

let home: string;
let service: Awaited<ReturnType<typeof serveBridge>>;

beforeAll(async () => {
  home = await recordedHome();
  service = await serveBridge(home, { BRIDGE_POLL_INTERVAL: "1" }, plainly);
});

const call = async (name: string, args: object = {}): Promise<Record<string, unknown>> => {
  const response = await fetch(`${service.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name, arguments: args },
    }),
  });
  const { result } = (await response.json()) as { result: { structuredContent: Record<string, unknown> } };
  return result.structuredContent;
};

const found = async (query: string): Promise<number> =>
  Number((await call("search_sessions", { query, include_active: true }))["total"]);

const say = async (text: string, session = "s"): Promise<void> => {
  const directory = join(home, ".claude/projects/-p");
  await mkdir(directory, { recursive: true });
  const line = { type: "user", uuid: text.slice(0, 20), message: { role: "user", content: text } };
  await appendFile(join(directory, `${session}.jsonl`), `${JSON.stringify(line)}\n`);
};

/** The soft limit: only that can be raised again. */
const limitFiles = (bytes: string): void =>
  void execFileSync("prlimit", ["--pid", String(service.pid), `--fsize=${bytes}:`]);

const unavailable = (how: string) => ({
  success: false,
  code: "store_unavailable",
  error: expect.stringMatching(`transcripts\\.db.* ${how}`),
});

test("without room nothing new is read, what was read is found, and afterwards the rest is collected", async () => {
  await until(async () => (await found("walrus")) !== 0);
  limitFiles("16384");
  await say(`flamingo ${crypto.randomUUID().repeat(2000)}`);
  await until(() => service.output.stderr.includes("transcripts cannot be collected at present"));
  expect(await call("collect_now")).toMatchObject(unavailable("cannot be read or written: look at its disk"));
  expect(await found("walrus")).toBeGreaterThan(0);
  expect(await found("flamingo")).toBe(0);
  const command = await bridge(home, ["search", "walrus"], {}, ["prlimit", "--fsize=16384"]);
  expect(command).toMatchObject({ code: 0, stdout: expect.stringContaining("»walrus«") });
  expect(command.stderr).toMatch(/^bridge: warning: what is new is not read: .*look at its disk/);
  limitFiles("unlimited");
  await until(async () => (await found("flamingo")) === 1);
  // For people, answers have no bound.
  const { stdout } = await bridge(home, ["show", "s", "--last", "0"]);
  expect(stdout.replaceAll(/\s/g, "").length).toBeGreaterThan(72_000);
  expect(stdout).not.toContain("[… cut");
});

test("a damaged file is named with what to do, and once it is removed everything is read anew", async () => {
  const files = ["", "-wal", "-shm"].map((end) => join(home, `.bridge/transcripts.db${end}`));
  const other = new DatabaseSync(files[0] ?? "");
  other.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  other.close();
  await writeFile(files[0] ?? "", "damaged ".repeat(100_000), { flag: "r+" });
  await say("pelican");
  expect(await call("collect_now")).toMatchObject(unavailable("is damaged: move it away"));
  expect(await call("list_sessions")).toMatchObject(unavailable("is damaged: move it away"));
  const command = await bridge(home, ["sessions"]);
  expect([command.code, command.stdout]).toEqual([1, ""]);
  expect(command.stderr).toMatch(/^bridge: \S+transcripts.db is damaged: move it away.*\n$/);
  await Promise.all(files.map((file) => rm(file, { force: true })));
  // The newest file is read first.
  await until(async () => (await found("pelican")) === 1);
  await until(async () => (await found("walrus")) > 0);
  expect(service.output.stderr).not.toContain('"internal"');
});

test("a transcript that may not be read is named in the log, and is read once it may be", async () => {
  const closed = join(home, ".claude/projects/-p/closed.jsonl");
  await say("ibis", "../../../closed");
  await chmod(join(home, "closed.jsonl"), 0);
  await rename(join(home, "closed.jsonl"), closed);
  await say("stork");
  await until(async () => (await found("stork")) === 1);
  // The newest file is read first: the other's turn comes after it.
  await until(() =>
    /closed\.jsonl","msg":"not collected: it cannot be read \(EACCES\)/.test(service.output.stderr),
  );
  expect(await found("ibis")).toBe(0);
  await chmod(closed, 0o600);
  await until(async () => (await found("ibis")) === 1);
});

test("a directory that cannot be used is named", async () => {
  const file = join(await temporaryDirectory(), "file");
  await writeFile(file, "");
  const env = { BRIDGE_DIR: join(file, "below") };
  const runs = await Promise.all([["serve"], ["sessions"]].map((args) => bridge(home, args, env)));
  for (const { code, stderr } of runs)
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(
        /^bridge: \S+transcripts\.db cannot be used: .* name another BRIDGE_DIR \(E.*\)\n$/,
      ),
    });
});
