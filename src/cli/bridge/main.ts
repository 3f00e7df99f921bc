import { keepMemorySteady } from "../../lib/steady-memory.ts";
import { isNodeRecent } from "../node-version.ts";

if (isNodeRecent("bridge")) {
  keepMemorySteady();
  const { runProgram } = await import("../run-program.ts");
  const load = async () => (await import("./program.ts")).createProgram;
  process.exitCode = await runProgram("bridge", load, process.argv.slice(2));
} else process.exitCode = 1;
