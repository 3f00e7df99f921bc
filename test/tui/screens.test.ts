import { beforeAll, describe, expect, test } from "vitest";
import { sampleJob, sampleLog } from "../cli/sample-job.ts";
import { sampleInstance, stubInstance } from "./stub-instance.ts";
import { startTmux, type Tmux } from "./terminal.ts";

/** What a user sees of `svc agents` on a real terminal, kept in `screens/`. */

const escape = String.fromCodePoint(0x1b);
const bell = String.fromCodePoint(7);
const hostileName = `night${escape}]0;owned${bell}ly`;

const running = sampleJob({
  id: "6f1c1a52-0000-4000-8000-000000000001",
  status: "running",
  pod_name: "build-1",
  task: "Fix the failing date test: it fails only between midnight and two o'clock, and only in Berlin.",
  started_at: "2026-05-01T12:00:01.000Z",
});
const hostile = sampleJob({
  id: "0b0f4a52-0000-4000-8000-000000000002",
  status: "failed",
  repo_url: "https://github.com/acme/app",
  task: `Rename ${escape}]0;owned${bell}${escape}[31mthis${escape}[0m\nand${String.fromCodePoint(0x9b)}2J that`,
});
const log = sampleLog(
  { type: "stage", stage: "queued", detail: null },
  { type: "stage", stage: "worktree_ready", detail: "/home/ana/.service/worktrees/6f1c1a52" },
  { type: "thinking", block: 0, text: "A date test that fails only at night smells of time zones." },
  { type: "block_end", block: 0 },
  {
    type: "text",
    block: 1,
    text: "The test compares local times, and the machine's zone decides whether it passes.",
  },
  { type: "block_end", block: 1 },
  { type: "text", block: 2, text: `${escape}]0;owned${bell}I'll compare${escape}[2J instants instead.` },
  { type: "block_end", block: 2 },
  { type: "tool_use", id: "1", name: "Bash", input: { command: "npm test -- --grep night" }, parent: null },
);
const patch = `diff --git a/src/date.js b/src/date.js
index 1111111..2222222 100644
--- a/src/date.js
+++ b/src/date.js
@@ -1,2 +1,2 @@
-const day = local();
+const day = ${escape}[2Jinstant();
 export { day };
`;

let tmux: Tmux;
beforeAll(async () => {
  const chat = await stubInstance({ instances: () => [], answeredBy: "chat-1" });
  const nightly = await stubInstance({ instances: () => [], answeredBy: hostileName });
  const stub = await stubInstance({
    answeredBy: "build-1",
    waiting: 4,
    instances: () => [
      sampleInstance(),
      sampleInstance({
        name: "chat-1",
        agent_mode: true,
        turns: 2,
        running: 0,
        address: `http://127.0.0.1:${chat.port}`,
      }),
      sampleInstance({
        name: hostileName,
        draining: true,
        address: `http://127.0.0.1:${nightly.port}`,
      }),
      sampleInstance({ name: "remote-9", version: "0.9.0" }),
    ],
    jobs: () =>
      [running, hostile].map((job) => ({
        ...job,
        created_at: new Date(Date.now() - 12.5 * 60_000).toISOString(),
        started_at: null,
      })),
    events: () => log,
    diff: patch,
  });
  tmux = await startTmux({ SERVICE_PORT: String(stub.port) });
});

const withoutTimes = (seen: string): string => `${seen.replaceAll(/ +\d+:\d\d {2}/g, "  12:30  ")}\n`;

describe.each([80, 120])("on a terminal of %i columns", (columns) => {
  test.concurrent("the screens look as they did", async ({ expect: same }) => {
    const keep = (name: string, seen: string) =>
      same(withoutTimes(seen)).toMatchFileSnapshot(`screens/${name}-${columns}.txt`);
    const terminal = await tmux.open({ columns });
    await keep("fleet", await terminal.shows("remote-9", "4 instances"));
    await terminal.press("?");
    await keep("help", await terminal.shows("Everywhere"));
    await terminal.press("Escape");
    await terminal.shows("remote-9");
    await terminal.press("Enter");
    await keep("instance", await terminal.shows("6f1c1a52", "Bash"));
    await terminal.press("a");
    await keep("all-jobs", await terminal.shows("0b0f4a52", "Bash"));
    await terminal.press("4");
    await keep("job", await terminal.shows("c cancel", "Bash"));
    await terminal.press("d");
    await keep("diff", await terminal.shows("instant()"));
    await terminal.press("Escape");
    await terminal.shows("c cancel");
    await terminal.press("i");
    await terminal.shows("Where the time went");
    await terminal.press("q");
    await terminal.shows("c cancel");
    await terminal.press("q");
    await terminal.shows("ACTION");
    await terminal.press("3");
    await keep("health", await terminal.shows("accepts jobs"));
    // Nothing of what instances and agents say has reached the terminal.
    same(await terminal.ask("pane_title")).not.toContain("owned");
  });
});

test.concurrent("40 columns and NO_COLOR: what matters is on the screen, without colours", async () => {
  const terminal = await tmux.open({ columns: 40, env: { NO_COLOR: "1", CI: "true" } });
  await terminal.shows("build-1", "ready", "draining", "unreachable", "1/3");
  const seen = await terminal.screen(true);
  expect(seen).not.toContain(escape);
  expect(seen).toMatch(/^> 1 {2}build-1/m);
});
