import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { AgentStart } from "../src/agents/agent.ts";
import { createClaudeAgent } from "../src/agents/claude/claude.ts";
import { createRedactor } from "../src/lib/redact.ts";
import { fakeLaunch, fakeSettings } from "../test/fake-agent/run.ts";
import { startFakeModel } from "../test/fake-model/fake-model.ts";
import { atMost, median, type Figure } from "./statistics.ts";
import { withDirectory } from "./workbench.ts";

const rounds = 50;

const agentCliBinary = fileURLToPath(new URL("../node_modules/.bin/claude", import.meta.url));

/**
 * What it costs that an agent can ask a person and can be told something: from the start of its process to its first delta, of the
 * real CLI with a scripted model, as a job gives it its prompt at once; against one that can do neither. Taken in turns.
 */
export const asking = (): Promise<Figure[]> =>
  withDirectory(async (directory) => {
    const model = await startFakeModel({ token: "bench-token" });
    const agent = createClaudeAgent({
      settings: {
        ...fakeSettings(directory),
        agentCliBinary,
        modelBaseUrl: model.url,
        modelAuthToken: "bench-token",
      },
      env: { PATH: process.env["PATH"] },
      redact: createRedactor(["bench-token"]),
    });
    /** Milliseconds. */
    const firstDelta = async (round: number, can: Partial<AgentStart>): Promise<number> => {
      const cwd = join(directory, `${round}-${"asks" in can ? "asking" : "silent"}`);
      await mkdir(cwd, { recursive: true });
      const id = randomUUID();
      const session = { id: randomUUID(), resumeFrom: null };
      const launch = { ...fakeLaunch(cwd), bypassPermissions: true };
      const began = performance.now();
      const started = await agent.start({
        id,
        attempt: 1,
        cwd,
        session,
        ...can,
        launch: { ...launch, args: ["--model=sonnet", "--dangerously-skip-permissions"] },
      });
      if (!started.ok) throw new Error(String(started.outcome.error));
      let first = Number.NaN;
      const turn = started.process.turn({
        content: [{ type: "text", text: "scenario: text" }],
        appendSystemPrompt: null,
        effort: null,
        timeoutSeconds: 60,
        signal: new AbortController().signal,
      });
      for await (const event of turn)
        if (event.type === "text" && Number.isNaN(first)) first = performance.now() - began;
      await started.process.end({ graceSeconds: 1 });
      return first;
    };
    const able: number[] = [];
    const silent: number[] = [];
    for (let round = -2; round < rounds; round += 1) {
      const both = [
        async () =>
          able.push(await firstDelta(round, { asks: { question: true, plan: false }, hears: true })),
        async () => silent.push(await firstDelta(round, {})),
      ];
      // Who comes second finds its files in memory.
      for (const measure of round % 2 === 0 ? both : both.toReversed()) await measure();
      if (round >= 0) continue;
      able.length = 0;
      silent.length = 0;
    }
    await model.close();
    // Of pairs: the machine is slower at some times than at others.
    const value = median(able.map((time, round) => time - (silent[round] ?? Number.NaN)));
    return [
      {
        what: "start → first delta of an agent that can ask and be told",
        ours: `${median(able).toFixed(1)} ms`,
        baseline: `${median(silent).toFixed(1)} ms, of one that can do neither`,
        value,
        unit: "ms",
        target: "at most 5 ms more, as the median of pairs",
        met: atMost(value, 5),
      },
    ];
  });
