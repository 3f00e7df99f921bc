import { spawn } from "node:child_process";
import { mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { IStatefulSet } from "kubernetes-models/apps/v1/StatefulSet";
import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { connectKv } from "../../src/kv/connect.ts";
import { createLog } from "../../src/lib/log.ts";
import { afterFile } from "../cleanup.ts";
import { lastingPort } from "../lasting-port.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { readCompose } from "./composed.ts";
import { find, render } from "./rendered.ts";

const password = "0123456789abcdef";

const commandOf = {
  compose: async () =>
    (await readCompose({ KV_PASSWORD: password, SERVICE_OTLP_TOKEN: "token" })).services["kv"]?.command,
  kubernetes: async () =>
    find<IStatefulSet>(await render("cluster"), "StatefulSet", "svc-kv").spec?.template.spec?.containers[0]
      ?.command,
};

/** Starts Redis by the very command, in other directories and on a free port of loopback. */
const start = async (command: string[]) => {
  const place = await temporaryDirectory();
  for (const name of ["run", "data"]) await mkdir(join(place, name));
  const port = await lastingPort();
  const [program = "", ...words] = command.map((word) =>
    word
      .replaceAll("/run/kv", join(place, "run"))
      .replaceAll("/data", `${join(place, "data")} --port ${port} --bind 127.0.0.1`),
  );
  const child = spawn(program, words, {
    stdio: "ignore",
    env: { PATH: process.env["PATH"], KV_PASSWORD: password },
  });
  afterFile(() => void child.kill("SIGKILL"));
  const client = new Redis({ host: "127.0.0.1", port, password, retryStrategy: () => 50 });
  client.on("error", () => undefined);
  afterFile(() => client.disconnect());
  await until(async () => (client.status === "ready" ? true : undefined), { what: "Redis" });
  return { place, port, client, pid: child.pid ?? 0 };
};

describe.each(["compose", "kubernetes"] as const)("the store of %s", (where) => {
  test("is durable, and refuses clients without the password", async () => {
    const { place, port, client, pid } = await start((await commandOf[where]()) ?? []);
    const setting = async (name: string) => ((await client.config("GET", name)) as string[])[1];
    expect(await setting("maxmemory-policy")).toBe("noeviction");
    expect(await setting("appendonly")).toBe("yes");
    expect(await setting("appendfsync")).toBe("always");
    // Full before the container's 1 GiB are: a command that is refused loses nothing, a container that is killed may.
    expect(Number(await setting("maxmemory"))).toBeLessThan(1024 ** 3);

    const log = createLog("silent", (text) => text);
    const kv = await connectKv({ url: `redis://:${password}@127.0.0.1:${port}`, prefix: "service", log });
    await kv.check();
    await kv.close();
    const stranger = new Redis({ host: "127.0.0.1", port });
    stranger.on("error", () => undefined);
    afterFile(() => stranger.disconnect());
    await expect(stranger.get("service:pod:x")).rejects.toThrow("NOAUTH");

    // The shell has become Redis, so that signals reach it, and the password is in no command line.
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8");
    expect(line).toMatch(/^redis-server/);
    expect(line).not.toContain(password);
    expect((await stat(join(place, "run", "redis.conf"))).mode & 0o077).toBe(0);
  });
});
