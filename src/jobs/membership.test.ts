import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { sampleFacts } from "../../test/ports/instances-suite.ts";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedisCluster } from "../../test/redis-cluster.ts";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import { createRedisInstances } from "../store/instances.ts";
import { createPresence } from "./membership.ts";

const leaseSeconds = 1;

test("no instance is lost while a node of the cluster, any of them, is away for three leases", async () => {
  const cluster = await startRedisCluster();
  const prefix = `test-${randomUUID()}`;
  const names = ["a", "b", "c", "d", "e", "f"];
  const members = await Promise.all(
    names.map(async (name) => {
      const log = createLog("silent", (line) => line);
      const kv = await openKv(cluster.url, prefix);
      const instances = createRedisInstances({ kv, name, self: null, leaseSeconds, log });
      const settings = { podName: name, instanceLease: leaseSeconds };
      const presence = createPresence({ instances, settings, backSince: () => 0 });
      const facts = sampleFacts({ name });
      await presence.join(facts);
      const lost = new Set<string>();
      const beat = setInterval(
        () => {
          presence.renew(facts).catch(() => undefined);
          presence.refresh().catch(() => undefined);
          for (const other of names) if (presence.isLost(other)) lost.add(other);
        },
        (leaseSeconds * 1000) / 4,
      );
      afterFile(async () => clearInterval(beat));
      return { presence, lost };
    }),
  );
  const areAllSeen = (): boolean => members.every(({ presence }) => presence.names().size === names.length);
  await until(areAllSeen, { what: "each to see all" });
  for (const node of cluster.nodes) {
    await node.kill("SIGTERM");
    await new Promise((resolve) => setTimeout(resolve, 3000 * leaseSeconds));
    await node.restart();
    await until(areAllSeen, { what: "each to see all again" });
  }
  expect(members.map(({ lost }) => [...lost])).toEqual(names.map(() => []));
});
