import { keepMemorySteady } from "../lib/steady-memory.ts";
import { isNodeRecent } from "./node-version.ts";

if (isNodeRecent("svc")) {
  keepMemorySteady();
  const { runProgram } = await import("./run-program.ts");
  const load = async () => (await import("./commands.ts")).createProgram;
  process.exitCode = await runProgram("svc", load, process.argv.slice(2));
} else process.exitCode = 1;
