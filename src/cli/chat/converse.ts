import type { Client } from "../../client/client.ts";
import { exitCode, type ExitCode } from "../exit-code.ts";
import { catchInterruption } from "../interruption.ts";
import { duration } from "../text/duration.ts";
import { painter } from "../text/paint.ts";
import { oneLine, sanitise } from "../text/sanitise.ts";
import { ask } from "./ask.ts";
import { chatFailure } from "./chat-failure.ts";
import { localCommand } from "./local-commands.ts";
import { openPrompt } from "./prompt.ts";
import { askOf, resumeCommand, type Talk } from "./talk.ts";
import { createTranscript } from "./transcript.ts";
import { showWaiting } from "./waiting.ts";

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
      hide: talk.hide,
      full: talk.full,
    });
    let begun = false;
    const ending = await ask({
      client,
      question: askOf(message, talk),
      stop: nextInterruption(),
      onChunk: (chunk) => {
        begun = true;
        transcript.take(chunk);
      },
    }).catch((error: unknown) => ({ error: chatFailure(error, talk, begun) }));
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
