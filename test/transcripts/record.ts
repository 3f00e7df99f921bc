import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { startFakeModel } from "../fake-model/fake-model.ts";
import { runClaude } from "../fake-model/run-claude.ts";

/** Makes `fixtures/` anew: `node tools/run.mjs -- test/transcripts/record.ts`. */

const home = await mkdtemp(join(tmpdir(), "record-home-"));
const cwd = await mkdtemp(join(tmpdir(), "record-cwd-"));
const model = await startFakeModel();
/** Session ids and what the session is about, in the order in which they were made. */
const sessions = new Map<string, string>();

const run = async (name: string, prompt: string, ...args: string[]): Promise<string> => {
  const { result } = await runClaude(prompt, { url: model.url, home, cwd, args });
  const id = String(result?.["session_id"]);
  if (!sessions.has(id)) sessions.set(id, name);
  process.stdout.write(`${name}: ${String(result?.["result"]).slice(0, 100)}\n`);
  return id;
};

const tools = (calls: [name: string, input: object][], text: string): string =>
  `scenario: tools ${JSON.stringify({ calls: calls.map(([name, input]) => ({ name, input })), text })}`;

const agent = (description: string, prompt: string): [string, object] => [
  "Agent",
  { description, prompt, subagent_type: "general-purpose" },
];

const record = async (): Promise<void> => {
  await writeFile(
    join(cwd, "temperature.js"),
    "export const toFahrenheit = (celsius) => (celsius * 9) / 5 + 32;\n",
  );
  await writeFile(join(cwd, "package.json"), '{ "type": "module" }\n');
  for (const args of [
    "init --quiet --initial-branch=main",
    "add --all",
    "-c user.name=A -c user.email=a@example.com commit --quiet --message First",
  ])
    execFileSync("git", ["-C", cwd, ...args.split(" ")]);

  await run("text", 'scenario: text {"text": "Grüße 🚀 “ok”"}');
  await run("thinking", 'scenario: thinking {"thinking": "Hm… 🤔", "text": "I thought about it."}');
  await run("tools", "Add a function toCelsius beside toFahrenheit, with a test, and commit it.");
  const file = join(cwd, "temperature.js");
  await run(
    "errors",
    tools(
      [
        ["Bash", { command: "echo one; echo two >&2; exit 3", description: "Fails" }],
        ["Read", { file_path: join(cwd, "missing.txt") }],
        ["Edit", { file_path: file, old_string: "not there", new_string: "x" }],
        ["NoSuchTool", { x: 1 }],
        ["Edit", { file_path: file, old_string: "celsius *", new_string: "celsius * 1 *" }],
      ],
      "Some of it failed.",
    ),
  );
  await run("api-error", 'scenario: error {"status": 400, "message": "No luck today."}');
  await run(
    "subagents",
    tools(
      [
        agent("Look around", 'scenario: bash {"command": "ls", "text": "There are files."}'),
        agent("Say hello", 'scenario: text {"text": "Hello from the subagent."}'),
      ],
      "Both agents are done.",
    ),
  );
  const resumed = await run("resumed", 'scenario: text {"text": "The word is walrus."}');
  await run("resumed", 'scenario: text {"text": "It still is walrus."}', "--resume", resumed);
  await run("fork", 'scenario: text {"text": "In the fork."}', "--resume", resumed, "--fork-session");
  const compacted = await run("compacted", 'scenario: text {"text": "First answer."}', "--name", "My title");
  await run("compacted", 'scenario: text {"text": "Second answer."}', "--resume", compacted);
  await run("compacted", "/compact scenario: text", "--resume", compacted);
  await run("compacted", 'scenario: text {"text": "After the compaction."}', "--resume", compacted);
  await run("command", "/cost");
  await run(
    "plan",
    tools([["ExitPlanMode", { plan: "# Plan\n\n1. Do it.\n" }]], "Planned."),
    "--permission-mode",
    "plan",
  );
};

/** Every id once gets a neutral one of its kind, by its first appearance in the order of the sessions. */
const neutral = new Map<string, string>();
const ids =
  /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b(?:msg|toolu|req)_[A-Za-z0-9_]+|\ba[0-9a-f]{16}\b/g;
const neutralId = (id: string): string => {
  const number = neutral.size + 1;
  const made = id.includes("_")
    ? `${id.slice(0, id.indexOf("_"))}_${number}`
    : id.includes("-")
      ? `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`
      : `a${String(number).padStart(16, "0")}`;
  neutral.set(id, neutral.get(id) ?? made);
  return neutral.get(id) ?? made;
};
const encoded = (path: string): string => path.replace(/[^A-Za-z0-9]/g, "-");
const neutralText = (text: string): string =>
  text
    .replaceAll(home, "/home/user/.claude")
    .replaceAll(cwd, "/home/user/temperature")
    .replaceAll(encoded(cwd), "-home-user-temperature")
    .replaceAll(ids, neutralId);

/** What the CLI tells the model of its own skills and agents is long and says nothing here. */
const shortened = (line: string): string =>
  line.includes('"type":"attachment"')
    ? JSON.stringify(JSON.parse(line), (_, value: unknown) =>
        typeof value === "string" && value.length > 200 ? `${value.slice(0, 20)}…` : value,
      )
    : line;

const save = async (): Promise<void> => {
  const target = join(import.meta.dirname, "fixtures", "home");
  await rm(target, { recursive: true, force: true });
  const order = [...sessions.keys()];
  const rank = (path: string): number => order.findIndex((id) => path.includes(id));
  const paths = (await readdir(home, { recursive: true }))
    .filter((path) => /^(projects\/.*\.(jsonl|json)|plans\/.*|history\.jsonl)$/.test(path))
    .toSorted((a, b) => rank(a) - rank(b) || a.length - b.length);
  for (const path of paths) {
    const to = join(target, neutralText(path));
    await mkdir(dirname(to), { recursive: true });
    const lines = (await readFile(join(home, path), "utf8")).split("\n");
    await writeFile(to, neutralText(lines.map(shortened).join("\n")));
  }
  for (const [id, name] of sessions) process.stdout.write(`${neutralId(id)} ${name}\n`);
};

await record();
await model.close();
await save();
await Promise.all([home, cwd].map((path) => rm(path, { recursive: true })));
