import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { lastingPort } from "../lasting-port.ts";
import { withOptions } from "../kv.ts";
import { startRedis } from "../redis.ts";
import { redisCertificate } from "../redis-tls.ts";
import { temporaryDirectory } from "../temporary.ts";
import { createStoreWorld, nth } from "./store-world.ts";

/** Needs to be written percent-encoded in a URL. */
const password = "p@ss:w/rd?#%";

test("over TLS with a password two instances share jobs, and the password is in no log, answer or agent", async () => {
  const [{ certificate, args }, port] = [await redisCertificate(), await lastingPort()];
  await startRedis({ args: [...args(port), "--requirepass", password] });
  const encoded = encodeURIComponent(password);
  const ca = await readFile(certificate, "utf8");
  const { services, remote } = await createStoreWorld({
    kvUrl: await withOptions(`rediss://:${encoded}@127.0.0.1:${port}`, { tls: { ca } }),
    directory: await temporaryDirectory(),
    names: ["i1", "i2"],
    env: { SERVICE_LOG_LEVEL: "debug" },
  });
  const [first, second] = [nth(services, 0), nth(services, 1)];
  const done = await asks(first).run({ task: "scenario: work", repo_url: remote.path });
  expect(done).toMatchObject({ status: "succeeded" });
  expect(await asks(second).get(done.id)).toEqual(done);
  const printed = await asks(second).run({ task: "scenario: print-env" });
  const events = await fetch(`${first.url}/jobs/${printed.id}/events`, {
    signal: AbortSignal.timeout(100_000),
  });
  const told = await events.text();
  expect(told).toContain("SERVICE_JOB_ID");
  const seen = [told, ...services.map(({ output }) => output.stderr + output.stdout)].join("\n");
  expect(seen).not.toContain(password);
  expect(seen).not.toContain(encoded);
});
