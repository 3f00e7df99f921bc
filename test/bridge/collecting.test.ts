import { mkdir, readdir, rename, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { assistantLine, lines, userLine } from "../../src/transcripts/transcript-index.fixture.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { bridge, serveBridge } from "./run-bridge.ts";

/** A home with so many sessions of about 350 KB, the later the newer. */
const homeWith = async (sessions: number, name = "s") => {
  const home = await temporaryDirectory();
  const project = join(home, ".claude/projects/-w");
  await mkdir(project, { recursive: true });
  const words = Array.from({ length: 50 }, (_, n) => `word${n} `.repeat(1000)).join("");
  for (let n = 0; n < sessions; n += 1) {
    const path = join(project, `${name}${n}.jsonl`);
    await writeFile(path, lines(userLine(`quokka ${n}`), assistantLine(words)));
    await utimes(path, 1_780_000_000 + n, 1_780_000_000 + n);
  }
  return home;
};

type Listed = { total: number; collecting?: true; collected_bytes?: number; total_bytes?: number };

const listed = async (url: string): Promise<Listed> => {
  const params = { name: "list_sessions", arguments: {} };
  const response = await fetch(`${url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
  });
  const { result } = (await response.json()) as { result: { structuredContent: Listed } };
  return result.structuredContent;
};

test("over HTTP a list that is not whole says so, and how far the reading is", async () => {
  const home = await homeWith(1);
  const { url } = await serveBridge(home);
  // The first answer waits for the first reading.
  expect(await listed(url)).toMatchObject({ total: 1 });
  const sessions = 60;
  const more = await homeWith(sessions, "later");
  await rename(join(more, ".claude/projects/-w"), join(home, ".claude/projects/-v"));
  const answers: Listed[] = [];
  for (let all = 0; all < sessions + 1; all = answers.at(-1)?.total ?? 0) answers.push(await listed(url));
  const parts = answers.filter(({ collecting }) => collecting === true);
  expect(parts.length).toBeGreaterThan(0);
  for (const { collected_bytes: read, total_bytes: all } of parts) expect(read).toBeLessThan(Number(all));
  const read = parts.map(({ collected_bytes }) => collected_bytes ?? 0);
  expect(read).toEqual(read.toSorted((a, b) => a - b));
  // A list that says nothing of it lacks less than a megabyte, or was asked for before.
  for (const { total, collecting } of answers)
    expect(total === 1 || collecting === true || total > sessions - 3).toBe(true);
  await until(async () => (await listed(url)).collecting === undefined);
});

test("a command says after a second how far it is, and an empty list names what was not read", async () => {
  const home = await homeWith(80);
  const { code, stderr } = await bridge(home, ["sessions", "-n", "1"]);
  expect([code, stderr]).toEqual([
    0,
    expect.stringMatching(/^bridge: (?:reading \S+ \S+ of \S+ \S+|looking for transcripts)\n/),
  ]);
  const other = await temporaryDirectory();
  await mkdir(join(other, ".codex/sessions"), { recursive: true });
  await writeFile(join(other, ".codex/sessions/rollout-1.jsonl.gz"), "");
  await symlink(home, join(other, ".codex/archived_sessions"));
  await mkdir(join(other, ".claude/projects/-w"), { recursive: true });
  await writeFile(join(other, ".claude/projects/-w/s.jsonl"), '{"type":"hologram"}\n{"torn\n');
  const list = await bridge(other, ["sessions"]);
  expect(list.stdout).toContain("No sessions: bridge status shows where they are looked for");
  const status = await bridge(other, ["status"]);
  const json = JSON.parse((await bridge(other, ["status", "--json"])).stdout) as object;
  for (const text of [list.stdout, status.stdout]) {
    expect(text).toMatch(/rollout-1\.jsonl\.gz/);
    expect(text).toMatch(/archived_sessions/);
  }
  expect(status.stdout).toMatch(/Damaged +1 line\n/);
  expect(status.stdout).toMatch(/Unknown +1 line of kind hologram\n/);
  expect(json).toMatchObject({
    skipped: [{ reason: expect.stringContaining("link") }, { reason: expect.stringContaining("packed") }],
    damaged_lines: 1,
    unknown_lines: { hologram: 1 },
  });
});

test("sessions that are forgotten give their disk back", async () => {
  const home = await homeWith(30);
  const size = async (): Promise<number> => {
    const names = await readdir(join(home, ".bridge"));
    const sizes = await Promise.all(names.map((name) => stat(join(home, ".bridge", name))));
    return sizes.reduce((sum, each) => sum + each.size, 0);
  };
  await bridge(home, ["sessions"]);
  const before = await size();
  await rm(join(home, ".claude/projects"), { recursive: true });
  for (let n = 0; n < 2; n += 1) await bridge(home, ["sessions"], { BRIDGE_RETENTION_DAYS: "1" });
  expect(before).toBeGreaterThan(300_000);
  expect(await size()).toBeLessThan(before / 2);
});
