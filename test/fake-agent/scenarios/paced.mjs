import { execFileSync, spawn } from "node:child_process";
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/**
 * Writes a file every `ms`, `steps` times, and commits every second one. Notes each step in the log after it is done: what
 * is noted must never be lost, whenever the agent or the service is killed. With `linger` it leaves a process in a session of
 * its own that does not hear of its end; with `own` its files carry the job and the attempt in their names. With `until` it goes on
 * until there is a file of that name, however many steps that takes.
 */
export const paced = async ({ options, init, say, tool, result }) => {
  const { steps = 4, ms = 60 } = options;
  init();
  say("Step by step.");
  if (options.linger)
    spawn("/bin/sh", ["-c", "trap '' TERM; while :; do sleep 1; done"], { stdio: "ignore", detached: true });
  const { SERVICE_JOB_ID: job = "", SERVICE_JOB_ATTEMPT: attempt } = process.env;
  const prefix = options.own ? `${job.slice(0, 8)}-${attempt}-` : "";
  const goesOn = (step) => (options.until === undefined ? step <= steps : !existsSync(options.until));
  for (let step = 1; goesOn(step); step += 1) {
    const file = `${prefix}step-${step}.txt`;
    writeFileSync(file, `step ${step}\n`);
    note({ wrote: file });
    tool("Write", { file_path: file }, "written");
    if (step % 2 === 0) {
      execFileSync("git", ["add", "--all"]);
      execFileSync("git", [
        "-c",
        "user.name=Fake Agent",
        "-c",
        "user.email=fake-agent@localhost",
        "commit",
        "--quiet",
        "-m",
        file,
      ]);
      note({ committed: execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" }).trim() });
    }
    await delay(ms);
  }
  result({ result: `${steps} steps done.` });
};

const note = (what) => {
  const { FAKE_AGENT_LOG: log, SERVICE_JOB_ID: job, SERVICE_JOB_ATTEMPT: attempt } = process.env;
  if (log === undefined) return;
  appendFileSync(log, `${JSON.stringify({ job, attempt: Number(attempt), ...what })}\n`);
};
