import { describe, expect, test } from "vitest";
import type { AgentEvent, StageEvent } from "../../src/contract/event.ts";
import { readAnsi } from "../../web/src/job/ansi.ts";
import { createConversation, type Entry, type ToolEntry } from "../../web/src/job/conversation.ts";
import { longestLine, readPatch } from "../../web/src/job/patch.ts";
import { sampleLog } from "../cli/sample-job.ts";

const conversationOf = (...events: (AgentEvent | StageEvent)[]) => {
  const conversation = createConversation();
  for (const event of sampleLog(...events)) conversation.add(event);
  return conversation;
};

const use = (id: string, name = "Bash", parent: string | null = null): AgentEvent => ({
  type: "tool_use",
  id,
  name,
  input: { command: id },
  parent,
});
const answer = (id: string, content = "ok", is_error = false): AgentEvent => ({
  type: "tool_result",
  tool_use_id: id,
  content,
  is_error,
  parent: null,
});
const tool = (entry: Entry | undefined): ToolEntry => {
  if (entry?.kind !== "tool") throw new Error(`this is ${entry?.kind}, not a tool call`);
  return entry;
};

describe("a conversation", () => {
  test("joins pieces of text and thinking by their block", () => {
    const { entries } = conversationOf(
      { type: "thinking", block: 1, text: "Let me " },
      { type: "thinking", block: 1, text: "see." },
      { type: "block_end", block: 1 },
      { type: "text", block: 2, text: "It is " },
      { type: "text", block: 2, text: "so." },
    );
    expect(entries).toMatchObject([
      { kind: "thinking", seq: 1, text: "Let me see.", isOpen: false },
      { kind: "text", seq: 4, text: "It is so.", isOpen: true },
    ]);
  });

  test("puts results to their calls, in whatever order they come", () => {
    const { entries, facts, indexOf } = conversationOf(
      { type: "tool_start", id: "a", name: "Edit" },
      use("a", "Edit"),
      use("b", "Read"),
      answer("b", "text"),
      answer("a", "no", true),
    );
    expect(entries).toMatchObject([
      { name: "Edit", input: { command: "a" }, state: "failed", result: { seq: 5, content: "no" } },
      { name: "Read", state: "done", result: { seq: 4, content: "text" } },
    ]);
    expect([1, 2, 3, 4, 5].map(indexOf)).toEqual([0, 0, 1, 1, 0]);
    // Reading changes no file.
    expect(facts.edits).toBe(1);
  });

  test("shows a subagent's calls under the call that started it", () => {
    const { entries, indexOf } = conversationOf(
      use("task", "Task"),
      use("x"),
      use("in", "Grep", "task"),
      answer("in"),
    );
    expect(entries).toHaveLength(2);
    expect(tool(entries[0]).calls).toMatchObject([{ name: "Grep", state: "done" }]);
    expect([indexOf(3), indexOf(4)]).toEqual([0, 0]);
  });

  test("a hostile chain of subagents does not nest without end", () => {
    const { entries } = conversationOf(
      ...Array.from({ length: 1000 }, (_, n) => use(`${n}`, "Task", n === 0 ? null : `${n - 1}`)),
    );
    const depth = (entry: ToolEntry): number => 1 + Math.max(0, ...entry.calls.map(depth));
    expect(depth(tool(entries[0]))).toBe(3);
  });

  test("marks a piece of text that the model began anew", () => {
    const { entries } = conversationOf(
      { type: "text", block: 1, text: "The ans" },
      { type: "warning", message: "It broke off.", dropped_block: 1 },
      { type: "text", block: 2, text: "The answer" },
    );
    expect(entries).toMatchObject([
      { kind: "text", isDropped: true, isOpen: false },
      { kind: "problem", text: "It broke off." },
      { kind: "text", isDropped: false },
    ]);
  });

  test("what the agent leaves open ends with it", () => {
    const { entries } = conversationOf(
      use("a"),
      { type: "text", block: 1, text: "…" },
      {
        type: "exited",
        exit_code: null,
        signal: "SIGKILL",
      },
    );
    expect(entries).toMatchObject([
      { state: "unanswered" },
      { isOpen: false },
      { kind: "note", text: expect.stringContaining("SIGKILL") },
    ]);
  });

  test("collects model, session, stages, cost and tokens", () => {
    const usage = {
      input_tokens: 1,
      output_tokens: 2,
      cache_creation_input_tokens: 3,
      cache_read_input_tokens: 4,
    };
    const { facts } = conversationOf(
      { type: "stage", stage: "worktree_ready", detail: "/work" },
      { type: "started", session_id: "s", model: "m", agent_version: null },
      {
        type: "result",
        ok: true,
        text: "Done",
        subtype: "success",
        api_status: null,
        session_id: "s",
        num_turns: 3,
        cost_usd: 0.5,
        usage,
        duration_ms: 1,
      },
    );
    expect(facts).toMatchObject({ seq: 3, model: "m", session: "s", worktree: "/work", costUsd: 0.5, usage });
  });

  test("events of a later version and results without a call do no harm", () => {
    const { entries } = conversationOf({ type: "novelty" } as unknown as AgentEvent, answer("never"));
    expect(entries).toMatchObject([{ kind: "tool", name: "", state: "done" }]);
  });

  test("takes the last of 100,000 events as quickly as the first", () => {
    const log = sampleLog(
      ...Array.from({ length: 25_000 }, (_, n): AgentEvent[] => [
        use(`${n}`, "Bash", n % 2 === 0 ? null : "0"),
        answer(`${n}`),
        { type: "text", block: n, text: "a" },
        { type: "text", block: n, text: "b" },
      ]).flat(),
    );
    const conversation = createConversation();
    const take = (from: number, to: number): number => {
      const began = performance.now();
      for (const event of log.slice(from, to)) conversation.add(event);
      return performance.now() - began;
    };
    const first = take(0, 50_000);
    expect(take(50_000, 100_000)).toBeLessThan(5 * first + 100);
    expect(conversation.entries).toHaveLength(37_500);
  });
});

const patch = `diff --git a/src/date.ts b/src/date.ts
index 1111111..2222222 100644
--- a/src/date.ts
+++ b/src/date.ts
@@ -1,3 +1,3 @@ const x
 same
--- no header
+++ no header either
 end
@@ -10 +10,2 @@
-old
\\ No newline at end of file
+new
+more
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
diff --git "a/\\303\\244\\t.txt" "b/\\303\\244\\t.txt"
new file mode 100644
index 000..111
--- /dev/null
+++ "b/\\303\\244\\t.txt"
@@ -0,0 +1 @@
+x
diff --git a/gone.png b/gone.png
deleted file mode 100644
index 1..0
GIT binary patch
literal 3
Kabc

literal 0
HcmV?d00001

`;

const now = async (): Promise<void> => {};

describe("a patch", () => {
  test("is read as files, with their lines counted", async () => {
    const { files } = await readPatch(patch, now);
    expect(files).toMatchObject([
      { path: "src/date.ts", status: "modified", insertions: 3, deletions: 2, row: 0 },
      { path: "new name", oldPath: "old name", status: "renamed", insertions: 0 },
      { path: "ä\t.txt", status: "added", insertions: 1 },
      { path: "gone.png", status: "deleted", isBinary: true, deletions: 0 },
    ]);
  });

  test("is shown as rows with the line numbers of both sides", async () => {
    const { rows, row } = await readPatch(patch, now);
    const shown = Array.from({ length: rows }, (_, index) => row(index)).map(
      (each) => `${each?.kind} ${each?.before ?? ""}:${each?.after ?? ""} ${each?.text}`,
    );
    expect(shown.slice(0, 12)).toEqual([
      "file : src/date.ts",
      "hunk : @@ -1,3 +1,3 @@ const x",
      "same 1:1 same",
      "deleted 2: -- no header",
      "added :2 ++ no header either",
      "same 3:3 end",
      "hunk : @@ -10 +10,2 @@",
      "deleted 10: old",
      "note : \\ No newline at end of file",
      "added :10 new",
      "added :11 more",
      "file : new name",
    ]);
    expect(row(rows)).toBeNull();
    expect(row(-1)).toBeNull();
  });

  test("shows what would steer a reader, and cuts endless lines", async () => {
    const { row } = await readPatch(
      `diff --git a/a b/a\n@@ -0,0 +1,3 @@\n+\u001B[2Jx\u202Ey\n+a\r\n+${"z".repeat(1_000_000)}\n`,
      now,
    );
    expect(row(2)?.text).toBe("\u{FFFD}[2Jx\u{FFFD}y");
    expect(row(3)?.text).toBe("a^M");
    expect(row(4)?.text).toHaveLength(longestLine + " … 998,000 more characters".length);
  });

  test.each(["", "\n", "no patch\n+at all\n", "diff --git", "@@ -1 +1 @@\n-a\n+b"])(
    "%j is not taken for a patch with lines",
    async (text) => {
      expect((await readPatch(text, now)).files.flatMap(({ insertions }) => insertions)).not.toContain(1);
    },
  );

  test("of 5 MB is read in slices, and can be given up", async () => {
    const hunk = `@@ -1,2 +1,2 @@\n same\n-${"a".repeat(40)}\n+${"b".repeat(40)}\n`;
    const large = `diff --git a/x b/x\n${hunk.repeat(52_000)}`;
    let slices = 0;
    const { rows } = await readPatch(large, async () => void (slices += 1), 0);
    expect(rows).toBe(1 + 4 * 52_000);
    expect(slices).toBeGreaterThan(50);
    const gone = new Error("gone");
    await expect(readPatch(large, () => Promise.reject(gone), 0)).rejects.toBe(gone);
  });
});

describe("a command's output", () => {
  const escape = "\u001B";
  test("keeps colours as styles, and nothing else of its control sequences", () => {
    expect(
      readAnsi(
        `plain ${escape}[1;31mred${escape}[0m ${escape}[92mgreen${escape}[39m${escape}[2J${escape}]0;title\u0007 end`,
      ),
    ).toEqual([
      { text: "plain ", style: "" },
      { text: "red", style: "bold ansi-1" },
      { text: " ", style: "" },
      { text: "green", style: "ansi-10" },
      { text: " end", style: "" },
    ]);
  });

  test("leaves out colours beyond sixteen, without taking their numbers for styles", () => {
    expect(readAnsi(`${escape}[38;5;1;4mx${escape}[48;2;1;3;4my${escape}[999mz`)).toEqual([
      { text: "xyz", style: "underline" },
    ]);
  });

  test("shows a progress line as it ended, and markup as text", () => {
    expect(readAnsi("10 %\r50 %\r100 %\r\n<b>\u202Ebold</b>\r\n")).toEqual([
      { text: "100 %\n<b>\u{FFFD}bold</b>\n", style: "" },
    ]);
  });

  test("of hostile length takes no time", () => {
    const began = performance.now();
    for (const piece of ["\r", "x", `${escape}[`, `${escape}]`, `${escape}[1;`, "\n\r"])
      readAnsi(piece.repeat(500_000));
    expect(performance.now() - began).toBeLessThan(5000);
  });
});
