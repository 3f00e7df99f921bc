import { fork, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { compileCache } from "../compile-cache.ts";
import type { Command, Ended } from "./kept-svc-process.ts";

/*
 * A process that runs one command line of svc after another: most of what a short command takes is the start of Node and
 * of the program. For what is about the command's own process (signals, a terminal, its end) there is `startSvc`.
 */

let kept: ChildProcess | null = null;
let before: Promise<unknown> = Promise.resolve();
let count = 0;

type Run = (
  program: string,
  command: Omit<Command, "program" | "mark">,
  afterFile: (step: () => void) => void,
) => Promise<{ code: number | null; stdout: string; stderr: string }>;

/** Runs the command line, after those that were given before. */
export const runKept: Run = (...given) => {
  const run = before.then(() => runNext(...given));
  before = run.catch(() => undefined);
  return run;
};

const runNext: Run = async (program, command, afterFile) => {
  const child = (kept ??= start());
  const mark = `\u0000end of ${++count}\u0000`;
  const stdout = read(child.stdout, mark);
  const stderr = read(child.stderr, mark);
  const gone = Promise.withResolvers<null>();
  const ended = Promise.withResolvers<number>();
  const onGone = (): void => {
    if (kept === child) kept = null;
    gone.resolve(null);
  };
  const onMessage = ({ code }: Ended): void => ended.resolve(code);
  child.once("close", onGone).once("message", onMessage);
  let isRunning = true;
  // The test was given up.
  afterFile(() => void (isRunning && child.kill("SIGKILL")));
  try {
    child.send({ ...command, program, mark } satisfies Command);
    // It closes where the command ended its own process.
    const code = await Promise.race([ended.promise, gone.promise]);
    return {
      code: code ?? child.exitCode,
      stdout: await stdout.text(gone.promise),
      stderr: await stderr.text(gone.promise),
    };
  } finally {
    child.off("close", onGone).off("message", onMessage);
    stdout.end();
    stderr.end();
    isRunning = false;
  }
};

const start = (): ChildProcess => {
  const child = fork(join(import.meta.dirname, "kept-svc-process.ts"), {
    execArgv: [],
    env: { PATH: process.env["PATH"], LANG: "C.UTF-8", NODE_COMPILE_CACHE: compileCache },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  child.once("exit", () => void (kept = kept === child ? null : kept));
  return child;
};

/** Collects what comes before the mark. */
const read = (stream: ChildProcess["stdout"], mark: string) => {
  const all = Promise.withResolvers<string>();
  const decoder = new TextDecoder();
  let text = "";
  const onData = (piece: Buffer): void => {
    text += decoder.decode(piece, { stream: true });
    if (text.endsWith(mark)) all.resolve(text.slice(0, -mark.length));
  };
  stream?.on("data", onData);
  return {
    text: (gone: Promise<null>) => Promise.race([all.promise, gone.then(() => text)]),
    end: () => stream?.off("data", onData),
  };
};
