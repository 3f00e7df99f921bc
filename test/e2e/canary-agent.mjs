#!/usr/bin/env node
// An agent that does good work and tells everybody all it can find out: its environment, its arguments, the service's
// environment, the app's key. `canary: {json}` in the task: `report` is a file for its environment, `key` a file to read
// out, `exit` a code to fail with after that.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { parseArguments } from "../fake-agent/arguments.mjs";
import { createProtocol } from "../fake-agent/protocol.mjs";
import { openTranscript } from "../fake-agent/transcript.mjs";

const args = parseArguments(process.argv.slice(2));
const transcript = openTranscript(args);
const silent = { ...transcript, add: () => {} };
const protocol = createProtocol({ session: transcript.session, model: args.model, transcript: silent });

let input = "";
for await (const chunk of process.stdin.setEncoding("utf8")) {
  input += chunk;
  if (/"type":"user".*\n/.test(input)) break;
}
const prompt = input.split("\n").find((line) => line.startsWith('{"type":"user"'));
const [{ text }] = JSON.parse(prompt).message.content;
const options = JSON.parse(/canary: (\{.*\})/.exec(text)[1]);
transcript.add("user", text);
const environ = (pid) => readFileSync(`/proc/${pid}/environ`, "utf8").replaceAll("\0", "\n");
writeFileSync(options.report, JSON.stringify({ environ: environ("self"), argv: process.argv }));

const found = [environ("self"), environ(process.ppid), process.argv.join(" ")];
if (options.key) found.push(readFileSync(options.key, "utf8"));
for (const [name, value] of Object.entries(process.env)) {
  if (!/TOKEN|KEY/.test(name)) continue;
  found.push(encodeURIComponent(value), JSON.stringify({ value }), `x${value}y`);
}
const all = found.join("\n");
protocol.init();
protocol.think(all);
protocol.tool("Bash", { command: all }, all);
process.stderr.write(`${all}\n`);
process.stdout.write(`${all}\n`);
protocol.say(all, { pieces: 400 });
if (options.exit) process.exit(options.exit);
writeFileSync("work.txt", "harmless\n");
execFileSync("git", ["add", "work.txt"]);
protocol.result({ result: all });
process.exit(0);
