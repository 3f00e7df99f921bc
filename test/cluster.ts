import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { optionsFileOf } from "./kv.ts";
import { afterFile } from "./cleanup.ts";
import { spawnService, type Service, type ServiceOptions } from "./service-process.ts";
import { temporaryDirectory } from "./temporary.ts";

type Options = {
  kvUrl: string;
  /** Variables over the defaults, for every instance. */
  env?: Record<string, string | undefined>;
  /** Directory of everything; a fresh one unless given. */
  directory?: string;
};

type More = {
  env?: Record<string, string | undefined>;
  under?: string[];
  /** Its home, instead of the one of its name. */
  home?: string;
};

/** A shorter lease than the default: what is tested is that it works, not how long it takes. */
export const lease = 3;

/**
 * Instances of the service on one store, as on hosts of their own: each with its own home, worktrees and state; clones and
 * shared files are common to all. Killed after the file.
 */
export const createCluster = async ({ kvUrl, env = {}, directory }: Options) => {
  const root = directory ?? (await temporaryDirectory());
  const shared = join(root, "shared");
  await mkdir(join(shared, "repos"), { recursive: true });

  const optionsOf = (name: string, more: More): ServiceOptions => ({
    home: more.home ?? join(root, name),
    env: {
      KV_URL: kvUrl,
      KV_OPTIONS_FILE: optionsFileOf(kvUrl) ?? "",
      SERVICE_POD_NAME: name,
      SERVICE_SHARED_FS_ROOT: shared,
      SERVICE_REPOS_ROOT: join(shared, "repos"),
      SERVICE_INSTANCE_LEASE: String(lease),
      ...env,
      ...more.env,
    },
    ...(more.under && { under: more.under }),
  });

  return {
    root,
    shared,
    /** Starts the instance of this name, also again after a crash. */
    start: async (name: string, more: More = {}): Promise<Service> => {
      const options = optionsOf(name, more);
      await mkdir(options.home, { recursive: true });
      const service = await spawnService(options);
      afterFile(() => service.kill());
      return service;
    },
  };
};
