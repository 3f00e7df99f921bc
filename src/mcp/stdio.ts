import { Readable } from "node:stream";
import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  STDIO_DEFAULT_MAX_BUFFER_SIZE as maxBytes,
  type RequestId,
} from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { createLineSplitter } from "../lib/lines.ts";
import type { Log } from "../lib/log.ts";
import type { Answer } from "./answer.ts";
import { lenientLine } from "./message.ts";
import { paramsFault } from "./params-fault.ts";
import { createServerFactory, type McpProgram } from "./server.ts";

type Dependencies = {
  program: McpProgram;
  /** Makes the function that answers; `inputEnd` is aborted at the end of stdin: waits should end then. */
  newAnswer: (inputEnd: AbortSignal) => Answer;
  log: Log;
  newRequestId: () => string;
};

/** How long answers may take after the end of stdin. Most clients kill the process after 2 s. */
const answerWithinMs = 3000;

/** Serves the client at the other end of stdin and stdout until stdin ends or `close` is called. */
export const openStdio = ({ program, newAnswer, log, newRequestId }: Dependencies) => {
  const inputEnded = new AbortController();
  const closed = new AbortController();
  // The client reads stdout: when it is closed, the client has left and the service ends.
  process.stdout.removeAllListeners("error");
  process.stdout.on("error", () => closed.abort());

  const newServer = createServerFactory({ program, answer: newAnswer(inputEnded.signal) });
  const newCaller = () => {
    const requestId = newRequestId();
    const note = (line: object): void => log.info({ ...line, request_id: requestId }, "tool call");
    return { principal: "open", scopes: null, requestId, note };
  };
  const transport = createStdioTransport(() => inputEnded.abort());
  const serving = serveStdio(() => newServer(newCaller()), {
    transport,
    onerror: (error) => log.debug({ err: error }, "mcp"),
  });
  // The transport closes itself when stdin has ended, and when the input cannot be a message.
  const { onclose } = transport;
  transport.onclose = () => {
    onclose?.();
    closed.abort();
  };
  return {
    clientLeft: closed.signal,
    close: async (): Promise<void> => {
      await serving.close();
      process.stdin.destroy();
    },
  };
};

/**
 * stdin and stdout as a transport. The SDK's own drops unanswered requests when its input ends. So it reads from a copy,
 * which ends when they are answered, for `printf … | svc serve`; `onInputEnd` is called before.
 */
const createStdioTransport = (onInputEnd: () => void): StdioServerTransport => {
  const { stdin } = process;
  const input = new Readable({ read: () => undefined });
  const transport = new StdioServerTransport(input, process.stdout);
  const [start, send] = [transport.start.bind(transport), transport.send.bind(transport)];
  const tooLong = (): void => void transport.close();
  const lines = createLineSplitter({
    onLine: (line) => input.push(`${lenientLine(line)}\n`),
    onOversized: tooLong,
    maxBytes,
  });
  const unanswered = new Set<RequestId>();
  let isEnding = false;

  const endWhenAnswered = (): void => {
    if (isEnding && unanswered.size === 0) input.push(null);
  };
  const answered = (id: RequestId | undefined): void => {
    if (id !== undefined) unanswered.delete(id);
    endWhenAnswered();
  };
  const inputEnd = (): void => {
    if (isEnding) return;
    isEnding = true;
    setTimeout(() => void transport.close(), answerWithinMs).unref();
    onInputEnd();
    endWhenAnswered();
  };

  transport.start = async () => {
    const { onmessage } = transport;
    transport.onmessage = (message) => {
      const fault = isJSONRPCRequest(message) ? paramsFault(message) : null;
      if (isJSONRPCRequest(message)) unanswered.add(message.id);
      if (isJSONRPCNotification(message) && message.method === "notifications/cancelled")
        answered(message.params?.["requestId"] as RequestId);
      if (fault === null) onmessage?.(message);
      else void transport.send(fault);
    };
    await start();
    stdin.on("data", (chunk: Buffer) => {
      // A line may never end.
      if (!lines.push(chunk)) tooLong();
    });
    // The last line may lack its line feed. What was read comes before the end.
    for (const event of ["end", "close", "error"])
      stdin.on(event, () => {
        if (!isEnding) lines.end();
        setImmediate(inputEnd);
      });
    if (stdin.readableEnded || stdin.destroyed) setImmediate(inputEnd);
  };
  transport.send = async (message) => {
    try {
      await send(message);
    } finally {
      if (!("method" in message)) answered(message.id);
    }
  };
  return transport;
};
