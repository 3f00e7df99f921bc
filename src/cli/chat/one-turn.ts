import type { Client } from "../../client/client.ts";
import { exitCode, type ExitCode } from "../exit-code.ts";
import { catchInterruption } from "../interruption.ts";
import { note, print, terminalColumns } from "../print.ts";
import { painter } from "../text/paint.ts";
import { ask } from "./ask.ts";
import { chatFailure } from "./chat-failure.ts";
import { askOf, resumeCommand, type Talk } from "./talk.ts";
import { createTranscript } from "./transcript.ts";

type OneTurn = { client: Client; talk: Talk; message: string; json: boolean; isNew: boolean };

/** Says the message, shows the answer on stdout (`json`: its chunks, one a line), and what else there is on stderr. Throws what went wrong. */
export const oneTurn = async ({ client, talk, message, json, isNew }: OneTurn): Promise<ExitCode> => {
  const transcript = createTranscript({
    write: (text) => void process.stdout.write(text),
    paint: painter(process.stdout),
    columns: terminalColumns,
    hide: talk.hide,
    full: talk.full,
  });
  let begun = false;
  using interruption = catchInterruption();
  try {
    const end = await ask({
      client,
      question: askOf(message, talk),
      stop: interruption.signal,
      onChunk: (chunk) => {
        begun = true;
        if (json) print(JSON.stringify(chunk));
        else transcript.take(chunk);
      },
    });
    transcript.end();
    if (end === "stopped") note(`Stopped. Go on with: ${resumeCommand(talk)}`);
    else if (isNew && !json) note(`Go on with: ${resumeCommand(talk)}`);
    return end === "stopped" ? interruption.exit() : exitCode.ok;
  } catch (error) {
    transcript.end();
    throw chatFailure(error, talk, begun);
  }
};
