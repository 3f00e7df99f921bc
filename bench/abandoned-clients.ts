import { setTimeout as delay } from "node:timers/promises";
import { connect, type Socket } from "node:net";
import { rssOf } from "./rss.ts";
import type { Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const clients = 1000;
const limit = 20;

/** Memory of the service after 1,000 MCP clients came, asked, and went without a word, half over /mcp, half over /sse. */
export const abandonedClients = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withService(directory, {}, async (service) => {
      // One round first: what is loaded and compiled once is not a cost of clients.
      await comeAndGo(service.url);
      const before = await rssOf(service.pid);
      await comeAndGo(service.url);
      const after = await rssOf(service.pid);
      const value = after - before;
      return [
        {
          what: `memory after ${clients} MCP clients that came and went without a word`,
          ours: `${after.toFixed(0)} MB`,
          baseline: `${before.toFixed(0)} MB before them`,
          value,
          unit: "MB",
          target: `≤ ${limit} MB`,
          met: value <= limit,
        },
      ];
    }),
  );

const comeAndGo = async (url: string): Promise<void> => {
  const { hostname, port } = new URL(url);
  const sockets: Socket[] = [];
  for (let count = 0; count < clients; count += 1) {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => undefined);
    const firstData = new Promise((resolve) => void socket.once("data", resolve));
    socket.write(count % 2 === 0 ? opening : initialize);
    await firstData;
    sockets.push(socket);
  }
  for (const socket of sockets) socket.destroy();
  await delay(2000);
};

const opening = "GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";

const body = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1" } },
});

const initialize = `POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
