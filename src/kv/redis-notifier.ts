import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { createNotifier, type Notifier } from "../lib/notifier.ts";
import type { Log } from "../lib/log.ts";
import type { Kv } from "./kv.ts";

/** Longest wait for a ring, ms: one that was lost on its way costs no more than that. */
const poll = 2000;

/** How long rings gather before they are told to the others, ms. */
const gathering = 10;

/**
 * A notifier that all instances on the store hear. Rings may get lost, and `next` resolves after 2 s at the latest without
 * one: who waits looks again, in a loop.
 */
export const createRedisNotifier = ({
  kv,
  log,
}: {
  kv: Kv;
  log: Log;
}): Notifier & { close: () => Promise<void> } => {
  const notifier = createNotifier(poll);
  const channel = kv.key("bell");
  const self = randomUUID();
  const subscriber = kv.dedicated();

  subscriber.on("message", (_channel: string, message: string) => {
    const [from, ...names] = message.split("\n");
    if (from !== self) for (const name of names) notifier.notify(name);
  });
  // A single connection subscribes anew by our hand: when it is closed in the middle of that, ioredis lets the failure of
  // its own attempt escape as an unhandled rejection. That of a Cluster does so by itself.
  if (subscriber instanceof Redis) subscriber.options.autoResubscribe = false;
  subscriber.on("ready", () => {
    subscriber.subscribe(channel).catch((err: unknown) => {
      log.debug({ err }, "what other instances tell is heard late: their channel cannot be heard at present");
    });
  });

  const rung = new Set<string>();

  /** What rings in the same breath is told in one message. */
  const tell = (): void => {
    const message = [self, ...rung].join("\n");
    rung.clear();
    kv.client.publish(channel, message).catch(() => undefined);
  };

  return {
    notify: (name) => {
      notifier.notify(name);
      if (rung.size === 0) setTimeout(tell, gathering);
      rung.add(name);
    },
    waitFor: notifier.waitFor,
    close: async () => subscriber.disconnect(),
  };
};
