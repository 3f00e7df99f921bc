import type { Client } from "../../client/client.ts";
import { exitCode, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { painter, type Paint } from "../print.ts";
import { clock, duration } from "../text/quantities.ts";
import { oneLine, sanitise } from "../text/sanitise.ts";
import { localCommand } from "./local-commands.ts";
import { openPrompt } from "./prompt.ts";
import { createTranscript } from "./transcript.ts";
import { ask, chatFailure, resumeCommand, type Talk } from "./turn.ts";

type Terminal = { input: NodeJS.ReadStream; output: NodeJS.WriteStream };

type Conversation = { client: Client; talk: Talk; baseUrl: string; terminal?: Terminal };

/** Talks until the user leaves. A failed turn is told, and the next message can be written. */
export const converse = async ({
  client,
  talk,
  baseUrl,
  terminal = { input: process.stdin, output: process.stdout },
}: Conversation): Promise<ExitCode> => {
  const { output } = terminal;
  const paint = painter(output);
  const say = (text: string): void => void output.write(`${text}\n`);
  // In the terminal's raw mode Ctrl-C is a key: this hears only signals that others send.
  using killed = catchInterruption();
  using prompt = openPrompt({ ...terminal, paint });
  let shortened: readonly string[] = [];
  let turns = 0;
  const nextInterruption = (): AbortSignal => AbortSignal.any([prompt.interruption(), killed.signal]);
  const stopped = paint("yellow", "Stopped");

  const answer = async (message: string): Promise<void> => {
    turns += 1;
    const begin = performance.now();
    const waiting = showWaiting(output, paint);
    const transcript = createTranscript({
      write: waiting.write,
      paint,
      // Some terminals say that they have no columns at all.
      columns: () => output.columns || 80,
      ...talk,
    });
    const stop = nextInterruption();
    const ending = await ask({ client, talk, message, stop, onChunk: transcript.take }).catch(
      (error: unknown) => ({ error }),
    );
    transcript.end();
    waiting.stop();
    shortened = transcript.shortened();
    if (typeof ending === "object") say(paint("red", failureText(ending.error)));
    else if (ending === "stopped") say(stopped);
    else say(paint("dim", duration(performance.now() - begin)));
    say("");
  };

  const local = async (run: NonNullable<ReturnType<typeof localCommand>>): Promise<boolean> => {
    const signal = nextInterruption();
    try {
      const text = await run({ client, talk, shortened, signal });
      if (text === null) return false;
      say(`${text}\n`);
    } catch (error) {
      if (signal.aborted) say(stopped);
      else say(`${paint("red", failureText(chatFailure(error, talk, false)))}\n`);
    }
    return true;
  };

  say(`Talking with ${oneLine(talk.model)} at ${baseUrl}\nConversation ${talk.conversation}`);
  say(`${paint("dim", "/help lists commands; Ctrl-C stops an answer, Ctrl-D leaves")}\n`);
  for (;;) {
    const message = await prompt.ask(killed.signal);
    if (message === null) break;
    const command = localCommand(message);
    if (command !== null) {
      if (!(await local(command))) break;
    } else if (message.trim() !== "") await answer(message);
  }
  if (turns > 0) say(`Go on with: ${resumeCommand(talk)}`);
  return killed.signal.aborted ? killed.exit() : exitCode.ok;
};

const failureText = (error: unknown): string =>
  sanitise(error instanceof Error ? error.message : String(error));

/** Writes to a terminal, and when nothing comes for a while shows on a line of its own that it waits. */
type Waiting = { write: (text: string) => void; stop: () => void };

const patienceMs = 500;

const showWaiting = (stream: NodeJS.WriteStream, paint: Paint): Waiting => {
  const begin = performance.now();
  let isShown = false;
  let atLineStart = true;

  const draw = (): void => {
    if (!atLineStart || process.env.TERM === "dumb") return;
    stream.write(`${erase}${paint("dim", `… ${clock(performance.now() - begin)}`)}`);
    isShown = true;
  };
  const clear = (): void => {
    if (isShown) stream.write(erase);
    isShown = false;
  };
  let timer = setInterval(draw, patienceMs);

  return {
    write: (text) => {
      if (text === "") return;
      clear();
      stream.write(text);
      atLineStart = text.endsWith("\n");
      clearInterval(timer);
      timer = setInterval(draw, patienceMs);
    },
    stop: () => {
      clearInterval(timer);
      clear();
    },
  };
};

/** To the first column, and all that is right of it away. */
const erase = "\r\u001b[K";
