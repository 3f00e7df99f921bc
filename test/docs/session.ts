import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Writable } from "node:stream";
import xterm from "@xterm/headless";
import { copyCheckout } from "../checkout.ts";
import { afterFile } from "../cleanup.ts";
import { lastingPort } from "../lasting-port.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import type { Block } from "./blocks.ts";
import { patternOf } from "./seen.ts";

/**
 * One shell on a terminal in a copy of the checkout, as somebody has it who has just made an account: an empty home,
 * nothing of the project on the PATH, no network for npm. Everything that it started is ended after the test file.
 */
export const startSession = async (environment: Record<string, string> = {}) => {
  const home = await temporaryDirectory();
  const checkout = join(home, "svc");
  const port = await lastingPort();
  const scratch = join(home, "tmp");
  await Promise.all([copyCheckout(checkout), mkdir(scratch)]);
  // The shell reads its commands from beside the terminal, so that they are not seen.
  const onTerminal = [
    "-qefc",
    `stty cols ${size.cols} rows ${size.rows}; exec bash --noprofile --norc <&3`,
    "/dev/null",
  ];
  const terminal = spawn("script", onTerminal, {
    cwd: checkout,
    env: {
      PATH: pathOfTheMachine(),
      HOME: home,
      TMPDIR: scratch,
      // The same programs are started dozens of times.
      NODE_COMPILE_CACHE: join(scratch, "compiled"),
      LANG: "C.UTF-8",
      SHELL: "/bin/bash",
      TERM: "xterm",
      SERVICE_PORT: String(port),
      npm_config_offline: "true",
      npm_config_update_notifier: "false",
      ...environment,
    },
    stdio: ["pipe", "pipe", "ignore", "pipe"],
  });
  afterFile(() => endAll(home));
  const commands = terminal.stdio[3] as Writable;
  const screen = startScreen();
  let output = "";
  terminal.stdout?.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    screen.write(text);
  });
  commands.write("echo ready\n");
  await until(() => output.includes("ready"));
  const own = new Set(processesOf(home));
  let count = 0;
  let broken = false;

  /** Runs the block as it is written; resolves when every command has succeeded and all that the page shows was seen. */
  const run = async (block: Block): Promise<void> => {
    if (broken) throw new Error("a block before it failed");
    broken = true;
    await type(block);
    broken = false;
  };

  const type = async ({ script, seen }: Block): Promise<void> => {
    const file = join(scratch, `block-${(count += 1)}.sh`);
    const mark = `end of block ${count}:`;
    const top = await screen.cursor();
    await writeFile(file, script);
    commands.write(
      `failed=; trap 'failed="$failed $BASH_COMMAND;"' ERR; . ${file} </dev/null; trap - ERR; echo "${mark}$failed"\n`,
    );
    const pattern = seen === null ? /(?:)/ : patternOf(seen, home);
    const said = (): string => screen.text(top).replace(new RegExp(`${mark}.*\n`), "");
    const failed = await until(() => new RegExp(`${mark}(.*)\r?\n`).exec(output), {
      seconds: 180,
      what: "its end",
    }).catch((error: unknown) => {
      throw new Error(`the block does not end; so far:\n${said()}`, { cause: error });
    });
    if (failed[1] !== "") throw new Error(`failed:${failed[1]} it said:\n${said()}`);
    await until(() => pattern.test(said())).catch((error: unknown) => {
      throw new Error(`not seen:\n${seen}\nbut:\n${said()}`, { cause: error });
    });
  };
  /** Resolves when nothing is left of what the blocks started. */
  const isAlone = () => until(() => processesOf(home).every((pid) => own.has(pid)));
  return { home, port, run, isAlone };
};

const size = { cols: 120, rows: 50 };

/** What a person sees: what a program drew and then removed or wrote over is not there. */
const startScreen = () => {
  const screen = new xterm.Terminal({ ...size, scrollback: 100_000, allowProposedApi: true });
  const { normal } = screen.buffer;
  return {
    write: (text: string): void => screen.write(text),
    /** The cursor's line, once all that was written is drawn. */
    cursor: (): Promise<number> =>
      new Promise((resolve) => screen.write("", () => resolve(normal.baseY + normal.cursorY))),
    /** The text from a line on, each line as long as the program made it. */
    text: (from: number): string => {
      let text = "";
      for (let at = from; at < normal.length; at += 1) {
        const line = normal.getLine(at);
        const isContinued = normal.getLine(at + 1)?.isWrapped === true;
        text += `${line?.translateToString(!isContinued) ?? ""}${isContinued ? "" : "\n"}`;
      }
      return `${text.trimEnd()}\n`;
    },
  };
};

/** Without what `npm test` puts in front: what a page uses it must put there itself. */
const pathOfTheMachine = (): string =>
  (process.env["PATH"] ?? "")
    .split(delimiter)
    .filter((directory) => !directory.includes("node_modules"))
    .join(delimiter);

/** Ends all processes with this home, which agents and services in the background have too. */
const endAll = (home: string): Promise<unknown> =>
  until(() => {
    const pids = processesOf(home);
    for (const pid of pids) process.kill(pid, "SIGKILL");
    return pids.length === 0;
  });

const processesOf = (home: string): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const running = !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "latin1"));
        return running && readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(`HOME=${home}`);
      } catch {
        // Gone meanwhile, or not ours to read.
        return false;
      }
    });
