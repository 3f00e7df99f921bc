import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Log } from "../lib/log.ts";
import type { Answer } from "./answer.ts";
import { createServerFactory, type Service } from "./server.ts";
import { createStdioTransport } from "./stdio-transport.ts";

type Dependencies = {
  answer: Answer;
  service: Service;
  parts: { agent: boolean };
  log: Log;
  newRequestId: () => string;
};

/** How long answers may take after the end of stdin, ms; most clients end the process by a signal after 2 s. */
const answerWithinMs = 3000;

/** Serves the one client at the other end of stdin and stdout, until stdin ends or it is closed. */
export const openStdio = ({ answer, service, parts, log, newRequestId }: Dependencies) => {
  const inputEnded = new AbortController();
  const left = new AbortController();
  // The reader of a command's output may leave without harm; here it is the client, whose leaving ends the service in order.
  process.stdout.removeAllListeners("error");
  process.stdout.on("error", () => left.abort());

  const newServer = createServerFactory({ answer: waitingUntil(inputEnded.signal, answer), service, parts });
  const newCaller = () => {
    const requestId = newRequestId();
    const note = (line: object): void => log.info({ ...line, request_id: requestId }, "tool call");
    return { principal: "open", requestId, note };
  };
  const transport = createStdioTransport({ onInputEnd: () => inputEnded.abort(), answerWithinMs });
  const serving = serveStdio(() => newServer(newCaller()), {
    transport,
    onerror: (error) => log.debug({ err: error }, "mcp"),
  });
  // It closes itself when stdin has ended, and when what comes cannot be a message.
  const { onclose } = transport;
  transport.onclose = () => {
    onclose?.();
    left.abort();
  };
  return {
    clientLeft: left.signal,
    close: async (): Promise<void> => {
      await serving.close();
      process.stdin.destroy();
    },
  };
};

/** Nobody waits for a job any longer when `end` comes: whoever does is told how it is now. */
const waitingUntil =
  (end: AbortSignal, answer: Answer): Answer =>
  async (name, given, context) => {
    if (name !== "wait_for_job") return answer(name, given, context);
    const signal = AbortSignal.any([end, context.signal]);
    const answered = await answer(name, given, { ...context, signal });
    const cut = end.aborted && !context.signal.aborted && answered.code !== null;
    return cut ? answer("get_job", { job_id: given["job_id"] }, context) : answered;
  };
