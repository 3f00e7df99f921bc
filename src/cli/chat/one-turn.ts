import { ClientError } from "../../client/client-error.ts";
import type { Client } from "../../client/client.ts";
import { CliError } from "../failure.ts";
import { exitCode, type ExitCode } from "../exit-code.ts";
import { catchInterruption } from "../interruption.ts";
import { note, print, terminalColumns } from "../print.ts";
import { report } from "../report.ts";
import { painter } from "../text/paint.ts";
import { chatFailure } from "./chat-failure.ts";
import { askOf, resumeCommand, type Talk } from "./talk.ts";
import { createTranscript } from "./transcript.ts";
import { runTurn } from "./turn.ts";

type OneTurn = { client: Client; talk: Talk; message: string; json: boolean; isNew: boolean };

/** Says the message, shows the answer on stdout (`json`: its chunks, one a line), and what else there is on stderr. */
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
    const end = await runTurn({
      client,
      ask: askOf(message, talk),
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
    const failure = chatFailure(error, talk, begun);
    // One line like all others, which `report` would not make of it.
    if (json) print(JSON.stringify({ success: false, error: messageOf(failure), code: codeOf(failure) }));
    return report(failure, { json: false });
  }
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const codeOf = (error: unknown): string =>
  error instanceof ClientError || error instanceof CliError ? error.code : "internal";
