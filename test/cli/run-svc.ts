import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { afterFile } from "../cleanup.ts";
import { compileCache } from "../compile-cache.ts";
import { svcProgram } from "../service-process.ts";
import { runKept } from "./kept-svc.ts";

export type Run = {
  child: ChildProcess;
  /** So far. */
  output: { stdout: string; stderr: string };
  /** Resolves when the process has ended and all output is read. */
  ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
};

type Options = {
  env?: Record<string, string>;
  /** What is given on standard input; default: nothing. */
  input?: string;
  cwd?: string;
  program?: readonly string[];
  /** It needs a process of its own, which ends with it. */
  ownProcess?: boolean;
};

/** Starts svc in an environment that has nothing of this machine's settings. Killed at the end of the test file. */
export const startSvc = (args: readonly string[], options: Options = {}): Run => {
  const [command = "", ...before] = options.program ?? svcProgram;
  const child = spawn(command, [...before, ...args], {
    // Not in a checkout, whose repository it would take.
    cwd: options.cwd ?? tmpdir(),
    env: environmentOf(options.env ?? {}),
    stdio: ["pipe", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text));
  // It may end without having read its input.
  child.stdin.on("error", () => undefined);
  child.stdin.end(options.input ?? "");
  afterFile(() => child.kill("SIGKILL"));
  const ended = once(child, "close").then(([code]: (number | null)[]) => ({ code: code ?? null, ...output }));
  return { child, output, ended };
};

/**
 * Runs svc to its end: in a process that is kept for the next command, unless it needs its own. One command at a time: what
 * waits for another one needs `startSvc`.
 */
export const svc = (args: readonly string[], options: Options = {}): Run["ended"] => {
  const { env = {}, cwd = tmpdir(), input = "", program, ownProcess = args[0] === "serve" } = options;
  if (ownProcess || program !== undefined) return startSvc(args, options).ended;
  return runKept(svcProgram[1], { args, env: environmentOf(env), cwd, input }, afterFile);
};

const environmentOf = (env: Record<string, string>): Record<string, string> => ({
  PATH: process.env["PATH"] ?? "",
  HOME: "/nonexistent",
  LANG: "C.UTF-8",
  NODE_COMPILE_CACHE: compileCache,
  ...env,
});
