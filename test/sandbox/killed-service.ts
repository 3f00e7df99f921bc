import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { jobVariable } from "../../src/lib/process/marker.ts";
import { supervise } from "../../src/lib/process/supervise.ts";
import { createSandbox } from "../../src/sandbox/sandbox.ts";
import { allowedOnly } from "./allowed-only.ts";

/**
 * A service with one sandboxed agent, whose processes carry the mark that its argument gives. Prints `{pid}` of bubblewrap
 * when all of the agent's processes run, and `{said, survivors}` when they have ended. TERM and INT stop the agent. With
 * `starting` after the mark it starts one agent after the other until it is killed, and prints a line when it has begun.
 */
const cwd = join(process.env["STAGE"] ?? "", "own");
const path = "/usr/bin:/bin";
const tell = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

writeFileSync(
  join(cwd, "agent.sh"),
  `trap 'echo last words; exit 0' TERM
   setsid nohup sh -c 'echo running; exec sleep 1000' &
   sh -c "trap '' TERM INT HUP; echo running; exec sleep 1000" &
   sleep 1000 & echo running; wait`,
);
const { sandbox } = await createSandbox("bwrap");
const entered = await sandbox.enter({
  command: "sh",
  path,
  home: "/home/agent",
  cwd,
  writable: [],
  readable: [],
  routes: [],
  allowed: allowedOnly(),
  onDenied: () => undefined,
});
if (entered === null) throw new Error("there is no sandbox");
const start = () =>
  supervise({
    command: "sh",
    args: ["agent.sh"],
    cwd,
    env: { PATH: path, ...entered.env },
    marker: { name: jobVariable, value: process.argv[2] ?? "" },
    box: entered.box,
    stdin: "",
  });
if (process.argv[3] === "starting") {
  setInterval(() => void start(), 4);
  tell({ pid: process.pid });
}
const started = await start();
if (!started.ok) throw new Error(started.message);
const agent = started.process;
let said = "";
for (const stream of [agent.stdout, agent.stderr])
  stream.on("data", (piece: Buffer) => {
    const before = said.split("running").length;
    said += piece.toString();
    if (before < 4 && said.split("running").length === 4) tell({ pid: agent.pid });
  });
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => void agent.stop({ graceSeconds: 20 }));
const { survivors } = await agent.ended;
tell({ said, survivors });
await entered[Symbol.asyncDispose]();
