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
import { ServiceError } from "../contract/errors.ts";
import { bodyLimits } from "../http/body.ts";
import { checkJsonSize } from "../http/body.ts";
import { paramsFault } from "./params-fault.ts";
import { parseError } from "./rpc-failure.ts";

type Options = {
  /** Called when nothing more can be asked, while answers are still due. */
  onInputEnd: () => void;
  /** How long those may take. */
  answerWithinMs: number;
};

/**
 * stdin and stdout as a transport. The SDK's own drops what it has read when stdin ends; here it is answered first:
 * `printf … | svc serve` is a client too.
 */
export const createStdioTransport = ({ onInputEnd, answerWithinMs }: Options): Transport => {
  const { stdin, stdout } = process;
  /** The beginning of the next line. */
  let begun = Buffer.alloc(0);
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
    if (phase === "ending" && unanswered.size === 0) void transport.close();
  };

  const read = (chunk: Buffer): void => {
    begun = Buffer.concat([begun, chunk]);
    for (let end = begun.indexOf("\n"); end !== -1 && phase !== "closed"; end = begun.indexOf("\n")) {
      const line = begun.subarray(0, end);
      begun = begun.subarray(end + 1);
      readLine(line);
    }
    if (begun.length <= maxLineBytes || phase === "closed") return;
    // One message is larger than any may be: where the next one begins cannot be known.
    transport.onerror?.(new Error(`A message has more than ${maxLineBytes} bytes`));
    void transport.close();
  };
  const readLine = (line: Buffer): void => {
    try {
      checkJsonSize(line, bodyLimits.values);
      receive(deserializeMessage(line.toString()));
    } catch (error) {
      // Its id is not known: it was not parsed.
      if (error instanceof ServiceError)
        void transport.send({ jsonrpc: "2.0", error: { code: parseError, message: error.message } });
      transport.onerror?.(error as Error);
    }
  };
  const inputEnd = (): void => {
    if (phase !== "open") return;
    phase = "ending";
    // The last line may lack its end.
    read(Buffer.of(0x0a));
    setTimeout(() => void transport.close(), answerWithinMs).unref();
    onInputEnd();
    answered(undefined);
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
      begun = Buffer.alloc(0);
      transport.onclose?.();
    },
  };
  return transport;
};
