import { expect, test } from "vitest";
import { startTools, token } from "./handlers.fixture.ts";
import { append, lines, newSource, userLine } from "./transcript-index.fixture.ts";

test.each([true, false])(
  "what is masked cannot be found by its letters, with BRIDGE_REDACT=%s",
  async (redact) => {
    const open = await startTools({ redact });
    await open.session("s3", userLine(`the key is ${token} for wombats`));
    await append(
      open.index,
      newSource("history", "/h/history.jsonl"),
      lines({ display: `keep ${token} for wombats`, timestamp: 1, project: "/p", sessionId: "s3" }),
    );
    const totals = async (query: string): Promise<number[]> =>
      Promise.all([
        open.ask("search_sessions", { query }).then(({ total }) => total),
        open.ask("search_history", { query: query.replaceAll(/[*"]/g, "") }).then(({ total }) => total),
      ]);
    expect(await totals("wombats")).toEqual([1, 1]);
    for (const letters of ["ghp*", "ghp_q7*", '"ghp_q7"*', token, `${token.slice(0, -1)}*`])
      expect(await totals(letters)).toEqual([0, 0]);
  },
);
