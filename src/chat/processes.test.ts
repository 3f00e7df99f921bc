import pino from "pino";
import { expect, test } from "vitest";
import type { AgentProcess } from "../agents/agent.ts";
import { until } from "../../test/until.ts";
import { createWarmProcesses, type ProcessOptions } from "./processes.ts";

const wanted = {
  loaded: { fingerprint: "one" },
  maxTurns: null,
  disabledMcpServers: [],
} as unknown as ProcessOptions;
const session = { id: "s", resumeFrom: "/transcript", cwd: "/workspace" };

test("a process that continues where another one has just ended waits until the empty directory is removed", async () => {
  const said: string[] = [];
  const removed = Promise.withResolvers<void>();
  const first = Promise.withResolvers<void>();
  const ends = [first.promise, new Promise<void>(() => undefined)];
  const processes = createWarmProcesses({
    processes: {
      start: async () => ({ ok: true, process: { ended: ends.shift() } as unknown as AgentProcess }),
    },
    agent: { materialise: async () => ({ model: null }) as never, discard: async () => undefined },
    workspaces: {
      pathOf: (id) => id,
      use: async () => void said.push("use"),
      removeEmpty: async () => {
        said.push("remove");
        await removed.promise;
        said.push("removed");
      },
    },
    newId: () => "id",
    idPrefix: "",
    log: pino({ level: "silent" }),
  });
  await processes.resumed(wanted, session);
  first.resolve();
  await until(() => said.includes("remove"));
  const next = processes.resumed(wanted, session);
  await new Promise((resolve) => setImmediate(resolve));
  removed.resolve();
  await next;
  expect(said).toEqual(["use", "remove", "removed", "use"]);
});
