import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runProgram } from "../../fake-git-host/run-program.ts";
import { bridgeProgram } from "../../bridge/run-bridge.ts";
import { compileCache } from "../../compile-cache.ts";
import { fakeAgent, svcProgram } from "../../service.ts";
import { temporaryDirectory } from "../../temporary.ts";

/** The real Claude Code of a user who has just installed it: with a home of its own, and `svc` and `bridge` on the PATH. */
export const newUser = async (env: Record<string, string> = {}) => {
  const home = await temporaryDirectory();
  const programs = join(home, "bin");
  await mkdir(programs);
  const variables = `SERVICE_AGENT_CLI_BINARY='${fakeAgent}' SERVICE_ALLOW_NO_MODEL_CREDENTIAL=true SERVICE_OTEL_ENABLED=false NODE_COMPILE_CACHE='${compileCache}'`;
  for (const [name, program] of Object.entries({
    svc: svcProgram,
    bridge: [process.execPath, bridgeProgram],
  })) {
    const command = program.map((word) => `'${word}'`).join(" ");
    await writeFile(join(programs, name), `#!/bin/sh\n${variables} exec ${command} "$@"\n`, { mode: 0o755 });
  }
  const options = {
    cwd: home,
    env: {
      PATH: `${programs}:${process.env["PATH"]}`,
      HOME: home,
      CLAUDE_CONFIG_DIR: join(home, ".claude"),
      DISABLE_AUTOUPDATER: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      // However slow the machine is: the model is asked when the service is connected, not before.
      MCP_CONNECTION_NONBLOCKING: "0",
      MCP_CONNECT_TIMEOUT_MS: "40000",
      MCP_TIMEOUT: "40000",
      ...env,
    },
  };
  return {
    home,
    options,
    /** A line as it is typed into a shell. */
    type: (line: string) => runProgram("sh", ["-c", line], options),
    claude: (...args: string[]) => runProgram("claude", args, options),
  };
};
