import { BlockList, isIP } from "node:net";

/**
 * Whether only this machine can reach a service that listens there. Of all names, only localhost counts as loopback.
 */
export const isLoopbackHost = (host: string): boolean => {
  const bare = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  const family = isIP(bare);
  if (family === 0) return bare === "localhost";
  return loopback.check(bare, family === 4 ? "ipv4" : "ipv6");
};

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");
