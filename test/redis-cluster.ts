import { Redis } from "ioredis";
import { lastingPort } from "./lasting-port.ts";
import { withOptions } from "./kv.ts";
import { startRedis } from "./redis.ts";
import { until } from "./until.ts";

const slots = 16_384;

/** A real Redis Cluster of three masters, each with a third of the slots; killed after the file. */
export const startRedisCluster = async ({ args = [] }: { args?: string[] } = {}) => {
  const nodes = await Promise.all([0, 1, 2].map(() => startNode(args)));
  const clients = nodes.map(({ port }) => new Redis({ port, host: "127.0.0.1" }));
  try {
    const [first] = nodes;
    for (const [n, client] of clients.entries()) {
      const [from, to] = [n, n + 1].map((third) => Math.floor((third * slots) / clients.length));
      await client.call("CLUSTER", "ADDSLOTSRANGE", String(from), String((to ?? 0) - 1));
      // A node that has met nodes of an earlier cluster on this port by then sets its epoch by itself.
      await client.call("CLUSTER", "SET-CONFIG-EPOCH", String(n + 1)).catch((error: unknown) => {
        if (!String(error).includes("does not know any other node")) throw error;
      });
      await client.call("CLUSTER", "MEET", "127.0.0.1", String(first?.port), String(first?.busPort));
    }
    await until(async () => (await Promise.all(clients.map(isWhole))).every(Boolean), {
      what: "the cluster to be whole",
    });
  } finally {
    for (const client of clients) client.disconnect();
  }
  const cluster = nodes.map(({ port }) => ({ host: "127.0.0.1", port }));
  // Another name than that of its first node.
  return { url: await withOptions(`redis://localhost:${nodes[0]?.port}`, { cluster }), nodes };
};

const startNode = async (more: string[]) => {
  const busPort = await lastingPort();
  const node = await startRedis({
    args: [
      "--cluster-enabled",
      "yes",
      "--cluster-port",
      String(busPort),
      "--cluster-node-timeout",
      "2000",
      ...more,
    ],
  });
  return { ...node, busPort };
};

const isWhole = async (client: Redis): Promise<boolean> => {
  const info = String(await client.call("CLUSTER", "INFO"));
  return /cluster_state:ok/.test(info) && /cluster_known_nodes:3/.test(info);
};
