import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createCollector } from "./collector.ts";
import { openTranscriptIndex } from "./transcript-index.ts";
import { question, quiet } from "./transcript-index.fixture.ts";

const home = join(import.meta.dirname, "../../test/transcripts/fixtures/home");

test("what the real CLI writes is read: prompts, answers, tools, errors, subagents, compaction", async () => {
  const directory = await temporaryDirectory();
  const index = openTranscriptIndex({ path: join(directory, "t.db"), log: quiet });
  const collector = createCollector({
    homes: [home],
    codexHome: join(directory, "none"),
    corpus: index,
    log: quiet,
    now: () => new Date(),
  });
  await collector.collect(new AbortController().signal);
  const session = (number: string) => `00000000-0000-4000-8000-${number.padStart(12, "0")}`;
  expect(index.session(session("46"))).toMatchObject({
    num_user_turns: 1,
    num_assistant_turns: 6,
    num_tool_calls: 5,
    model: "claude-opus-4-8",
  });
  expect((await index.actions(session("183"), ["error"])).actions).toMatchObject([
    { name: "ExitPlanMode", is_error: true },
  ]);
  expect(index.session(session("93"))).toMatchObject({ has_subagents: true, num_user_turns: 1 });
  expect(index.session(session("178"))).toMatchObject({ num_user_turns: 1, summary: "/usage" });
  expect(index.session(session("149"))).toMatchObject({ title: "My title", num_user_turns: 4 });
  const compacted = index.entries(session("149"), { offset: 0, limit: 50, since: null, until: null }).items;
  expect(compacted.filter(({ entry_type }) => entry_type === "user").map(({ content }) => content)).toEqual([
    expect.stringContaining("First answer"),
    expect.stringContaining("Second answer"),
    expect.stringMatching(/^\/compact/),
    expect.stringContaining("After the compaction"),
  ]);
  expect(compacted.filter(({ entry_type }) => entry_type === "summary")).toHaveLength(1);
  expect(index.search(question("Grüße")).matches).toMatchObject([{ session_id: session("1") }]);
  index.close();
});
