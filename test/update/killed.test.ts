import { once } from "node:events";
import { cp, readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { copyOf, install, makePackage, pack, type Installed } from "./installed.ts";

let original: Installed;
let next: string;
beforeAll(async () => {
  const [older, newer] = await Promise.all(
    ["0.1.0", "0.2.0"].map(async (version) => await pack(await makePackage(version))),
  );
  next = newer ?? "";
  original = await install(older ?? "");
});

/** For NODE_OPTIONS: the process kills itself before, or after, it renames something to this name. */
const killedAt = (when: "before" | "after", name: string): Record<string, string> => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(`
    import files from "node:fs/promises"; import { basename } from "node:path"; import { syncBuiltinESMExports } from "node:module";
    const rename = files.rename; const die = () => process.kill(process.pid, "SIGKILL");
    files.rename = async (from, to) => {
      const isIt = basename(to) === "${name}";
      if (isIt && "${when}" === "before") die();
      await rename(from, to);
      if (isIt) die();
    };
    syncBuiltinESMExports();`)}`,
});

const leftovers = async ({ modules, prefix }: Installed): Promise<string[]> =>
  [...(await readdir(modules)), ...(await readdir(join(prefix, "bin")))]
    .filter((name) => /\.(new|update)$/.test(name))
    .map((name) => basename(name));

test("kill -9 while it fetches, tries and drains leaves the version that was there", async () => {
  const installed = await copyOf(original);
  const service = await startService({
    home: installed.home,
    program: installed.program,
    env: { SERVICE_DRAIN_TIMEOUT: "60" },
  });
  await service.client.run_task({ task: "scenario: hang" });
  await until(async () => (await service.client.list_jobs({})).jobs[0]?.status === "running");
  await cp(await makePackage("0.2.0"), join(installed.modules, "svc-agent.other"), { recursive: true });
  for (const step of ["Fetching", "on a copy of the store", "Stopping the service"]) {
    expect((await fetch(`${service.url}/ready`)).status).toBe(200);
    // The change to the other version is the same but for the fetching, which takes long.
    const update = step === "Fetching" ? installed.update(next) : installed.rollback();
    await until(() => update.output.stderr.includes(step), { what: step });
    const gone = once(update.child, "exit");
    update.child.kill("SIGKILL");
    await gone;
    expect(await installed.versions()).toEqual(["svc 0.1.0", "bridge 0.1.0"]);
  }
  await service.kill();
  // The next attempt gets through and leaves nothing about.
  expect(await installed.rollback().ended).toMatchObject({ code: 0 });
  expect(await installed.versions()).toEqual(["svc 0.2.0", "bridge 0.2.0"]);
  expect(await leftovers(installed)).toEqual([]);
});

test("kill -9 around the move and the links leaves two programs that work", async () => {
  const installed = await copyOf(original);
  const cut = async ({ child, ended }: ReturnType<Installed["update"]>): Promise<string[]> => {
    await ended;
    expect(child.signalCode).toBe("SIGKILL");
    return await installed.versions();
  };
  const place = "svc-agent.other";
  expect(await cut(installed.update(next, killedAt("before", place)))).toEqual(["svc 0.1.0", "bridge 0.1.0"]);
  expect(await cut(installed.update(next, killedAt("after", place)))).toEqual(["svc 0.1.0", "bridge 0.1.0"]);
  // The other version is in its place, so that the same change is open to the shorter command.
  expect(await cut(installed.rollback(killedAt("before", "svc")))).toEqual(["svc 0.1.0", "bridge 0.2.0"]);
  expect(await cut(installed.rollback(killedAt("after", "svc")))).toEqual(["svc 0.2.0", "bridge 0.2.0"]);
  expect(await installed.rollback().ended).toMatchObject({ code: 0 });
  expect(await installed.versions()).toEqual(["svc 0.1.0", "bridge 0.1.0"]);
  expect(await leftovers(installed)).toEqual([]);
});
