import { appendFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { startRedis } from "../../test/redis.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { loadBridgeSettings } from "../config/bridge-settings.ts";
import type { Log } from "../lib/log.ts";
import { openTranscripts } from "./transcripts.ts";

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

test("of two instances of a machine one collects, and the other when that one is gone", async () => {
  const { url } = await startRedis();
  const home = await temporaryDirectory();
  await mkdir(join(home, "projects/-p"), { recursive: true });
  const start = async () => {
    const directory = await temporaryDirectory();
    const env = { KV_URL: url, BRIDGE_AGENT_HOME: home, BRIDGE_DIR: directory, BRIDGE_MACHINE: "one" };
    const transcripts = await openTranscripts(loadBridgeSettings(env, { home: directory }).settings, quiet);
    const stop = new AbortController();
    const running = transcripts.keepUpToDate(stop.signal);
    let ended: Promise<void> | null = null;
    const end = () => (ended ??= (stop.abort(), running.then(transcripts.close)));
    afterFile(end);
    const turns = () => transcripts.index.session("s")?.num_user_turns ?? 0;
    return { end, turns };
  };
  const say = (n: number) =>
    appendFile(
      join(home, "projects/-p/s.jsonl"),
      `${JSON.stringify({ type: "user", uuid: String(n), message: { role: "user", content: "hello" } })}\n`,
    );
  const [one, two] = [await start(), await start()];
  await say(1);
  for (const { turns } of [one, two]) await until(() => turns() === 1);
  await one.end();
  await say(2);
  await until(() => two.turns() === 2);
  expect(two.turns()).toBe(2);
});
