import { chmod, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { openKv } from "../kv.ts";
import { startRedis } from "../redis.ts";
import { makeRemote } from "../remote.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { createStoreWorld, nth } from "./store-world.ts";

test.concurrent("what an earlier start has left is recovered when the store that failed just after the start works again, and then new jobs are; until then the instance stops on request", async () => {
  const redis = await startRedis();
  const world = await createStoreWorld({
    kvUrl: redis.url,
    directory: await temporaryDirectory(),
    names: ["a"],
    env: { SERVICE_INSTANCE_LEASE: "2", KV_KEY_PREFIX: "recovery" },
  });
  const kv = await openKv(redis.url, "recovery");
  const a = nth(world.services, 0);
  const { id } = await asks(a).submit({ task: "scenario: sleep" });
  await asks(a).speaking(id);
  await a.kill();
  // What an instance asks at its start to find what an earlier one has left; submissions ask for secrets that way.
  await kv.client.acl("SETUSER", "default", "-zrangebylex", "(+zrangebylex ~*secrets-*)");
  const tryAgain = async () => {
    const again = await world.cluster.start("a");
    const isTold = (): boolean => again.output.stderr.includes("cannot all be recovered yet");
    await until(isTold, { what: "a try that fails" });
    return again;
  };
  expect(await (await tryAgain()).stop()).toBe(0);

  const again = await tryAgain();
  const fresh = await asks(again).submit({ task: "scenario: noop" });
  expect(await asks(again).get(fresh.id)).toMatchObject({ status: "queued" });
  await kv.client.acl("SETUSER", "default", "clearselectors", "+zrangebylex");
  expect(await asks(again).ended(id)).toMatchObject({ status: "failed", failure_reason: "instance_lost" });
  expect(await asks(again).ended(fresh.id)).toMatchObject({ status: "succeeded", pod_name: "a" });
});

/** A git that saves no work while `flag` is there. */
const slowToSave = async () => {
  const bin = await temporaryDirectory();
  const flag = join(bin, "flag");
  const wait = `case "$GIT_DIR $* " in *saved.git" "*"update-ref "*) while [ -e '${flag}' ]; do sleep 0.1; done;; esac`;
  await writeFile(join(bin, "git"), `#!/bin/sh\n${wait}\nPATH="\${PATH#*:}"\nexec git "$@"\n`);
  await chmod(join(bin, "git"), 0o755);
  return { PATH: `${bin}:${process.env["PATH"]}`, wait: () => writeFile(flag, ""), goOn: () => rm(flag) };
};

test.concurrent("after a crash lost jobs fail and new ones run while the work of the lost is still being saved, and a crash in the meantime loses none of it", async () => {
  const { PATH, wait, goOn } = await slowToSave();
  const home = await temporaryDirectory();
  const remote = await makeRemote();
  const start = () => startService({ home, env: { PATH } });
  const first = await start();
  const task = 'scenario: paced {"steps": 400, "ms": 200}';
  const lost = await asks(first).submit({ task, repo_url: remote.path });
  await asks(first).speaking(lost.id);
  await first.kill();
  await wait();
  const second = await start();
  const said = { status: "failed", failure_reason: "instance_lost", salvage_ref: null };
  expect(await asks(second).when(lost.id, ({ ended_at }) => ended_at !== null, "to end", 15)).toMatchObject(
    said,
  );
  expect(await asks(second).run({ task: "scenario: noop" })).toMatchObject({ status: "succeeded" });
  expect(await asks(second).get(lost.id)).toMatchObject(said);
  await second.kill();
  const third = await start();
  expect(await asks(third).run({ task: "scenario: noop" })).toMatchObject({ status: "succeeded" });
  await goOn();
  const saved = await asks(third).when(lost.id, ({ salvage_ref }) => salvage_ref !== null, "to be saved");
  expect(saved).toMatchObject({ ...said, salvage_ref: `refs/service/salvage/${lost.id}` });
});
