import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import type { Log } from "../lib/log.ts";
import { openSpool } from "./spool.ts";

type Item = { n: number; text?: string };

const startSpool = async (directory: string, { maxBytes = 1_000_000, isUp = true } = {}) => {
  const world = {
    isUp,
    taken: [] as number[],
    ids: [] as string[],
    tries: 0,
    warnings: [] as string[],
    refuse: null as number | null,
    fail: null as number | null,
  };
  const say = (_: unknown, message: string): void => void world.warnings.push(message);
  const log = { debug: () => undefined, info: () => undefined, warn: say, error: say } as unknown as Log;
  const spool = await openSpool<Item>({
    directory,
    maxBytes,
    what: "records",
    deliver: async (item, id) => {
      world.tries += 1;
      if (!world.isUp || item.n === world.fail) throw new Error("down");
      if (item.n === world.refuse) throw Object.assign(new Error("never"), { permanent: true });
      world.taken.push(item.n);
      world.ids.push(id);
    },
    now: () => new Date(),
    log,
  });
  return Object.assign(world, { spool });
};

const add = async ({ spool }: Awaited<ReturnType<typeof startSpool>>, from: number, to: number) => {
  for (let n = from; n <= to; n += 1) await spool.add({ n });
};

test("items are delivered in their order, and their files go", async () => {
  const directory = join(await temporaryDirectory(), "spool");
  const world = await startSpool(directory);
  await add(world, 1, 30);
  await world.spool.close();
  expect(world.taken).toEqual(Array.from({ length: 30 }, (_, n) => n + 1));
  expect(new Set(world.ids).size).toBe(30);
  expect(await readdir(directory)).toEqual([]);
});

test("what cannot be delivered is tried again, and by the next start", async () => {
  const directory = await temporaryDirectory();
  const first = await startSpool(directory, { isUp: false });
  await add(first, 1, 3);
  await until(() => first.tries > 2);
  expect(first.warnings).toEqual([expect.stringContaining("records cannot be delivered at present")]);
  await first.spool.close();
  const second = await startSpool(directory, { isUp: false });
  await add(second, 4, 5);
  second.isUp = true;
  await until(() => second.taken.length === 5);
  expect(second.taken.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5]);
  await second.spool.close();
  expect(await readdir(directory)).toEqual([]);
});

test("beyond its size the oldest are lost, with one warning", async () => {
  const directory = await temporaryDirectory();
  const world = await startSpool(directory, { maxBytes: 1000, isUp: false });
  for (let n = 1; n <= 30; n += 1) await world.spool.add({ n, text: "x".repeat(180) });
  expect((await readdir(directory)).length).toBe(5);
  const ofLoss = (): string[] => world.warnings.filter((said) => said.includes("are lost"));
  world.isUp = true;
  await world.spool.close();
  expect(ofLoss()).toEqual(["records are lost: too many wait for their delivery"]);
  // The first may have been on its way when it was lost.
  expect(world.taken.filter((n) => n > 1).toSorted((a, b) => a - b)).toEqual([26, 27, 28, 29, 30]);
});

test("a torn file, and one that can never be delivered, are set aside with a warning each", async () => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, "00000000000001-torn.json"), '{"n": 1');
  await writeFile(join(directory, "00000000000002-empty.json"), "");
  await writeFile(join(directory, "00000000000003-half.json.tmp"), "{}");
  const world = await startSpool(directory);
  world.refuse = 2;
  await add(world, 1, 3);
  await world.spool.close();
  expect(world.taken).toEqual([1, 3]);
  expect(world.warnings.map((said) => said.replace(/:.*/, ""))).toEqual([
    "some records are set aside",
    "some records are set aside",
    "some records are set aside",
  ]);
  const names = await readdir(directory);
  expect(names.toSorted()).toEqual([
    "00000000000001-torn.aside",
    "00000000000002-empty.aside",
    expect.stringMatching(/\.aside$/),
  ]);
});

test("no item waits behind one that fails, which is tried again", async () => {
  const directory = await temporaryDirectory();
  const world = await startSpool(directory);
  world.fail = 1;
  await add(world, 1, 5);
  await until(() => world.taken.length === 4);
  expect(world.taken).toEqual([2, 3, 4, 5]);
  const { tries } = world;
  // Also one that comes while the other is waited for.
  await until(() => world.tries > tries + 2);
  await add(world, 6, 6);
  await until(() => world.taken.length === 5);
  expect(world.warnings).toEqual([expect.stringContaining("records cannot be delivered at present")]);
  world.fail = null;
  await world.spool.close();
  expect(world.taken).toEqual([2, 3, 4, 5, 6, 1]);
  expect(await readdir(directory)).toEqual([]);
});

test("a directory that cannot be written loses items, and nothing else happens", async () => {
  const file = join(await temporaryDirectory(), "file");
  await writeFile(file, "");
  const world = await startSpool(join(file, "spool"));
  await add(world, 1, 2);
  await world.spool.close();
  expect(world.warnings).toContain("records are lost: they cannot be written to disk");
  expect(world.taken).toEqual([]);
});
