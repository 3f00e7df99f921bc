import { expect } from "vitest";
import type { Remote } from "../../src/fleet/fleet.ts";
import type { InstanceFacts } from "../../src/store/instances.ts";
import { openKv } from "../kv.ts";
import { svc } from "./run-svc.ts";

/** What `svc agents --headless list` prints. */
export type Listed = { remotes: Remote[]; local: { name: string; error: string | null }[]; faults: string[] };

type Ended = { code: number | null; stdout: string; stderr: string };

/** Runs svc agents --headless to its end; `body`: what it printed, null: nothing. */
export const headless = async (args: string[], env: Record<string, string>) => {
  const ended = await svc(["agents", "--headless", ...args], { env });
  return { ...ended, body: (ended.stdout === "" ? null : JSON.parse(ended.stdout)) as never };
};

/** All that a failure may print: nothing on stdout, and no escape sequence. */
export const expectFailure = (ended: Ended | undefined, code: number, message: RegExp): void => {
  expect(ended).toMatchObject({ code, stdout: "", stderr: expect.stringMatching(message) });
  expect(ended?.stderr).not.toContain("\u001b");
};

export const byName = ({ remotes }: Listed): Record<string, Remote> =>
  Object.fromEntries(remotes.map((remote) => [remote.name, remote]));

/** Leases of instances that do not run. */
export const playInstances = async (kvUrl: string, all: InstanceFacts[]): Promise<void> => {
  const kv = await openKv(kvUrl, "service");
  for (const facts of all) {
    const lease = { facts, process: null, pid_namespace: "", lease_ms: 30_000 };
    await kv.client.set(kv.key("pod", facts.name), JSON.stringify(lease));
    await kv.client.zadd(kv.jobKey("pods"), String(Date.now() + 3_600_000), facts.name);
  }
};
