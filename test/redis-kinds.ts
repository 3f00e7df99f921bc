import { startRedisCluster } from "./redis-cluster.ts";
import { startRedis } from "./redis.ts";

const once = <Value>(make: () => Promise<Value>): (() => Promise<Value>) => {
  let made: Promise<Value> | undefined;
  return () => (made ??= make());
};

/** Stores to run a port's suite over: name, and how to get its URL; each is started when it is first asked for. */
export const redisKinds = (): (readonly [string, () => Promise<string>])[] => {
  const [single, cluster] = [once(() => startRedis()), once(() => startRedisCluster())];
  return [
    ["single Redis", async () => (await single()).url],
    ["Redis Cluster", async () => (await cluster()).url],
  ];
};
