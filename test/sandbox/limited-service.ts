import { join } from "node:path";
import { supervise } from "../../src/lib/process/supervise.ts";
import { createSandbox, type SandboxMode } from "../../src/sandbox/sandbox.ts";
import { allowedOnly } from "./allowed-only.ts";

/**
 * A service on the stage that stage.ts makes: in the sandbox that its argument names, with 300 MB and 30 processes, an agent
 * takes 50 MB, then 400, and starts 60 processes. Prints `{limits, warnings, output, exceeded}`.
 */
const cwd = join(process.env["STAGE"] ?? "", "own");
const path = "/usr/bin:/bin";
const take = (megabytes: number) =>
  `perl -e 'my $all = "x" x (${megabytes} * 2**20); print "took ${megabytes}\\n"'`;
const fork = `perl -e 'my @all; for (1 .. 60) { my $pid = fork; last unless defined $pid; if (!$pid) { sleep 100; exit } push @all, $pid } print "started ", scalar @all, "\\n"; kill "KILL", @all'`;

const { sandbox } = await createSandbox(process.argv[2] as SandboxMode);
const entered = await sandbox.enter({
  command: "sh",
  path,
  home: "/home/agent",
  cwd,
  writable: [],
  readable: [],
  routes: [],
  allowed: { ...allowedOnly(), memoryBytes: 300 * 2 ** 20, processes: 30 },
  onDenied: () => undefined,
});
if (entered === null) throw new Error("no sandbox");
const started = await supervise({
  command: "sh",
  args: ["-c", `${take(50)}; ${take(400)}; ${fork}`],
  cwd,
  env: { PATH: path, ...entered.env },
  marker: { name: "SERVICE_TEST", value: `limits-${process.pid}` },
  box: entered.box,
  stdin: "",
});
if (!started.ok) throw new Error(started.message);
let output = "";
started.process.stderr.resume();
started.process.stdout.on("data", (piece: Buffer) => (output += piece.toString()));
const { exceeded } = await started.process.ended;
await entered[Symbol.asyncDispose]();
const { limits, warnings } = entered;
process.stdout.write(JSON.stringify({ limits, warnings, output, exceeded }));
process.exit();
