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

/** A line that ends in `\`, or that comes together with others as a pasted one does, continues in the next. */
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
  let taking: NodeJS.Immediate | undefined;
  let isClosed = false;
  let isWarned = false;
  let stop = new AbortController();

  const show = (): void => {
    readline.setPrompt(begun.length === 0 ? first : next);
    readline.prompt(true);
  };

  const take = (line: string): void => {
    isWarned = false;
    begun.push(line);
    clearImmediate(taking);
    taking = setImmediate(finish);
  };

  /** Called when no more has come at once. */
  const finish = (): void => {
    const last = begun.at(-1) ?? "";
    if (last.endsWith("\\")) begun[begun.length - 1] = last.slice(0, -1);
    // The end of what was pasted waits for the return key.
    if (last.endsWith("\\") || readline.line !== "") return show();
    const message = begun.join("\n");
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

  readline.on("line", take);
  readline.on("SIGINT", interrupt);
  readline.on("close", () => {
    isClosed = true;
    deliver?.(null);
  });

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
    [Symbol.dispose]: () => readline.close(),
  };
};

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
