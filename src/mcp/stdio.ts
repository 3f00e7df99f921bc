import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import type { Log } from "../lib/log.ts";
import type { NewServer } from "./server.ts";

type Dependencies = { newServer: NewServer; log: Log; newRequestId: () => string };

/** Serves the one client at the other end of stdin and stdout, until stdin ends or it is closed. */
export const openStdio = ({ newServer, log, newRequestId }: Dependencies) => {
  const ended = new AbortController();
  // The reader of a command's output may leave without harm; here it is the client, whose leaving ends the service in order.
  process.stdout.removeAllListeners("error");
  process.stdout.on("error", () => ended.abort());

  const newCaller = () => {
    const requestId = newRequestId();
    const note = (line: object): void => log.info({ ...line, request_id: requestId }, "tool call");
    return { principal: "open", requestId, note };
  };
  const transport = new StdioServerTransport();
  const serving = serveStdio(() => newServer(newCaller()), {
    transport,
    onerror: (error) => log.debug({ err: error }, "mcp"),
  });
  // It closes itself when stdin ends, and when what comes cannot be a message.
  const { onclose } = transport;
  transport.onclose = () => {
    onclose?.();
    ended.abort();
  };
  return {
    gone: ended.signal,
    close: async (): Promise<void> => {
      await serving.close();
      process.stdin.destroy();
    },
  };
};
