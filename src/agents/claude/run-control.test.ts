import { randomUUID } from "node:crypto";
import { chmod, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { expectTidy, fakeSettings, runFake } from "../../../test/fake-agent/run.ts";
import { findMarked } from "../../../test/processes.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { until } from "../../../test/until.ts";
import { isAlive } from "../../lib/process/identity.ts";
import { createRedactor } from "../../lib/redact.ts";
import { outcomeOf } from "../agent.ts";
import { readOutput } from "./read-output.ts";
import { startTurn } from "./turn.ts";

describe("the clocks", () => {
  test("an agent that never says anything, or goes silent, is ended as stalled", async () => {
    const directory = await temporaryDirectory();
    const [mute, silent] = await Promise.all([
      runFake("scenario: hang", { directory, settings: { agentCliFirstOutputTimeout: 0.3 } }),
      runFake('scenario: hang {"after": 2}', { directory, settings: { agentCliIdleTimeout: 0.3 } }),
    ]);
    for (const run of [mute, silent]) {
      expectTidy(run);
      expect(run.outcome).toMatchObject({ reason: "stalled", retryable: true });
    }
    expect(mute.outcome.error).toContain("SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT");
    expect(silent.outcome.text).toBe("Piece 0. \nPiece 1.");
    expect(silent.outcome.error).toContain("SERVICE_AGENT_CLI_IDLE_TIMEOUT");
  });

  test.each(["control", "request", "started", "echo", "retry"])(
    "an agent that only writes about itself (%s) is ended, in a new session and in a resumed one",
    async (own) => {
      const directory = await temporaryDirectory();
      const { outcome: before } = await runFake("scenario: noop", { directory });
      const projects = join(directory, ".config-of-job", "projects");
      const [project = ""] = await readdir(projects);
      const resumed = {
        id: String(before.sessionId),
        resumeFrom: join(projects, project, `${before.sessionId}.jsonl`),
      };
      const settings = { agentCliFirstOutputTimeout: 0.5, agentCliKillGrace: 0.2 };
      const prompt = `scenario: hang ${JSON.stringify({ own })}`;
      const runs = await Promise.all([
        runFake(prompt, { directory, settings }),
        runFake(prompt, { directory, settings, start: { session: resumed, hears: true } }),
      ]);
      for (const run of runs) {
        expectTidy(run);
        expect(run.outcome).toMatchObject({ reason: "stalled", retryable: true });
        expect(run.outcome.error).toContain("SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT");
      }
    },
  );

  test("an agent that streams for ever is ended at the wall time, deaf to TERM or not", async () => {
    const directory = await temporaryDirectory();
    const settings = { agentCliKillGrace: 0.2, agentCliIdleTimeout: 0.5 };
    const launch = { timeoutSeconds: 1 };
    const runs = await Promise.all([
      runFake("scenario: sleep", { directory, settings, launch }),
      runFake("scenario: ignore-term", {
        directory,
        settings: { ...settings, agentCliIdleTimeout: 0 },
        launch,
      }),
    ]);
    for (const run of runs) {
      expectTidy(run);
      expect(run.outcome).toMatchObject({ ok: false, reason: "timeout", retryable: false });
      expect(run.outcome.error).toContain("time limit of 1 s");
    }
    expect(runs[1].events.at(-1)).toEqual({ type: "exited", exit_code: null, signal: "SIGKILL" });
  });
});

describe("an agent that repeats its result", () => {
  const endless = 'scenario: results {"every": 20}';

  test("is ended after the grace", async () => {
    const directory = await temporaryDirectory();
    const settings = { agentCliResultGrace: 0.5, agentCliKillGrace: 0.2 };
    const run = await runFake(endless, { directory, settings });
    expectTidy(run);
    expect(run.outcome).toMatchObject({ ok: true });
    expect(run.events).toContainEqual(
      expect.objectContaining({
        message: expect.stringContaining("did not exit after its result") as string,
      }),
    );
  });

  test("is ended at its time limit, if it works in between", async () => {
    const run = await runFake('scenario: results {"every": 20, "work": true}', {
      directory: await temporaryDirectory(),
      settings: { agentCliResultGrace: 30, agentCliKillGrace: 0.2 },
      launch: { timeoutSeconds: 3 },
    });
    expectTidy(run);
    expect(run.outcome).toMatchObject({ ok: true });
  });
});

describe("the caller's signal", () => {
  test("ends the run and everything it started; the events still end with exited", async () => {
    const directory = await temporaryDirectory();
    const stop = new AbortController();
    const run = await runFake('scenario: grandchildren {"deaf": true}', {
      directory,
      settings: { agentCliKillGrace: 0.2 },
      turn: { signal: stop.signal },
      onEvent: (event) => event.type === "block_end" && stop.abort(new Error("the job was cancelled")),
    });
    expectTidy(run);
    expect(run.outcome).toMatchObject({ ok: false, reason: null, retryable: false });
    expect(run.outcome.error).toBe("The run was ended by the service: the job was cancelled.");
  });

  test("aborted as a fence gives no grace", async () => {
    const stop = new AbortController();
    const run = await runFake("scenario: sleep", {
      directory: await temporaryDirectory(),
      settings: { agentCliKillGrace: 20 },
      turn: { signal: stop.signal },
      onEvent: (event) => event.type === "text" && stop.abort("fence"),
    });
    expectTidy(run);
    expect(run.outcome).toMatchObject({ ok: false, prompted: true, reason: null });
    expect(run.events.at(-1)).toMatchObject({ type: "exited", signal: "SIGKILL" });
  });

  test("already aborted: the agent is ended before it has its prompt", async () => {
    const directory = await temporaryDirectory();
    const log = join(directory, "log");
    const signal = AbortSignal.abort("cancelled");
    const run = await runFake(`scenario: noop {"log": "${log}"}`, { directory, turn: { signal } });
    expectTidy(run);
    expect(run.identity).toBeNull();
    expect(run.outcome).toMatchObject({ ok: false, prompted: false, reason: null });
    await expect(readFile(log)).rejects.toThrow("ENOENT");
  });
});

describe("what cannot start", () => {
  test.each([
    ["lives, but cannot be identified", () => Promise.reject(new Error("no fd")), "no fd"],
    [
      "has ended already",
      () => Promise.resolve(null),
      expect.objectContaining({ prompted: false, reason: "agent_exit" }) as object,
    ],
  ])("an agent that %s gets no prompt", async (_what, identify, expected) => {
    const identity = identify();
    identity.catch(() => undefined);
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const redact = createRedactor([]);
    const ignore = (): void => undefined;
    const reader = readOutput({
      stdout,
      stderr,
      redact,
      emit: ignore,
      onRequest: ignore,
      onLine: ignore,
      onChunk: ignore,
    });
    const gone = {
      exitCode: 1,
      signal: null,
      pipesHeldOpen: false,
      swept: 0,
      survivors: [],
      hidden: [],
      exceeded: null,
    };
    const turn = startTurn({
      version: null,
      turn: {
        content: [],
        appendSystemPrompt: null,
        effort: null,
        timeoutSeconds: 60,
        isLast: true,
        signal: new AbortController().signal,
      },
      settings: fakeSettings("/nowhere"),
      profile: "code",
      agent: { stdin, identity },
      end: () => turn.exited(gone),
      redact,
      observed: reader.observed(),
      beginSeconds: 0,
      spent: 0,
      onGiven: ignore,
      isWaiting: () => false,
      onInputEnd: () => undefined,
      atEnd: () => [],
    });
    const outcome = outcomeOf(turn.events("the task")).catch(({ message }: Error) => message);
    if ((await identity.catch(() => undefined)) !== undefined) turn.exited(gone);
    expect(await outcome).toEqual(expected);
    expect(stdin.read()).toBeNull();
  });

  test("an agent that dies while its spawn is recorded is reported after that", async () => {
    const order: string[] = [];
    const run = await runFake("go on", {
      directory: await temporaryDirectory(),
      start: { session: { id: randomUUID(), resumeFrom: "/nowhere/at-all.jsonl" } },
      onReady: async (identity) => {
        await until(async () => !(await isAlive(identity)));
        order.push("recorded");
      },
      onEvent: ({ type }) => order.push(type),
    });
    expectTidy(run);
    expect([order[0], order.at(-1)]).toEqual(["recorded", "exited"]);
    expect(run.outcome).toMatchObject({ reason: "agent_error", exitCode: 1 });
  });

  test("a spawn that cannot be recorded ends the agent before it has its prompt", async () => {
    const directory = await temporaryDirectory();
    const log = join(directory, "log");
    const id = randomUUID();
    const run = runFake(`scenario: noop {"log": "${log}"}`, {
      directory,
      start: { id },
      onReady: () => Promise.reject(new Error("the disk is full")),
    });
    await expect(run).rejects.toThrow("the disk is full");
    expect(await findMarked({ name: "SERVICE_JOB_ID", value: id })).toEqual([]);
    await expect(readFile(log)).rejects.toThrow("ENOENT");
  });

  test("a CLI that is missing, not executable or without its interpreter is reported by name", async () => {
    const directory = await temporaryDirectory();
    const plain = join(directory, "plain");
    const orphan = join(directory, "orphan");
    await writeFile(plain, "text");
    await writeFile(orphan, "#!/no/such/interpreter\n");
    await chmod(orphan, 0o755);
    for (const agentCliBinary of ["no-such-agent-cli", join(directory, "missing"), plain, orphan]) {
      const run = await runFake("hello", { directory, settings: { agentCliBinary } });
      expect(run.left).toEqual([]);
      expect(run.outcome).toMatchObject({ ok: false, reason: "cli_not_found", retryable: false });
      expect(run.outcome.error).toContain(agentCliBinary);
      expect(run.outcome.error).toContain("SERVICE_AGENT_CLI_BINARY");
    }
  });

  test("a missing working directory is reported", async () => {
    const directory = await temporaryDirectory();
    const run = await runFake("hello", { directory, start: { cwd: join(directory, "gone") } });
    expect(run.outcome).toMatchObject({ reason: "internal" });
    expect(run.outcome.error).toContain(join(directory, "gone"));
  });
});
