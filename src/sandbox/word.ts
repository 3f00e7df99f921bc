import { once } from "node:events";
import type http from "node:http";
import { createServer, type Server } from "node:net";
import type { Duplex } from "node:stream";
import { Refusal } from "./refusal.ts";

/**
 * What only the run knows, at a door that others of the machine can reach too: null for one that they cannot.
 *
 * | a connection to its port | has                                                                             |
 * |--------------------------|---------------------------------------------------------------------------------|
 * | with the word            | one of `atOnce` places, or is closed                                            |
 * | without it as yet        | one of `atOnce` others, for `wordMs`, or until it is the oldest of one too many |
 */
export const createWord = (word: string | null, { wordMs, atOnce }: { wordMs: number; atOnce: number }) => {
  const silent = new Set<Duplex>();
  const placed = new Set<Duplex>();
  const known = new WeakSet<Duplex>();
  const end = (client: Duplex): void => void (silent.delete(client) && client.destroy());
  const admit = (client: Duplex): void => {
    if (silent.delete(client)) {
      if (placed.size >= atOnce) return void client.destroy();
      placed.add(client.once("close", () => placed.delete(client)));
    }
    known.add(client);
  };
  return {
    admit,
    /** Whether the client has said it in its connection. */
    isSaid: ({ socket: client, headers }: http.IncomingMessage): boolean => {
      if (says(headers, word)) admit(client);
      return known.has(client);
    },
    /** Opens a port of 127.0.0.1, whose connections are the server's. */
    listen: async (server: http.Server): Promise<Server> => {
      const listener = createServer({ allowHalfOpen: true }, (client) => {
        silent.add(client.once("close", () => silent.delete(client)));
        setTimeout(end, wordMs, client).unref();
        const [oldest] = silent;
        if (silent.size > atOnce && oldest !== undefined) end(oldest);
        server.emit("connection", client);
      });
      await once(listener.listen(0, "127.0.0.1"), "listening");
      return listener;
    },
  };
};

/** A Set, because a comparison of text takes the longer the more of it is right. */
const says = (headers: http.IncomingHttpHeaders, word: string | null): boolean => {
  const login = `Basic ${Buffer.from(`run:${word}`).toString("base64")}`;
  const said = [headers["proxy-authorization"], headers.authorization, headers["x-api-key"]];
  return word === null || said.some((each) => new Set<unknown>([login, `Bearer ${word}`, word]).has(each));
};

export const stranger = new Refusal(407, "This is the door of a run, and needs its word");
