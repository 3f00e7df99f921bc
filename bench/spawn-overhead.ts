import { spawn } from "node:child_process";
import { chmod, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { git, makeRemoteIn } from "../test/remote.ts";
import { fakeAgent } from "../test/service-process.ts";
import { until } from "../test/until.ts";
import { atMost, median, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const rounds = 40;

/**
 * From the submission to the start of the agent's process, warm cache, 1,000 files; against `git fetch`, `git worktree add`
 * and spawning the same program by hand. Taken in turns, so that both see the same machine. The program notes its start.
 */
export const spawnOverhead = (): Promise<Figure[]> =>
  withDirectory(async (directory) => {
    const files = Object.fromEntries(
      Array.from({ length: 1000 }, (_, n) => [`src/${n % 20}/file-${n}.txt`, `${n}\n`.repeat(40)]),
    );
    const remote = await makeRemoteIn(directory, files);
    const agent = join(directory, "noting-agent");
    const started = join(directory, "started");
    await writeFile(
      agent,
      `#!/bin/sh\ndate +%s%N > ${started}.new && mv ${started}.new ${started}\nexec ${fakeAgent} "$@"\n`,
    );
    await chmod(agent, 0o755);
    const byHand = join(directory, "by-hand.git");
    await git(directory, "clone", "--quiet", "--bare", remote.path, byHand);
    await git(byHand, "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*");
    const sinceEpoch = (): number => performance.timeOrigin + performance.now();
    const startOf = async (): Promise<number> => {
      const text = await until(() => readFile(started, "utf8").catch(() => ""), {
        what: "the agent to start",
      });
      await rm(started);
      return Number(BigInt(text.trim()) / 1000n) / 1000;
    };

    return await withService(directory, { SERVICE_AGENT_CLI_BINARY: agent }, async (service) => {
      const ours: number[] = [];
      const hand: number[] = [];
      for (let round = -3; round < rounds; round += 1) {
        const submitted = sinceEpoch();
        const { job } = await service.client.run_task({ task: "scenario: noop", repo_url: remote.path });
        const ourTime = (await startOf()) - submitted;
        await until(async () => (await service.client.get_job({ job_id: job.id })).job.ended_at !== null);

        const begun = sinceEpoch();
        const worktree = join(directory, `hand-${round}`);
        await git(byHand, "fetch", "--quiet", "origin");
        await git(
          byHand,
          "worktree",
          "add",
          "--quiet",
          "--no-track",
          "-b",
          `hand-${round}`,
          worktree,
          "origin/main",
        );
        const child = spawn(agent, [], {
          cwd: worktree,
          stdio: ["pipe", "ignore", "ignore"],
          detached: true,
        });
        const handTime = (await startOf()) - begun;
        child.stdin.end();
        await new Promise((resolve) => child.once("exit", resolve));
        if (round < 0) continue;
        ours.push(ourTime);
        hand.push(handTime);
      }
      const value = median(ours) / median(hand);
      return [
        {
          what: "submit → agent process started, warm cache, 1,000 files",
          ours: `${median(ours).toFixed(1)} ms`,
          baseline: `${median(hand).toFixed(1)} ms (fetch, worktree add, spawn by hand)`,
          value,
          unit: "x",
          target: "≤ 1.0 ×",
          met: atMost(value, 1),
        },
      ];
    });
  });
