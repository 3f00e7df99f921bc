import { expect, test } from "vitest";
import { transcriptOperations } from "../contract/transcript.ts";
import { unpainted } from "./paint.ts";
import { transcriptViews } from "./transcripts.ts";

const layout = { paint: unpainted, columns: 80 };
const id = "5a4d7a7e-0b44-4a3c-8a1e-6a5f6d8c2f11";
const session = {
  session_id: id,
  project_path: "https://github.com/acme/an-application-with-a-long-name.git",
  git_branch: "main",
  start_time: null,
  last_update: null,
  num_user_turns: 12,
  num_assistant_turns: 0,
  num_tool_calls: 0,
  summary: "Mend the date test, which fails on the last day of each month in some time zones",
  has_subagents: false,
  title: "",
  model: "",
  cost_usd: null,
  total_tokens: 0,
  job_id: null,
};

test("a list of sessions fits 80 columns, with short ids, and has no column of costs that nobody knows", () => {
  const sessions = [
    session,
    { ...session, session_id: `rollout-2026-03-01T09-00-00-${id}`, project_path: "/h/app" },
  ].map((each) =>
    transcriptOperations.list_sessions.output.shape.sessions.element.parse({ ...each, kind: "session" }),
  );
  const text = transcriptViews.list_sessions(
    { success: true, sessions, total: 2, count: 2, offset: 0 },
    layout,
  );
  expect(
    text
      .split("\n")
      .map((line) => line.length)
      .filter((length) => length > 80),
  ).toEqual([]);
  expect(text).toMatch(
    /^SESSION +AGE +TURNS +PROJECT +SUMMARY\n5a4d7a7e +– +12 +…cation-with-a-long-name +Mend/,
  );
  expect(text).toMatch(/\n5a4d7a7e +– +12 +h\/app +Mend/);
});

test("a match says how often and where the best of its hits is", () => {
  const match = {
    session_id: id,
    project_path: "git@github.com:acme/app.git",
    entry_type: "system" as const,
    uuid: "",
    position: 0,
    score: 1,
    content_preview: "»walrus«",
    timestamp: null,
    num_hits: 5,
  };
  expect(
    transcriptViews.search_sessions(
      { success: true, query: "", matches: [match], total: 1, count: 1, next_cursor: null },
      layout,
    ),
  ).toBe("5a4d7a7e  –  acme/app  5 hits, the best in a tool's output\n»walrus«");
});
