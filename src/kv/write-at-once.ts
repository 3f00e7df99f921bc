import { Cluster, type Redis } from "ioredis";
import type { KvClient } from "./kv.ts";

/**
 * Hands what is sent to the store in the same breath to the system in one piece: a call of the system for each command
 * costs more than most commands do.
 */
export const writeAtOnce = (client: KvClient): void => {
  if (client instanceof Cluster) client.on("+node", gather);
  else gather(client);
};

const gather = (connection: Redis): void => {
  connection.on("connect", () => {
    const { stream } = connection;
    const write = stream.write.bind(stream) as (...args: unknown[]) => boolean;
    let gathering = false;
    const release = (): void => {
      gathering = false;
      stream.uncork();
    };
    stream.write = (...args: unknown[]): boolean => {
      if (!gathering) {
        gathering = true;
        stream.cork();
        process.nextTick(release);
      }
      return write(...args);
    };
  });
};
