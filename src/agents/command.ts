import { jobMarker, instanceVariable, jobVariable } from "../lib/process/marker.ts";
import { supervise } from "../lib/process/supervise.ts";
import type { Redactor } from "../lib/redact.ts";
import { createTailBuffer } from "../lib/tail-buffer.ts";
import { noSandbox, type Run, type Sandbox } from "../sandbox/sandbox.ts";
import { passedOn } from "./claude/claude.ts";
import type { ClaudeSettings } from "./claude/settings.ts";

type Command = Pick<Run, "cwd" | "allowed" | "mounts" | "ports" | "secrets" | "readOnly"> & {
  /** Of the job whose work it looks at: marks its processes. */
  jobId: string;
  /** For `sh -c`. */
  run: string;
  /** Directories of objects that the clone in `cwd` borrows. */
  borrows: readonly string[];
  /** Further variables. */
  env: Readonly<Record<string, string>>;
  timeoutSeconds: number;
  signal: AbortSignal;
  /** Called with whole lines of standard output and error, masked. */
  onOutput: (lines: string) => void;
  /** Called with each host that the sandbox refuses. Absent: nobody is told. */
  onDenied?: (name: string) => void;
};

/** `log`: the end of the output, masked. `exitCode` null: a signal ended it, or the service at its time limit. */
export type CommandEnd = {
  exitCode: number | null;
  timedOut: boolean;
  durationMs: number;
  log: string;
};

/** PORT. Runs a command as an agent could: with its sandbox, but without the model and its credential. */
export type RunCommand = (command: Command) => Promise<CommandEnd>;

/** Longest end of an output, and longest line that is passed on in one piece, bytes. */
const maxLog = 8192;

/** Most output that is passed on, bytes: a command may say more than any reader wants. */
const maxOutput = 256 * 1024;

const graceSeconds = 2;

type Options = {
  settings: Pick<ClaudeSettings, "agentEnv" | "agentHome">;
  env: NodeJS.ProcessEnv;
  redact: Redactor;
  sandbox?: Sandbox;
};

/** @throws Error with a sentence when it cannot be started, and what the signal says when that ends it */
export const createRunCommand =
  ({ settings, env, redact, sandbox = noSandbox }: Options): RunCommand =>
  async (command) => {
    const { jobId, run, cwd, borrows, timeoutSeconds, signal, onOutput } = command;
    signal.throwIfAborted();
    const home = settings.agentHome;
    await using entered = await sandbox.enter({
      ...command,
      command: "sh",
      path: env["PATH"] ?? "",
      home,
      writable: [],
      readable: borrows,
      routes: [],
      onDenied: command.onDenied ?? (() => undefined),
    });
    const began = performance.now();
    const started = await supervise({
      command: "sh",
      // In the order in which it is written.
      args: ["-c", `exec 2>&1\n${run}`],
      cwd,
      env: { ...passedOn(settings, env), HOME: home, CI: "true", [jobVariable]: jobId, ...entered?.env },
      within: { env: command.env },
      marker: jobMarker(jobId, env[instanceVariable]),
      box: entered?.box ?? null,
      stdin: "",
    });
    if (!started.ok) throw new Error(started.message);
    const { stdout, stderr, ended, stop } = started.process;
    const output = passLines(redact, onOutput);
    for (const stream of [stdout, stderr]) stream.setEncoding("utf8").on("data", output.add);
    let timedOut = false;
    const end = (): void => void stop({ graceSeconds });
    const limit = setTimeout(() => {
      timedOut = true;
      end();
    }, timeoutSeconds * 1000);
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    const { exitCode, exceeded } = await ended;
    if (exceeded !== null)
      output.add(
        `\n[sandbox.memory of ${Math.round(exceeded / 2 ** 20)} MiB was reached; files in /tmp count]\n`,
      );
    clearTimeout(limit);
    signal.removeEventListener("abort", end);
    signal.throwIfAborted();
    const durationMs = Math.round(performance.now() - began);
    return { exitCode: timedOut ? null : exitCode, timedOut, durationMs, log: output.end() };
  };

/** Passes whole lines on as they come, and keeps the end of all. */
const passLines = (redact: Redactor, onOutput: (lines: string) => void) => {
  const tail = createTailBuffer(maxLog);
  let line = "";
  let passed = 0;
  const pass = (text: string): void => {
    const masked = redact(text);
    tail.push(masked);
    if (masked === "" || passed > maxOutput) return;
    passed += Buffer.byteLength(masked);
    onOutput(passed > maxOutput ? "[… more output is left out …]\n" : masked);
  };
  return {
    add: (piece: string): void => {
      line += piece;
      const isLong = line.length > maxLog;
      // Half a secret would be known to nobody.
      const end = isLong ? line.length - redact.unfinished(line) : line.lastIndexOf("\n") + 1;
      pass(line.slice(0, end));
      line = line.slice(end);
    },
    end: (): string => {
      pass(line);
      return tail.text();
    },
  };
};
