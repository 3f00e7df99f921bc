import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** What a good agent does: writes files, commits them, says so. */
export const work = (turn) => {
  const { options, init, think, say, result, prompt } = turn;
  const {
    files = 1,
    file = "agent-output.txt",
    content = `${prompt.slice(0, 1000)}\n`,
    message = "Do the task",
  } = options;
  init();
  think("I will write a file and commit it.");
  const names = Array.from({ length: files }, (_, n) => (n === 0 ? file : `${n + 1}-${file}`));
  for (const name of names) writeWithTool(turn, name, content);
  const committed = commit(turn, names, message);
  const answer = committed ? `Done: ${file} is committed.` : `Done: ${file} is written.`;
  say(answer);
  result({ result: answer });
};

/** Ends at once, well. */
export const noop = ({ options, init, result }) => {
  init();
  result({ result: options.kilobytes ? `${"ä".repeat(options.kilobytes * 512)} the end` : "Nothing to do." });
};

export const commitNothing = ({ init, say, result }) => {
  init();
  say("There is nothing to change.");
  result({ result: "There is nothing to change." });
};

export const commitDirt = (turn) => {
  turn.init();
  writeWithTool(turn, "committed.txt", "committed\n");
  commit(turn, ["committed.txt"], "Half of the work");
  writeWithTool(turn, "dirt.txt", "dirt\n");
  writeFileSync("committed.txt", "committed, then changed\n");
  turn.say("One file is committed, one is not.");
  turn.result({ result: "One file is committed, one is not." });
  return turn.options.code ?? 0;
};

/** Leaves what a shell command leaves, commits nothing. */
export const shell = async ({ options, init, say, result }) => {
  init();
  execFileSync("/bin/sh", ["-ec", options.run]);
  say("The command has run.");
  if (options.stays) await new Promise(() => setInterval(() => undefined, 1000));
  result({ result: "The command has run." });
};

/** Removes its own working directory under its feet. */
export const deleteWorktree = (turn) => {
  turn.init();
  writeWithTool(turn, "gone.txt", "gone\n");
  if (turn.options.commit !== false) commit(turn, ["gone.txt"], "Work that is deleted after");
  const cwd = process.cwd();
  process.chdir("/");
  rmSync(cwd, { recursive: true, force: true });
  turn.say("The directory is gone.");
  turn.result({ result: "The directory is gone." });
};

/** Writes into every directory beside its own. */
export const touchSiblings = (turn) => {
  turn.init();
  const root = dirname(process.cwd());
  const touched = readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && join(root, entry.name) !== process.cwd())
    .map((entry) => join(root, entry.name, turn.options.file ?? "intruder.txt"));
  for (const file of touched) writeFileSync(file, "was here\n");
  writeWithTool(turn, "own.txt", "own\n");
  commit(turn, ["own.txt"], "Own work");
  turn.say(`Touched ${touched.length} siblings.`);
  turn.result({ result: `Touched ${touched.length} siblings.` });
};

/** Says how many prompts the session had before: proves a resume. */
export const remember = ({ init, say, result, earlierPrompts }) => {
  init();
  say(`I remember ${earlierPrompts} earlier prompts.`);
  result({ result: `I remember ${earlierPrompts} earlier prompts.` });
};

const writeWithTool = ({ tool }, file, content) => {
  mkdirSync(dirname(join(process.cwd(), file)), { recursive: true });
  writeFileSync(file, content);
  tool("Write", { file_path: join(process.cwd(), file), content }, `File created successfully at: ${file}`);
};

/** False where there is no repository. */
const commit = ({ tool }, files, message) => {
  if (!existsSync(".git")) return false;
  const author = ["-c", "user.name=Fake Agent", "-c", "user.email=fake-agent@localhost"];
  execFileSync("git", ["add", "--", ...files]);
  const output = execFileSync("git", [...author, "commit", "--quiet", "--message", message], {
    encoding: "utf8",
  });
  tool(
    "Bash",
    { command: `git add -- ${files.join(" ")} && git commit -m ${JSON.stringify(message)}` },
    output,
  );
  return true;
};
