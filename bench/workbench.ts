import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnService, type Service } from "../test/service-process.ts";

/** A directory for one benchmark, removed when it is done. */
export const withDirectory = async <Value>(use: (directory: string) => Promise<Value>): Promise<Value> => {
  const directory = await mkdtemp(join(tmpdir(), "svc-bench-"));
  try {
    return await use(directory);
  } finally {
    await rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
};

/** The service, quiet, killed when the benchmark is done. */
export const withService = async <Value>(
  home: string,
  env: Record<string, string>,
  use: (service: Service) => Promise<Value>,
): Promise<Value> => {
  const service = await spawnService({ home, env: { SERVICE_LOG_LEVEL: "error", ...env } });
  try {
    return await use(service);
  } finally {
    await service.kill();
  }
};
