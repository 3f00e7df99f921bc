import { afterFile } from "./cleanup.ts";
import { spawnService, type Service, type ServiceOptions } from "./service-process.ts";
import { temporaryDirectory } from "./temporary.ts";

export { fakeAgent, svcProgram, type Service } from "./service-process.ts";

/**
 * A service for a test file, in a home directory of its own unless one is given (to restart on it); killed after the file.
 */
export const startService = async (options: Partial<ServiceOptions> = {}): Promise<Service> => {
  const service = await spawnService({ ...options, home: options.home ?? (await temporaryDirectory()) });
  afterFile(() => service.kill());
  return service;
};
