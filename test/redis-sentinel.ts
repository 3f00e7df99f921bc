import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterFile } from "./cleanup.ts";
import { lastingPort } from "./lasting-port.ts";
import { withOptions } from "./kv.ts";
import { startRedis, type TestRedis } from "./redis.ts";
import { temporaryDirectory } from "./temporary.ts";
import { until } from "./until.ts";

const name = "jobs";

/** A sentinel that got no time of the machine for two seconds does nothing for the next 30 (its TILT mode). */
const patience = 100;

/** A real master, its replica and three sentinels that promote the replica when the master is unreachable for a second; killed after the file. */
export const startRedisSentinel = async () => {
  const master = await startRedis();
  const replica = await startRedis({ args: ["--replicaof", "127.0.0.1", String(master.port)] });
  await until(() => says(replica.port, /master_link_status:up/), {
    seconds: patience,
    what: "the replica to follow",
  });
  const ports = await Promise.all([0, 1, 2].map(() => startSentinel(master.port)));
  for (const port of ports) {
    await until(() => knows(port), {
      seconds: patience,
      what: "the sentinels to know each other and the replica",
    });
  }

  const nodes = [master, replica];
  const current = async (): Promise<TestRedis> => {
    const port = await ask(ports[0] ?? 0, (client) =>
      client.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name),
    );
    const found = nodes.find((node) => String(node.port) === String((port as string[])[1]));
    if (found === undefined) throw new Error(`the sentinels name ${String(port)}, which is no node of ours`);
    return found;
  };

  return {
    url: await withOptions(`redis://localhost:${ports[0]}`, {
      sentinels: ports.map((port) => ({ host: "127.0.0.1", port })),
      name,
    }),
    /** The node that the sentinels take for the master. */
    master: current,
    /** Whether the master has a replica that follows it. */
    hasReplica: async (): Promise<boolean> => await says((await current()).port, /slave0:.*state=online/),
    /** From now on the replica gets nothing of what is written: it is behind when the master is killed next. */
    holdBack: async (): Promise<void> => {
      const held = await current();
      for (const node of nodes) if (node !== held) node.freeze();
      // What is in the connection comes still, what is written from now on does not.
      await ask(held.port, (client) => client.call("CLIENT", "KILL", "TYPE", "replica"));
    },
    /** Kills it. Resolves to it, so that it can be started again, when the other one has taken over. */
    killMaster: async (): Promise<TestRedis> => {
      const killed = await current();
      await killed.kill();
      for (const node of nodes) if (node !== killed) node.thaw();
      await until(async () => (await current()) !== killed, { seconds: patience, what: "the fail-over" });
      const next = await current();
      await until(() => says(next.port, /role:master/), {
        seconds: patience,
        what: "the replica to be a master",
      });
      return killed;
    },
  };
};

const startSentinel = async (masterPort: number): Promise<number> => {
  const [directory, port] = [await temporaryDirectory(), await lastingPort()];
  const file = join(directory, "sentinel.conf");
  const lines = [
    `port ${port}`,
    "bind 127.0.0.1",
    `dir ${directory}`,
    `logfile ${join(directory, "sentinel.log")}`,
    `sentinel monitor ${name} 127.0.0.1 ${masterPort} 2`,
    `sentinel down-after-milliseconds ${name} 1000`,
    `sentinel failover-timeout ${name} 1000`,
  ];
  await writeFile(file, `${lines.join("\n")}\n`);
  const child = spawn("redis-server", [file, "--sentinel"], { stdio: "ignore" });
  afterFile(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  });
  await until(() => ask(port, (client) => client.ping()), { seconds: patience, what: "a sentinel" });
  return port;
};

const ask = async <Value>(port: number, work: (client: Redis) => Promise<Value>): Promise<Value> => {
  const client = new Redis({ port, host: "127.0.0.1", lazyConnect: true, retryStrategy: () => null });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    client.disconnect();
  }
};

const knows = async (port: number): Promise<boolean> => {
  const info = await ask(port, (client) => client.info("sentinel"));
  return /slaves=1,sentinels=3/.test(info);
};

const says = async (port: number, what: RegExp): Promise<boolean> =>
  what.test(await ask(port, (client) => client.info("replication")));
