import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../../lib/log.ts";
import { createTurns } from "../../lib/turns.ts";
import { isAgentName, parseVisibility, type VisibilityStore } from "../visibility-store.ts";
import { filesOf } from "./one-file.ts";
import { storeUnavailable } from "./store-unavailable.ts";

/** `{directory}/{agent}.json`, read each time: operators may edit it. The directory is made with the first one. */
export const createFilesVisibilityStore = (directory: string, log: Log): VisibilityStore => {
  const { inTurn } = createTurns();
  const files = filesOf(directory);
  const warned = new Set<string>();
  const file = (agent: string): string => join(directory, `${agent}.json`);

  const read = async (agent: string) => {
    const text = await files.read(file(agent));
    if (text === null) return null;
    const visibility = parseVisibility(text);
    if (visibility !== null) warned.delete(agent);
    else if (!warned.has(agent)) {
      warned.add(agent);
      log.warn({ file: file(agent) }, "visibility file skipped: it does not hold the five flags");
    }
    return visibility;
  };

  return {
    get: async (agent) => (isAgentName(agent) ? await inTurn(agent, () => read(agent)) : null),
    set: (agent, visibility) =>
      inTurn(agent, async () => {
        if (!isAgentName(agent)) throw new Error("the name of an agent is letters, digits and ._-");
        await mkdir(directory, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
          throw storeUnavailable(directory, cause);
        });
        await files.write(file(agent), visibility);
      }),
  };
};
