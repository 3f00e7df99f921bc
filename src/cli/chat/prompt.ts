import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import type { Paint } from "../../view/paint.ts";

/** Reads messages from a terminal, exclusively until it is closed. */
export type Prompt = Disposable & {
  /** The next message, of one line or several; null: the user leaves, or `signal` was aborted. */
  ask: (signal: AbortSignal) => Promise<string | null>;
  /** Aborted by the next Ctrl-C outside `ask`. */
  interruption: () => AbortSignal;
};

type Terminal = { input: NodeJS.ReadStream; output: NodeJS.WriteStream; paint: Paint };

/** A line that ends in `\`, or that is pasted together with others, continues in the next. */
export const openPrompt = ({ input, output, paint }: Terminal): Prompt => {
  // Input typed during an answer is stored and not shown.
  let asking = false;
  const echo = echoOf(output, () => asking);
  const readline = createInterface({
    input,
    output: echo,
    terminal: true,
    historySize: 1000,
    removeHistoryDuplicates: true,
  });
  const first = paint("bold", "> ");
  const next = paint("dim", "… ");

  let begun: string[] = [];
  const ahead: string[] = [];
  let deliver: ((message: string | null) => void) | null = null;
  let isPasting = false;
  let isClosed = false;
  let isWarned = false;
  let stop = new AbortController();

  const show = (): void => {
    readline.setPrompt(begun.length === 0 ? first : next);
    readline.prompt(true);
  };

  const take = (line: string): void => {
    isWarned = false;
    if (isPasting || line.endsWith("\\")) {
      begun.push(isPasting ? line : line.slice(0, -1));
      return show();
    }
    const message = [...begun, line].join("\n");
    begun = [];
    if (deliver === null) ahead.push(message);
    else deliver(message);
  };

  const interrupt = (): void => {
    if (!asking) return stop.abort();
    if (readline.line !== "" || begun.length > 0) {
      begun = [];
      readline.write(null, { ctrl: true, name: "e" });
      readline.write(null, { ctrl: true, name: "u" });
      output.write("\n");
    } else if (isWarned) return deliver?.(null);
    else {
      isWarned = true;
      output.write(`\n${paint("dim", "Ctrl-C again, or Ctrl-D, leaves")}\n`);
    }
    show();
  };

  const hearKey = (_text: unknown, { name }: { name?: string }): void => {
    if (name === "paste-start") isPasting = true;
    if (name === "paste-end") isPasting = false;
  };

  readline.on("line", take);
  readline.on("SIGINT", interrupt);
  readline.on("close", () => {
    isClosed = true;
    deliver?.(null);
  });
  input.on("keypress", hearKey);
  if (process.env.TERM !== "dumb") output.write(bracketedPaste.on);

  const ask = async (signal: AbortSignal): Promise<string | null> => {
    const typed = ahead.shift();
    if (typed !== undefined) {
      output.write(`${first}${typed.replaceAll("\n", `\n${next}`)}\n`);
      return typed;
    }
    if (isClosed || signal.aborted) return null;
    const { promise, resolve } = Promise.withResolvers<string | null>();
    const leave = (): void => resolve(null);
    signal.addEventListener("abort", leave, { once: true });
    deliver = resolve;
    asking = true;
    show();
    const message = await promise;
    signal.removeEventListener("abort", leave);
    asking = false;
    deliver = null;
    if (message === null) output.write("\n");
    return message;
  };

  return {
    ask,
    interruption: () => {
      stop = new AbortController();
      return stop.signal;
    },
    [Symbol.dispose]: () => {
      if (process.env.TERM !== "dumb") output.write(bracketedPaste.off);
      input.removeListener("keypress", hearKey);
      readline.close();
    },
  };
};

/** Terminals then say where a pasted text begins and ends. */
const bracketedPaste = { on: "\u001b[?2004h", off: "\u001b[?2004l" };

/** The terminal, as far as readline needs it, while `isOn`. */
const echoOf = (output: NodeJS.WriteStream, isOn: () => boolean): Writable => {
  const echo = new Writable({
    write: (piece: Buffer, _encoding, done) => {
      if (isOn()) output.write(piece);
      done();
    },
  });
  // Without a width nothing wraps: a hidden line must not be drawn over the answer.
  Object.defineProperty(echo, "columns", { get: () => (isOn() ? output.columns || 80 : Infinity) });
  return echo;
};
