import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArguments } from "./arguments.mjs";
import { createProtocol } from "./protocol.mjs";
import { findScenario, parseTask } from "./scenarios.mjs";
import { openTranscript } from "./transcript.mjs";

// Start-up time counts for the benchmarks: only what every run needs is imported here.
process.on("SIGTERM", () => process.exit(143));
process.on("SIGHUP", () => process.exit(129));

const args = parseArguments(process.argv.slice(2));
const transcript = openTranscript(args);
let lastCode = 0;

for await (const line of lines(process.stdin)) {
  const message = JSON.parse(line);
  if (message.type !== "user") continue;
  const { content } = message.message;
  const prompt = typeof content === "string" ? content : content.map((block) => block.text ?? "").join("");
  const { name, options } = parseTask(prompt);
  record(options.log ?? process.env.FAKE_AGENT_LOG, prompt);
  transcript.add("user", prompt);
  const scenario = await findScenario(name);
  const protocol = createProtocol({ session: transcript.session, model: args.model, transcript });
  if (options.dirt) writeFileSync("dirt.txt", "dirt\n");
  const init = () => {
    protocol.init();
    if (options.dirt) protocol.tool("Write", { file_path: join(process.cwd(), "dirt.txt") }, "File created");
    if (options.ms) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, options.ms);
  };
  lastCode =
    (await scenario({
      ...protocol,
      init,
      options,
      prompt,
      args,
      earlierPrompts: transcript.earlierPrompts,
    })) ?? 0;
}
// The input has ended and so has the last turn.
process.exit(lastCode);

/** Not readline, which also splits at U+2028. */
async function* lines(stream) {
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const pieces = (rest + chunk).split("\n");
    rest = pieces.pop();
    yield* pieces;
  }
}

/** Proof that an agent was given work: one line, written in one piece, before anything else is done. */
function record(file, prompt) {
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
