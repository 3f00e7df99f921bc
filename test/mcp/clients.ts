import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterFile } from "../cleanup.ts";

export const ways = ["/mcp of 2026-07-28", "/mcp of 2025-11-25", "/sse"] as const;
export type Way = (typeof ways)[number];

/** The official client, connected in one of the ways there are over HTTP. Closed after the file. */
export const connectOver = async (way: Way, base: string): Promise<Client> => {
  const modern = way === "/mcp of 2026-07-28";
  const client = new Client(
    { name: "test", version: "1.0.0" },
    { versionNegotiation: { mode: modern ? "auto" : "legacy" } },
  );
  const transport =
    way === "/sse"
      ? new SSEClientTransport(new URL("/sse", base))
      : new StreamableHTTPClientTransport(new URL("/mcp", base));
  await client.connect(transport);
  afterFile(() => client.close());
  return client;
};
