import { keepMemorySteady } from "../lib/steady-memory.ts";
import { isNodeRecent } from "./node-version.ts";

if (isNodeRecent("svc")) {
  // Other commands end before it matters, and a start is a twentieth slower with it.
  if (process.argv[2] === "serve") keepMemorySteady();
  const { runProgram } = await import("./run-program.ts");
  const load = async () => (await import("./commands.ts")).createProgram;
  process.exitCode = await runProgram("svc", load, process.argv.slice(2));
} else process.exitCode = 1;
