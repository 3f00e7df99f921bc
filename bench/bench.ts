import { cpus } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { abandonedClients } from "./abandoned-clients.ts";
import { asking } from "./asking.ts";
import { chatDeltas } from "./chat-deltas.ts";
import { chatFirstWord } from "./chat-first-word.ts";
import { chatPeer } from "./chat-peer.ts";
import { chatStalled } from "./chat-stalled.ts";
import { chatStreams } from "./chat-streams.ts";
import { eventLatency } from "./event-latency.ts";
import { fleet } from "./fleet.ts";
import { manyJobs } from "./many-jobs.ts";
import { manyWorktrees } from "./many-worktrees.ts";
import { mcpCalls } from "./mcp-calls.ts";
import { memory } from "./memory.ts";
import { otlp } from "./otlp.ts";
import { page } from "./page.ts";
import { parked } from "./parked.ts";
import { parallelWorktrees } from "./parallel-worktrees.ts";
import { sandbox } from "./sandbox.ts";
import { scale } from "./scale.ts";
import { setup } from "./setup.ts";
import { spawnOverhead } from "./spawn-overhead.ts";
import { printFigures, type Figure } from "./statistics.ts";
import { transcripts } from "./transcripts.ts";
import { transcriptsIdle } from "./transcripts-idle.ts";
import { usage } from "./usage.ts";
import { walledGit } from "./walled-git.ts";
import { submissions } from "./submissions.ts";

/**
 * Every figure with its baseline in the same run. `npm run bench -- NAME…` runs only those; `--baseline DIRECTORY` names another
 * checkout for those that compare two.
 */
const benchmarks: Record<string, () => Promise<Figure[]>> = {
  spawn: spawnOverhead,
  sandbox,
  "walled-git": walledGit,
  setup,
  submissions,
  many: manyJobs,
  parked,
  asking,
  events: eventLatency,
  memory,
  worktrees: parallelWorktrees,
  "many-worktrees": manyWorktrees,
  mcp: mcpCalls,
  otlp,
  abandoned: abandonedClients,
  scale,
  fleet,
  usage,
  transcripts,
  "transcripts-idle": transcriptsIdle,
  page,
  chat: chatFirstWord,
  "chat-deltas": chatDeltas,
  "chat-streams": chatStreams,
  "chat-stalled": chatStalled,
  "chat-peer": chatPeer,
};

const { values, positionals: asked } = parseArgs({
  allowPositionals: true,
  options: { baseline: { type: "string" } },
});
if (values.baseline !== undefined) process.env["BENCH_BASELINE"] = resolve(values.baseline);
const unknown = asked.filter((name) => !(name in benchmarks));
if (unknown.length > 0) {
  process.stderr.write(
    `There is no benchmark ${unknown.join(", ")}; there are ${Object.keys(benchmarks).join(", ")}\n`,
  );
  process.exit(2);
}

process.stdout.write(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}\n`);
const figures: Figure[] = [];
for (const [name, run] of Object.entries(benchmarks)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  process.stdout.write(`${name} …\n`);
  figures.push(...(await run()));
}
printFigures(figures);
if (figures.some(({ met }) => !met)) process.exitCode = 1;
