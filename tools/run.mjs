/**
 * `node tools/run.mjs [--with demo|tutorial|install|test] -- PROGRAM [ARGUMENT …]`: sets the project up as far as the purpose
 * needs it, then runs a script of the project (PROGRAM ends in .ts, .js or .mjs) or a tool on its PATH with the pinned
 * Node, from the project's directory, and ends as the program ends.
 */
import { spawn } from "node:child_process";
import { resolve } from "node:path";

const oldest = 20;
const usage = "usage: node tools/run.mjs [--with demo|tutorial|install|test] -- PROGRAM [ARGUMENT ...]";

const fail = (message) => {
  process.stderr.write(`${message}\n`);
  process.exit(1);
};

if (Number(process.versions.node.split(".")[0]) < oldest) {
  fail(
    `Node ${oldest} or newer is needed to set this project up (it then brings the one it runs on); this is ${process.version}.`,
  );
}

const parse = (given) => {
  const end = given.indexOf("--");
  const [option, purpose = null, ...rest] = end < 0 ? [] : given.slice(0, end);
  const [program, ...args] = end < 0 ? [] : given.slice(end + 1);
  const known =
    option === undefined ||
    (option === "--with" && ["demo", "tutorial", "install", "test"].includes(purpose));
  return program === undefined || !known || rest.length > 0 ? fail(usage) : { purpose, program, args };
};

/** A terminal sends these to the whole foreground group by itself; a second one would read as "now, by force". */
const sentByTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;

const run = ({ command, args, env, cwd }) => {
  const child = spawn(command, args, { cwd, env, stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM"]) {
    process.on(signal, () => {
      if (signal === "SIGTERM" || !sentByTerminal) child.kill(signal);
    });
  }
  child.once("error", (error) =>
    fail(error.code === "ENOENT" ? `There is no program ${command}.` : error.message),
  );
  child.once("exit", (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
};

const { purpose, program, args } = parse(process.argv.slice(2));
// Loaded only now: an older Node would fail on it with a riddle instead of the sentence above.
const { root, setUp } = await import("./setup.mjs");
try {
  const { node, path } = await setUp(purpose);
  const script = /\.(ts|js|mjs)$/.test(program);
  const command = script
    ? { command: node, args: [resolve(root, program), ...args] }
    : { command: program, args };
  run({ ...command, cwd: root, env: { ...process.env, PATH: path } });
} catch (error) {
  if (error?.name !== "SetupError") throw error;
  fail(error.message);
}
