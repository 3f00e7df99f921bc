import { appendFileSync } from "node:fs";
import { parseArguments } from "./arguments.mjs";
import { createAsking } from "./asking.mjs";
import { createControl } from "./control.mjs";
import { parseTask } from "./scenarios.mjs";
import { openTranscript } from "./transcript.mjs";
import { createTurns } from "./turns.mjs";

// Start-up time counts for the benchmarks: only what every run needs is imported here.
process.on("SIGTERM", () => process.exit(143));
process.on("SIGHUP", () => process.exit(129));

const args = parseArguments(process.argv.slice(2));
const transcript = openTranscript(args);
const asking = createAsking({ args });
const turns = createTurns({ args, transcript, record, asking });
const control = createControl({ args, turns, asking });

let rest = "";
/** Not readline, which also splits at U+2028. */
process.stdin.setEncoding("utf8").on("data", (chunk) => {
  const pieces = (rest + chunk).split("\n");
  rest = pieces.pop();
  for (const line of pieces) take(JSON.parse(line));
});
process.stdin.once("end", () => {
  asking.inputEnded();
  turns.noMore();
});
if (transcript.deferred !== null) turns.resume();

function take(message) {
  if (message.type === "control_request") return control(message);
  if (message.type === "control_response") return asking.answered(message.response);
  if (message.type === "user") return turns.add(message.message.content, message);
}

/** Proof that an agent was given work: one line, written in one piece, before anything else is done. */
function record(prompt) {
  const file = parseTask(prompt).options.log ?? process.env.FAKE_AGENT_LOG;
  if (file === undefined) return;
  const { SERVICE_JOB_ID: job, SERVICE_JOB_ATTEMPT: attempt } = process.env;
  const entry = {
    pid: process.pid,
    job,
    attempt: Number(attempt),
    at: new Date().toISOString(),
    cwd: process.cwd(),
  };
  appendFileSync(
    file,
    `${JSON.stringify({ ...entry, session: transcript.session, prompt: prompt.slice(0, 200) })}\n`,
  );
}
