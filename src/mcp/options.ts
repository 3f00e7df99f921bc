import type { ServerEventBus } from "@modelcontextprotocol/server";
import type { Log } from "../lib/log.ts";
import type { NewServer } from "./server.ts";

export type McpRoutesOptions = {
  newServer: NewServer;
  log: Log;
  /** Aborted when the service shuts down: streams that have no end of their own end. */
  closing: AbortSignal;
  /** How long a stream may be silent before a comment is sent; default 15 s. */
  pingEveryMs?: number;
  /** Where a server tells that its tools or resources have changed; ours never do. */
  bus?: ServerEventBus;
  /** How many sessions of /sse may be open at a time; default 1000. */
  maxSessions?: number;
};
