import { isIPv6 } from "node:net";
import { usageError } from "./failure.ts";

type Address = { host: string; port: number };

/** Where to reach a service that listens on this address: one that listens everywhere is asked on loopback. */
export const baseUrlOf = ({ host, port }: Address): string => {
  if (port === 0)
    throw usageError(
      "SERVICE_PORT is 0, which means a free port to svc serve only: set it to the port that svc serve printed",
    );
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const reachable = everywhere[bare] ?? bare;
  return `http://${isIPv6(reachable) ? `[${reachable}]` : reachable}:${port}`;
};

const everywhere: Record<string, string> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
