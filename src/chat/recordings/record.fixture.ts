import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Answer, message, text, thinking, toolUse } from "../../../test/fake-model/answer.ts";
import type { Conversation } from "../../../test/fake-model/conversation.ts";
import { startFakeModel } from "../../../test/fake-model/fake-model.ts";
import { runClaude } from "../../../test/fake-model/run-claude.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";

type Script = (conversation: Conversation, asked: number) => Answer;

const bash = (command: string) => toolUse("Bash", { command, description: "Run a command" });
const cutAfter = (deltas: number) => ({ interrupted: { afterDeltas: deltas, by: "cut" as const } });
const inTurn =
  (...answers: Answer[]): Script =>
  ({ answers: given }) =>
    answers[given] ?? message([text("There is nothing more.")]);

const turns: Record<string, { script: Script; args?: string[] }> = {
  text: { script: inTurn(message([text("Hello, this is a plain answer — with “quotes” and 🚀.")])) },
  thinking: {
    script: inTurn(message([thinking("Let me think about it for a moment."), text("I thought about it.")])),
  },
  tools: {
    script: inTurn(
      message([
        thinking("I need two commands."),
        text("First I look at the numbers."),
        bash("echo one; echo '```'; echo two"),
      ]),
      message([text("Then at the letters."), bash("echo alpha"), bash("echo beta")]),
      message([thinking("That is all I need."), text("Numbers and letters "), text("are in order.")]),
    ),
  },
  "tool-error": {
    script: inTurn(
      message([text("I try it."), bash("echo broken >&2; exit 3")]),
      message([text("It failed with 3.")]),
    ),
  },
  "ends-after-tool": {
    script: inTurn(message([text("I only do this."), bash("echo done")])),
    args: ["--max-turns", "1"],
  },
  "ends-in-silence": {
    script: ({ results }) => message(results.length > 0 ? [] : [text("I only do this."), bash("echo done")]),
  },
  "api-error": {
    script: inTurn(message([text("I begin."), bash("echo begun")]), {
      kind: "error",
      status: 500,
      message: "The model is out of order.",
    }),
  },
  "broken-same": {
    script: () => message([text("This answer is cut off in the middle and told again.")], cutAfter(3)),
  },
  "broken-other": {
    script: (_, asked) =>
      asked === 0
        ? message([text("DROPPED first try that nobody keeps.")], cutAfter(2))
        : message([text("This is another answer.")]),
  },
};

/** Runs every turn with the real CLI and writes what it said, without anything of the machine, into `directory`. */
export const record = async (directory: string): Promise<void> => {
  for (const [name, { script, args = [] }] of Object.entries(turns)) {
    await using model = await startFakeModel();
    let asked = 0;
    using _script = model.script((conversation) => script(conversation, asked++));
    const [home, cwd] = [await temporaryDirectory(), await temporaryDirectory()];
    const { events } = await runClaude("Go.", { url: model.url, home, cwd, args });
    const neutral = createNeutralizer([cwd, home]);
    const lines = events.flatMap((event) => neutral(event) ?? []);
    await writeFile(join(directory, `${name}.ndjson`), lines.map((line) => `${line}\n`).join(""));
  }
};

const initFields = ["type", "subtype", "cwd", "session_id", "model", "claude_code_version", "permissionMode"];

/** Ids become small numbers in the order in which they come, times and costs zero, paths and versions neutral. */
const createNeutralizer = (paths: string[]) => {
  const ids = new Map<string, string>();
  const numbered = (id: string, prefix: string): string =>
    ids.get(id) ?? (ids.set(id, `${prefix}${ids.size + 1}`).get(id) as string);
  const replaceText = (value: string): string =>
    paths
      .reduce((before, path) => before.replaceAll(path, "/work"), value)
      .replace(/\b(toolu|msg|req)_[A-Za-z0-9_]+/g, (id, kind: string) => numbered(id, `${kind}_`))
      .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, (id) =>
        numbered(id, "id-"),
      )
      .replace(/\bclaude-[a-z]+-[\w.-]+(\[\w+\])?/g, "model-1")
      .replace(/\b127\.0\.0\.1:\d+/g, "model.example");
  const replaceField = (key: string, value: unknown): unknown => {
    if (key === "claude_code_version") return "0.0.0";
    if (key === "timestamp" || key === "modelUsage") return undefined;
    if (typeof value === "string") return replaceText(value);
    return typeof value === "number" && /(_ms|_cost_usd)$/.test(key) ? 0 : value;
  };
  return (event: Record<string, unknown>): string | null => {
    const init = event["subtype"] === "init";
    const fields = Object.entries(event).filter(([key]) => !init || initFields.includes(key));
    return JSON.stringify(Object.fromEntries(fields), (key, value: unknown) => replaceField(key, value));
  };
};
