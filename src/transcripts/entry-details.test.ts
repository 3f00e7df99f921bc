import { expect, test } from "vitest";
import { answerBytes } from "./answer-size.ts";
import { startTools, token } from "./handlers.fixture.ts";
import { assistantLine, userLine } from "./transcript-index.fixture.ts";

test("with details a part has thinking, calls and results with their entries, masked, long ones cut", async () => {
  const { ask, session } = await startTools();
  const result = (id: string, content: string, is_error = false) =>
    userLine([{ type: "tool_result", tool_use_id: id, content, is_error }]);
  const thinking = (text: string) => assistantLine([{ type: "thinking", thinking: text }]);
  const long = "x".repeat(50_000);
  await session(
    "work",
    userLine("do it"),
    thinking(`with ${token}`),
    assistantLine([{ type: "tool_use", id: "t1", name: "Bash", input: { command: "ls" } }]),
    assistantLine([{ type: "tool_use", id: "t2", name: "Write", input: { content: long } }]),
    result("t1", "two files"),
    userLine("of a subagent", { isSidechain: true }),
    result("t2", long, true),
    assistantLine("done"),
  );
  const work = { session_id: "work", details: true };
  const { entries, total_count, ...rest } = await ask("get_session_segment", work);
  expect({ total_count, truncated: rest.truncated }).toEqual({ total_count: 4, truncated: false });
  expect(entries.map(({ details }) => details)).toEqual([
    [{ kind: "thinking", text: "with ***" }],
    [{ kind: "call", call_id: "t1", name: "Bash", input: { command: "ls" } }],
    [
      { kind: "call", call_id: "t2", name: "Write", input: { content: expect.stringContaining("[… cut:") } },
      { kind: "result", call_id: "t1", text: "two files", is_error: false },
      { kind: "result", call_id: "t2", text: expect.stringContaining("[… cut:"), is_error: true },
    ],
    [],
  ]);
  expect(JSON.stringify(entries).length).toBeLessThan(12_000);
  expect((await ask("get_session_segment", { ...work, offset: 1, limit: 1 })).entries).toEqual([entries[1]]);
  expect(await ask("get_session_segment", { ...work, offset: 9 })).toMatchObject({ count: 0 });
  // A hit in a result leads to the entry that has it.
  const { matches } = await ask("search_sessions", { query: '"two files"' });
  expect(matches).toMatchObject([{ session_id: "work", position: 2 }]);
});

test("one entry with very many details still fits into an answer", async () => {
  const { ask, session } = await startTools();
  const results = Array.from({ length: 100 }, (_, n) =>
    userLine([{ type: "tool_result", tool_use_id: `t${n}`, content: "y".repeat(4000) }]),
  );
  await session("many", userLine("do it"), ...results, userLine("go on"));
  const answer = await ask("get_session_segment", { session_id: "many", details: true });
  expect(answer).toMatchObject({ truncated: true, count: 1, total_count: 2 });
  expect(JSON.stringify(answer).length).toBeLessThan(answerBytes);
});
