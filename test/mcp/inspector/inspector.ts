import { z } from "zod";
import { runProgram } from "../../fake-git-host/run-program.ts";
import { compileCache } from "../../compile-cache.ts";
import { temporaryDirectory } from "../../temporary.ts";

const toolsSchema = z.object({ tools: z.array(z.looseObject({ name: z.string() })) });
const resultSchema = z.looseObject({
  isError: z.boolean().optional(),
  structuredContent: z.looseObject({ success: z.boolean() }),
});

/** The command line of the MCP inspector, with a home of its own. `target` is what it is to connect to, and how. */
export const createInspector = async (target: readonly string[]) => {
  const home = await temporaryDirectory();
  const inspect = (...args: string[]) =>
    runProgram("mcp-inspector", ["--cli", ...target, ...args], {
      cwd: home,
      env: { HOME: home, NODE_COMPILE_CACHE: compileCache },
    });
  return {
    /** All that it can use; it fails with a complaint of a schema that some clients could not use. */
    listTools: async (): Promise<string[]> => {
      const { stdout, stderr, code } = await inspect("--method", "tools/list", "--strict");
      if (code !== 0 || stderr !== "") throw new Error(`the inspector ended with ${code}: ${stderr}`);
      return toolsSchema.parse(JSON.parse(stdout)).tools.map(({ name }) => name);
    },
    callTool: async (name: string, args: Record<string, string>) => {
      const given = Object.entries(args).flatMap(([key, value]) => ["--tool-arg", `${key}=${value}`]);
      const { stdout, stderr } = await inspect("--method", "tools/call", "--tool-name", name, ...given);
      if (!stdout.startsWith("{")) throw new Error(`the inspector says: ${stdout}${stderr}`);
      return resultSchema.parse(JSON.parse(stdout));
    },
  };
};
