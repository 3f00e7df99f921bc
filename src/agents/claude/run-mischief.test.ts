import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { expectTidy, runFake } from "../../../test/fake-agent/run.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { readRow } from "../../lib/process/table.ts";

test.for([
  'grandchildren {"then": "exit"}',
  'grandchildren {"then": "exit", "deaf": true, "holdPipes": true}',
  'respawner {"times": 4}',
])("%s: a good end leaves nothing running", async (task) => {
  const run = await runFake(`scenario: ${task}`, { directory: await temporaryDirectory() });
  expectTidy(run);
  expect(run.outcome.ok).toBe(true);
});

test("a cancelled run's child that hid its marker is ended as well", async () => {
  const stop = new AbortController();
  const run = await runFake('scenario: grandchildren {"deaf": true, "hideMarker": true}', {
    directory: await temporaryDirectory(),
    settings: { agentCliKillGrace: 0.1 },
    turn: { signal: stop.signal },
    onEvent: (event) => event.type === "block_end" && stop.abort(),
  });
  const [pids] = run.events.flatMap((event) => (event.type === "tool_result" ? [event.content] : []));
  const { ownSession } = JSON.parse(pids ?? "") as { ownSession: number };
  expect(readRow(ownSession)).toBeNull();
  expectTidy(run);
});

test("an agent that deletes its working directory is judged by its result", async () => {
  const directory = join(await temporaryDirectory(), "own");
  execFileSync("git", ["init", "--quiet", directory]);
  const run = await runFake("scenario: delete-worktree", { directory });
  expectTidy(run);
  expect(existsSync(join(directory, ".git"))).toBe(false);
  expect(run.outcome).toMatchObject({ ok: true, text: "The directory is gone." });
});

test("lines that are no events make up the output when there is no result", async () => {
  const directory = await temporaryDirectory();
  const agentCliBinary = join(directory, "chatty");
  await writeFile(agentCliBinary, "#!/bin/sh\nread task; echo some plain words; echo an error >&2; exit 4\n");
  await chmod(agentCliBinary, 0o755);
  const run = await runFake("hello", { directory, settings: { agentCliBinary } });
  expectTidy(run);
  expect(run.outcome).toMatchObject({ reason: "agent_exit", exitCode: 4, text: "some plain words" });
  expect(run.outcome.error).toMatch(/code 4.*stderr of the agent:\nan error$/s);
});

test("each piece of text is emitted soon after it was written, not with those after it", async () => {
  const delays: number[] = [];
  const run = await runFake('scenario: slow-deltas {"count": 100, "rate": 100}', {
    directory: await temporaryDirectory(),
    onEvent: (event) => {
      if (event.type === "text") delays.push(performance.timeOrigin + performance.now() - Number(event.text));
    },
  });
  expectTidy(run);
  expect(delays).toHaveLength(100);
  // They are written over a second. A busy machine takes some of the time.
  expect(delays.toSorted((a, b) => a - b)[50]).toBeLessThan(200);
});

test("a CLI that ends before its first event is named with its version, those that work, and what to do", async () => {
  const directory = await temporaryDirectory();
  const agentCliBinary = join(directory, "other");
  const script =
    '#!/bin/sh\n[ "$1" = --version ] && exec echo 2.9.0\nread task; echo no such option >&2; exit 1\n';
  await writeFile(agentCliBinary, script, { mode: 0o755 });
  const run = await runFake("hello", { directory, settings: { agentCliBinary } });
  expect(run.outcome).toMatchObject({ ok: false, reason: "agent_exit", exitCode: 1 });
  expect(run.outcome.error).toMatch(
    /^The agent CLI \(2\.9\.0; svc works with [\d.]+ to [\d.]+\) exited with code 1 without giving a result\.\nWhat to do: Install one that works: npm install .*\n\nstderr of the agent:\nno such option/,
  );
});
