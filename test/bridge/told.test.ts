import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { append, newSource, question, quiet } from "../../src/transcripts/transcript-index.fixture.ts";
import { openTranscriptIndex } from "../../src/transcripts/transcript-index.ts";
import { bothClis } from "../agent-clis.ts";
import { message, runTelling } from "../fake-agent/telling.ts";
import { message as answer, text, toolUse } from "../fake-model/answer.ts";
import { startFakeModel } from "../fake-model/fake-model.ts";
import { temporaryDirectory } from "../temporary.ts";

test.each(bothClis)(
  "what a job is told while it works is a turn of its session, in its place: $which CLI",
  async ({ cli }) => {
    const model = await startFakeModel({ token: "canary-token" });
    onTestFinished(() => model.close());
    let count = 0;
    model.script(() => {
      count += 1;
      const command = { command: "sleep 1", description: "Work" };
      return answer(count > 1 ? [text(`Answer ${count}`)] : [toolUse("Bash", command)]);
    });
    const { outcome, directory } = await runTelling("Begin", {
      settings: { agentCliBinary: cli, modelBaseUrl: model.url, modelAuthToken: "canary-token" },
      launch: { bypassPermissions: true, args: ["--model=sonnet", "--dangerously-skip-permissions"] },
      at: "tool_use",
      tell: async ({ say }) => {
        for (const one of [
          message("feed the wombat"),
          message("/clear the cage"),
          message("then rest", "later"),
        ])
          await say(one);
      },
    });
    const id = String(outcome.sessionId);
    const projects = join(directory, ".config-of-job", "projects");
    const path = join(projects, directory.replaceAll(/[^a-zA-Z0-9]/g, "-"), `${id}.jsonl`);
    const index = openTranscriptIndex({ path: join(await temporaryDirectory(), "t.db"), log: quiet });
    onTestFinished(() => index.close());
    await append(index, newSource("session", path), await readFile(path));
    const { items } = index.entries(id, { offset: 0, limit: 100, since: null, until: null });
    const said = items.filter(({ content, entry_type }) => content !== "" && entry_type !== "system");
    expect(said.map(({ entry_type, content }) => [entry_type, content])).toEqual([
      ["user", "Begin"],
      ["user", "feed the wombat"],
      ["user", "/clear the cage"],
      ["assistant", "Answer 2"],
      ["user", "then rest"],
      ["assistant", "Answer 3"],
    ]);
    expect(index.session(id)).toMatchObject({ num_user_turns: 4 });
    expect(index.search(question("wombat", { role: "user" })).matches).toMatchObject([{ session_id: id }]);
  },
);
