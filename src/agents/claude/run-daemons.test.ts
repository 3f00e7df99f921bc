import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmod, chown, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { fakeLaunch, fakeSettings } from "../../../test/fake-agent/run.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { readRow } from "../../lib/process/table.ts";

const adapter = fileURLToPath(new URL("claude.ts", import.meta.url));

/** A service that runs one turn and prints its warnings. */
const program = `
  import { createClaudeAgent } from ${JSON.stringify(adapter)};
  const { settings, start, turn } = JSON.parse(process.argv[1]);
  const { process: agent } = await createClaudeAgent({
    settings,
    env: process.env,
    redact: Object.assign((text) => text, { unfinished: () => 0 }),
  }).start(start);
  const warnings = [];
  for await (const event of agent.turn({ ...turn, signal: new AbortController().signal }))
    if (event.type === "warning") warnings.push(event.message);
  console.log(JSON.stringify(warnings));`;

/** Its memory, and so its environment and directory, are shown to nobody but root, like those of ssh-agent. */
const hide = `cp "$(command -v sleep)" secretive; chmod 111 secretive`;
const leave = `setsid ./secretive 1000 >/dev/null 2>&1 & echo $! > secretive.pid
until grep -q secretive /proc/$!/comm; do sleep 0.01; done
env -i setsid sleep 1000 >/dev/null 2>&1 & echo $! > sleep.pid`;

test("what an agent leaves behind as an ordinary user is ended, or named in a warning", async () => {
  const directory = await temporaryDirectory();
  const settings = fakeSettings(directory);
  const agentCliBinary = join(directory, "agent");
  await writeFile(
    agentCliBinary,
    `#!/bin/sh\n"${settings.agentCliBinary}" "$@"\ncode=$?\n${hide}\n${leave}\nexit $code\n`,
  );
  await chmod(agentCliBinary, 0o755);
  const start = {
    id: randomUUID(),
    attempt: 1,
    cwd: directory,
    launch: fakeLaunch(directory),
    session: { id: randomUUID(), resumeFrom: null },
  };
  const content = [{ type: "text", text: "hello" }];
  const asks = { appendSystemPrompt: null, effort: null };
  const turn = { content, ...asks, timeoutSeconds: 60, isLast: true };
  const asked = JSON.stringify({ settings: { ...settings, agentCliBinary }, start, turn });
  const node = [process.execPath, "--input-type=module-typescript", "--eval", program, asked];
  const isRoot = process.getuid?.() === 0;
  if (isRoot) await chown(directory, 65_534, 65_534);
  const [command = "", ...args] = isRoot
    ? [..."setpriv --reuid 65534 --regid 65534 --clear-groups".split(" "), ...node]
    : node;
  const { stdout } = await promisify(execFile)(command, args, {
    cwd: directory,
    env: { PATH: process.env["PATH"] },
  });
  const pidOf = async (name: string): Promise<number> =>
    Number(await readFile(join(directory, `${name}.pid`), "utf8"));
  const [secretive, sleeper] = [await pidOf("secretive"), await pidOf("sleep")];
  const [hidden, open] = [readRow(secretive), readRow(sleeper)];
  for (const row of [hidden, open]) if (row !== null) process.kill(row.pid, "SIGKILL");
  expect(open).toBeNull();
  // Seen while the agent ran, it is ended like any other.
  const named = expect.stringContaining(`may belong to it: ${secretive} (secretive)`) as string;
  expect(JSON.parse(stdout)).toEqual(hidden === null ? [] : [named]);
});
