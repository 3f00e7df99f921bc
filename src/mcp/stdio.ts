import {
  deserializeMessage,
  isJSONRPCNotification,
  isJSONRPCRequest,
  serializeMessage,
  STDIO_DEFAULT_MAX_BUFFER_SIZE as maxLineBytes,
  type JSONRPCMessage,
  type RequestId,
  type Transport,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Log } from "../lib/log.ts";
import type { Answer } from "./answer.ts";
import { paramsFault } from "./rpc-failure.ts";
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
 * stdin and stdout as a transport. The SDK's own drops unanswered requests when stdin ends; this one answers them first,
 * for `printf … | svc serve`. `onInputEnd` is called at the end of stdin, before the last answers.
 */
const createStdioTransport = (onInputEnd: () => void): Transport => {
  const { stdin, stdout } = process;
  let partialLine = Buffer.alloc(0);
  const unanswered = new Set<RequestId>();
  let phase: "open" | "ending" | "closed" = "open";

  const receive = (message: JSONRPCMessage): void => {
    if (isJSONRPCRequest(message)) {
      unanswered.add(message.id);
      const fault = paramsFault(message);
      if (fault !== null) return void transport.send(fault);
    }
    if (isJSONRPCNotification(message) && message.method === "notifications/cancelled")
      answered(message.params?.["requestId"] as RequestId);
    transport.onmessage?.(message);
  };
  const answered = (id: RequestId | undefined): void => {
    if (id !== undefined) unanswered.delete(id);
    closeWhenAnswered();
  };
  const closeWhenAnswered = (): void => {
    if (phase === "ending" && unanswered.size === 0) void transport.close();
  };

  const read = (chunk: Buffer): void => {
    partialLine = Buffer.concat([partialLine, chunk]);
    let end = partialLine.indexOf("\n");
    for (; end !== -1 && phase !== "closed"; end = partialLine.indexOf("\n")) {
      const line = partialLine.subarray(0, end);
      partialLine = partialLine.subarray(end + 1);
      readLine(line);
    }
    if (partialLine.length <= maxLineBytes || phase === "closed") return;
    // The rest of a message that is too large cannot be told from the next message.
    transport.onerror?.(new Error(`A message has more than ${maxLineBytes} bytes`));
    void transport.close();
  };
  const readLine = (line: Buffer): void => {
    try {
      receive(deserializeMessage(line.toString()));
    } catch (error) {
      transport.onerror?.(error as Error);
    }
  };
  const inputEnd = (): void => {
    if (phase !== "open") return;
    phase = "ending";
    // The last line may lack its line feed.
    read(Buffer.of(0x0a));
    setTimeout(() => void transport.close(), answerWithinMs).unref();
    onInputEnd();
    closeWhenAnswered();
  };

  const transport: Transport = {
    start: async () => {
      stdin.on("data", read);
      for (const event of ["end", "close", "error"]) stdin.on(event, inputEnd);
      if (stdin.readableEnded || stdin.destroyed) setImmediate(inputEnd);
    },
    send: async (message) => {
      if (phase === "closed") return;
      const { promise, resolve } = Promise.withResolvers<void>();
      stdout.write(serializeMessage(message), () => resolve());
      if (!("method" in message)) answered(message.id);
      await promise;
    },
    close: async () => {
      if (phase === "closed") return;
      phase = "closed";
      stdin.off("data", read).pause();
      partialLine = Buffer.alloc(0);
      transport.onclose?.();
    },
  };
  return transport;
};
