import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { createNotifier, missed } from "../lib/notifier.ts";
import type { Log } from "../lib/log.ts";
import type { Kv } from "./kv.ts";

/**
 * `maxWait`: longest wait, ms: a lost notification delays the reader by no more. Each wait that ends is a question to the
 * store.
 */
type Options = { kv: Kv; log: Log; maxWait?: number };

/** How long names are collected for one message to the other instances, ms. */
const gatherMs = 10;

/**
 * A notifier across all instances on the store. Notifications may get lost: `waitFor` resolves after `maxWait` at the latest, and
 * callers read again in a loop.
 */
export const createRedisNotifier = ({ kv, log, maxWait = 2000 }: Options) => {
  const { notify, waitFor, listen } = createNotifier(maxWait);
  const channel = kv.key("bell");
  const self = randomUUID();
  const subscriber = kv.dedicated();

  subscriber.on("message", (_channel: string, message: string) => {
    const [sender, ...names] = message.split("\n");
    if (sender !== self) for (const name of names) notify(name);
  });
  // A single connection must not subscribe by itself: when it is closed in the middle of that, ioredis lets the failure
  // escape as an unhandled rejection. The client of a Cluster subscribes by itself.
  if (subscriber instanceof Redis) subscriber.options.autoResubscribe = false;
  subscriber.on("ready", () => {
    subscriber.subscribe(channel).then(
      // Those who listen have missed what others notified while the connection was broken.
      () => notify(missed),
      (err: unknown) => {
        log.debug({ err }, "notifications of other instances cannot be received at present; they are late");
      },
    );
  });

  const pending = new Set<string>();

  const publish = (): void => {
    const message = [self, ...pending].join("\n");
    pending.clear();
    kv.client.publish(channel, message).catch(() => undefined);
  };

  return {
    notify: (name: string): void => {
      notify(name);
      if (pending.size === 0) setTimeout(publish, gatherMs);
      pending.add(name);
    },
    waitFor,
    listen,
    close: async (): Promise<void> => {
      if (pending.size > 0) publish();
      subscriber.disconnect();
    },
  };
};
