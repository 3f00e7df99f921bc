import { randomInt } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newestCli, oldestCli } from "../../../test/agent-clis.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { until } from "../../../test/until.ts";
import { newestVersion, oldestVersion, supportedText } from "../../agents/claude/version.ts";
import { checkAgent } from "./agent.ts";
import { diagnosisWith, said } from "./doctor.fixture.ts";

let temporary: string;
beforeEach(async () => {
  temporary = await temporaryDirectory();
  vi.stubEnv("TMPDIR", temporary);
});
afterEach(() => void vi.unstubAllEnvs());

/** Beside what the tests themselves make. */
const left = async () => (await readdir(temporary)).filter((name) => !name.startsWith("svc-test-"));

/** A program that tells this version, and else runs the line. */
const program = async (version: string, line: string): Promise<string> => {
  const path = join(await temporaryDirectory(), "claude");
  const script = `#!/bin/sh\nif [ "$1" = --version ]; then echo "${version}"; exit; fi\n${line}\n`;
  await writeFile(path, script, { mode: 0o755 });
  return path;
};

const commandLines = async (): Promise<string[]> => {
  const ids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  return await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, "utf8").catch(() => "")));
};

test.each([
  ["bwrap", newestCli, newestVersion, "in bubblewrap"],
  ["landlock", newestCli, newestVersion, "in Landlock"],
  ["off", newestCli, newestVersion, "without a sandbox"],
  ["bwrap", oldestCli, oldestVersion, "in bubblewrap"],
])("in %s the agent CLI %s runs one turn of a job, and leaves nothing", async (mode, cli, version, where) => {
  const request = await diagnosisWith({
    SERVICE_AGENT_SANDBOX: mode,
    SERVICE_AGENT_CLI_BINARY: cli,
    TMPDIR: temporary,
    // Neither a proxy nor a provider takes the request: there is no network.
    HTTP_PROXY: "http://127.0.0.1:9",
    HTTPS_PROXY: "http://127.0.0.1:9",
    SERVICE_AGENT_ENV: "CLAUDE_CODE_USE_BEDROCK",
    CLAUDE_CODE_USE_BEDROCK: "1",
    ANTHROPIC_API_KEY: "canary-of-the-model",
  });
  expect(await said(checkAgent(request))).toMatch(
    new RegExp(`^ok: ${version} \\(/.*/claude\\.exe\\), one turn ${where} in \\d+\\.\\d s$`),
  );
  await until(async () => (await left()).length === 0, { what: "nothing to be left" });
  expect(await readdir(String(request.env["HOME"]))).toEqual([]);
});

test("a CLI that fails as 2.1.222 did is a fault with its own words, its version and those that work", async () => {
  const cli = await program(
    "2.1.222 (Claude Code)",
    'echo "Error creating worktree: This resume was started from inside $PWD, which is its own repository" >&2; exit 1',
  );
  const message = await said(checkAgent(await diagnosisWith({ SERVICE_AGENT_CLI_BINARY: cli })));
  expect(message).toMatch(/^Error: 2\.1\.222 \(.*\): one turn fails: .*exited with code 1/);
  expect(message).toMatch(/Error creating worktree: .* its own repository/);
  expect(message).toContain(`svc works with ${supportedText}`);
  expect(message).not.toContain("svc doctor");
  expect(await left()).toEqual([]);
});

test.each(["off", "bwrap"])(
  "in %s a CLI that hangs is ended, also when doctor is interrupted",
  async (mode) => {
    const seconds = `9${randomInt(1e9)}`;
    const cli = await program(newestVersion, `echo waits >&2; trap '' TERM; sleep ${seconds}`);
    const variables = { SERVICE_AGENT_CLI_BINARY: cli, SERVICE_AGENT_SANDBOX: mode };
    const runs = async () => (await commandLines()).some((line) => line.includes(seconds));
    const late = await said(checkAgent(await diagnosisWith(variables), 5));
    expect(late).toMatch(/^Error: .*: one turn has no result within 5 s: /);
    await until(async () => !(await runs()) && (await left()).length === 0, { what: "nothing to be left" });

    const interruption = new AbortController();
    const interrupted = said(checkAgent(await diagnosisWith(variables, { signal: interruption.signal })));
    await until(runs, { what: "the CLI to run" });
    interruption.abort();
    expect(await interrupted).toMatch(/^Error: /);
    await until(async () => !(await runs()) && (await left()).length === 0, { what: "nothing to be left" });
  },
);

test("a CLI that says that it is done and has run no command is a fault", async () => {
  const result = { type: "result", subtype: "success", is_error: false, result: "Done", session_id: "1" };
  const cli = await program(newestVersion, `read -r line; echo '${JSON.stringify(result)}'; cat >/dev/null`);
  const message = await said(checkAgent(await diagnosisWith({ SERVICE_AGENT_CLI_BINARY: cli })));
  expect(message).toMatch(/^Error: .*one turn ends well, but its command wrote nothing/);
});

test.each([
  ["2.1.196 (Claude Code)", /^Error: 2\.1\.196 \(.*\) is too old\. Install a version from 2\.1\.197 to /],
  ["Usage: agent", /^Error: .* does not tell its version: Usage: agent\. Install/],
  ["9.0.1 (Claude Code)", /^ok: 9\.0\.1 \(.*\), newer than 2\.\d+\.\d+, tried as that$/],
])("without a turn, a CLI that says it is %s: %s", async (version, message) => {
  const cli = await program(version, "exit 1");
  const request = await diagnosisWith({ SERVICE_AGENT_CLI_BINARY: cli }, { offline: true });
  expect(await said(checkAgent(request))).toMatch(message);
  expect(await left()).toEqual([]);
});
