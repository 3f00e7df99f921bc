import { isNodeRecent } from "./node-version.ts";

if (isNodeRecent("svc")) {
  const [{ createProgram }, { runProgram }] = await Promise.all([
    import("./commands.ts"),
    import("./run-program.ts"),
  ]);
  process.exitCode = await runProgram("svc", createProgram, process.argv.slice(2));
} else process.exitCode = 1;
