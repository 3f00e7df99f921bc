import { readFile } from "node:fs/promises";
import { z } from "zod";
import { ConfigError } from "../config/config-error.ts";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import type { Log } from "../lib/log.ts";

const Client = z.object({
  client_id: z.string(),
  /** Null: a public client. */
  secret: z.string().nullable(),
  client_name: z.string(),
  redirect_uris: z.array(z.string()),
  issued_at: z.number(),
  /** When a user last signed in with it, ms. */
  used_at: z.number(),
});

export type Client = z.infer<typeof Client>;

const Rights = z.object({ scopes: z.array(z.string()), resources: z.array(z.string()) });

/** What a token permits, and where. */
export type Rights = z.infer<typeof Rights>;

const Token = z.object({ digest: z.string(), expires_at: z.number() });

/** What a user has permitted a client, with all codes and tokens that came of it: its family. */
const Grant = Rights.extend({
  id: z.string(),
  client_id: z.string(),
  /** Principal of the key that permitted it. */
  key: z.string(),
  redirect_uri: z.string(),
  challenge: z.string(),
  /** The code, kept after its use to notice a second one. */
  code: Token.extend({ used: z.boolean() }),
  refresh: Token.nullable(),
  access: z.array(Token.extend(Rights.shape)),
});

export type Grant = z.infer<typeof Grant>;

const Stored = z.object({
  format: z.literal("bridge-oauth-1"),
  clients: z.array(Client),
  grants: z.array(Grant),
});

export type State = {
  clients: Map<string, Client>;
  grants: Map<string, Grant>;
  /** Makes changes last. A failure is in the log: the service goes on with what it has in memory. */
  save: () => Promise<void>;
};

/**
 * Clients and grants, in memory and, if there is a path, in a file that only this user can read. Secrets and tokens are in
 * it as digests.
 * @throws ConfigError when the file cannot be used
 */
export const openState = async (path: string | null, log: Log): Promise<State> => {
  const { clients, grants } = path === null ? empty : await read(path);
  const state = {
    clients: new Map(clients.map((client) => [client.client_id, client])),
    grants: new Map(grants.map((grant) => [grant.id, grant])),
  };
  if (path === null) return { ...state, save: async () => undefined };
  const write = (): Promise<void> => {
    const { clients: all, grants: given } = state;
    const stored: z.infer<typeof Stored> = {
      ...empty,
      clients: [...all.values()],
      grants: [...given.values()],
    };
    return writeFileAtomic(path, `${JSON.stringify(stored)}\n`);
  };
  await write().catch((error: Error) => {
    throw unusable(path, `cannot be written (${error.message}); name a file in a directory of this user`);
  });
  return { ...state, save: oneAtATime(write, log) };
};

const empty: z.infer<typeof Stored> = { format: "bridge-oauth-1", clients: [], grants: [] };

const read = async (path: string): Promise<z.infer<typeof Stored>> => {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return empty;
    throw unusable(path, `cannot be read (${(error as Error).message})`);
  }
  try {
    return Stored.parse(JSON.parse(text));
  } catch {
    throw unusable(path, "is not a file that this service has written, or is damaged; move it away");
  }
};

const unusable = (path: string, how: string): ConfigError =>
  new ConfigError([`BRIDGE_OAUTH_STORE is ${path}, which ${how}`]);

/** Changes that come during a write share the next one. */
const oneAtATime = (write: () => Promise<void>, log: Log): (() => Promise<void>) => {
  let running: Promise<void> = Promise.resolve();
  let next: Promise<void> | null = null;
  return () =>
    (next ??= running.then(() => {
      next = null;
      running = write().catch((error: unknown) =>
        log.warn({ err: error }, "OAuth sign-ins were not stored: a restart would lose them"),
      );
      return running;
    }));
};
