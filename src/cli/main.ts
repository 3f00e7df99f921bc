import { isNodeRecent } from "./node-version.ts";

if (isNodeRecent("svc")) {
  const { run } = await import("./program.ts");
  process.exitCode = await run(process.argv.slice(2));
} else process.exitCode = 1;
