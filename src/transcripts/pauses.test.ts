import { expect, test } from "vitest";
import { startTools, talk } from "./handlers.fixture.ts";
import { assistantLine } from "./transcript-index.fixture.ts";

/** How often other requests could be answered during the work. */
const turnsDuring = async (work: () => Promise<unknown>): Promise<number> => {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
};

test("others are answered while the actions of a long session are read", async () => {
  const { ask, session } = await startTools();
  const input = { command: "x".repeat(50_000) };
  await session(
    "s",
    ...Array.from({ length: 60 }, () => assistantLine([{ type: "tool_use", id: "t", name: "Bash", input }])),
  );
  const asked = () => ask("get_session_actions", { session_id: "s" });
  expect(await turnsDuring(asked)).toBeGreaterThan(20);
});

test("others are answered while a search by meaning lists the sessions and prepares a long one", async () => {
  const embed = { model: "m", vectors: async (texts: readonly string[]) => texts.map(() => [1]) };
  const { ask, session } = await startTools({ models: { embed, complete: null } });
  await session("long", ...talk(200, "w".repeat(500)));
  for (let n = 0; n < 200; n += 1) await session(`s${n}`, ...talk(1));
  const asked = () => ask("search_semantic", { query: "otter" });
  await asked();
  expect(await turnsDuring(asked)).toBeGreaterThan(3);
  await session("late", ...talk(600, "w".repeat(500)));
  expect(await turnsDuring(asked)).toBeGreaterThan(12);
});
