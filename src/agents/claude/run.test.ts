import { execFileSync } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { AgentEvent } from "../../contract/event.ts";
import { expectTidy, runFake, type FakeRun } from "../../../test/fake-agent/run.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { until } from "../../../test/until.ts";

const warnings = (run: FakeRun): string[] =>
  run.events.flatMap((event) => (event.type === "warning" ? [event.message] : []));

const textOf = (events: AgentEvent[], type: "text" | "thinking"): string =>
  events.map((event) => (event.type === type ? event.text : "")).join("");

describe("a good run", () => {
  test("writes, commits and reports in order: started, thinking, tools, text, result, exited", async () => {
    const directory = await temporaryDirectory();
    execFileSync("git", ["init", "--quiet", directory]);
    const run = await runFake("Please write the file", { directory });
    expectTidy(run);
    expect(run.outcome).toMatchObject({
      ok: true,
      reason: null,
      retryable: false,
      text: "Done: agent-output.txt is committed.",
      error: null,
      exitCode: 0,
      model: "fake-sonnet",
      costUsd: 0.0123,
      usage: {
        input_tokens: 100,
        output_tokens: 20,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 7,
      },
    });
    expect(run.events[0]).toMatchObject({ type: "started", agent_version: "2.1.197" });
    const kinds = run.events.map((event) => event.type).filter((type, at, all) => type !== all[at - 1]);
    expect(kinds).toEqual(
      "started thinking block_end usage tool_use tool_result tool_use tool_result text block_end usage result exited".split(
        " ",
      ),
    );
    expect(textOf(run.events, "thinking")).toBe("I will write a file and commit it.");
    expect(textOf(run.events, "text")).toBe("Done: agent-output.txt is committed.");
    expect(execFileSync("git", ["-C", directory, "log", "--format=%s"], { encoding: "utf8" })).toBe(
      "Do the task\n",
    );
  });

  test("gives the agent its prompt only once the spawn is recorded", async () => {
    const directory = await temporaryDirectory();
    const log = join(directory, "log");
    let before = "";
    const run = await runFake(`scenario: noop {"log": "${log}"}`, {
      directory,
      onReady: async (identity) => {
        // It is up, and has nothing to read yet.
        await until(async () => (await readlink(`/proc/${identity.pid}/exe`)).endsWith("node"));
        await until(async () => /^State:\s+S/m.test(await readFile(`/proc/${identity.pid}/status`, "utf8")));
        before = await readFile(log, "utf8").catch(() => `nothing, pid ${identity.pid}`);
      },
    });
    const entry: unknown = JSON.parse(await readFile(log, "utf8"));
    expect(entry).toMatchObject({ job: run.jobId, attempt: 1, cwd: directory });
    expect(before).toBe(`nothing, pid ${(entry as { pid: number }).pid}`);
  });
});

describe("a bad end", () => {
  const failures: [task: string, expected: Partial<FakeRun["outcome"]>, error: RegExp][] = [
    ["error-result", { reason: "agent_error", exitCode: 0 }, /I failed, whatever my exit code says/],
    [
      'exit-without-result {"code": 2, "stderr": "boom"}',
      { reason: "agent_exit", exitCode: 2, retryable: false },
      /boom/,
    ],
    ["cut-65536", { reason: "agent_exit", exitCode: 0, retryable: true }, /after 65536 bytes/],
    ['die {"signal": "SIGKILL"}', { reason: "agent_exit", exitCode: null, retryable: true }, /SIGKILL/],
    ["close-stdout", { reason: "agent_exit", exitCode: 0 }, /without giving a result/],
    ["auth-error", { reason: "auth", retryable: false }, /AGENT_CLI_OAUTH_TOKEN.*ANTHROPIC_API_KEY/],
    [
      'api-error {"status": null}',
      { reason: "api_error", retryable: true },
      /could not be reached at its provider \(MODEL_API_BASE_URL\)\.\nWhat to do: Check that address[^]*Connection refused/,
    ],
    ["work-after-result", { reason: "api_error", retryable: true }, /status 500/],
  ];

  test.for(failures)("%s", async ([task, expected, error]) => {
    const run = await runFake(`scenario: ${task}`, { directory: await temporaryDirectory() });
    expectTidy(run);
    expect(run.outcome).toMatchObject({ ok: false, ...expected });
    expect(run.outcome.error).toMatch(error);
  });
});

describe("a good result that is followed by", () => {
  test.for<[string, number | null, RegExp]>([
    ["exit-nonzero-after-result", 3, /exited with code 3 after a good result/],
    ['die {"afterResult": true}', null, /killed by SIGKILL after a good result/],
    ["false-second-result", 1, /error of its shutdown/],
  ])("%s is a success with a warning", async ([task, exitCode, warning]) => {
    const run = await runFake(`scenario: ${task}`, { directory: await temporaryDirectory() });
    expectTidy(run);
    expect(run.outcome).toMatchObject({ ok: true, reason: null, exitCode: exitCode });
    expect(warnings(run).join("\n")).toMatch(warning);
    expect(run.events.filter((event) => event.type === "result")).toHaveLength(1);
  });

  test("silence is ended after the grace and stays a success", async () => {
    const run = await runFake("scenario: hang-after-result", {
      directory: await temporaryDirectory(),
      settings: { agentCliResultGrace: 0.2 },
    });
    expectTidy(run);
    expect(run.outcome).toMatchObject({ ok: true, text: "All done, but I stay." });
    expect(warnings(run)).toEqual([expect.stringContaining("did not exit after its result")]);
  });
});
