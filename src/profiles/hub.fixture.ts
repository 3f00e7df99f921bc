import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createAgentPackage } from "./hub-agent.ts";

type Options = Partial<Parameters<typeof createAgentPackage>[0]["settings"]>;

/**
 * For tests: `write` takes paths relative to a directory that holds `home`, `shared` and `hub`. `makeDirectory` gives a fresh directory that is removed after the test file. The agent is
 * `writer` unless told otherwise.
 */
export const hubIn =
  (makeDirectory: () => Promise<string>) =>
  async (files: Record<string, string | Buffer> = {}, settings: Options = {}) => {
    const directory = await makeDirectory();
    const write = async (more: Record<string, string | Buffer>) => {
      for (const [path, content] of Object.entries(more)) {
        await mkdir(dirname(join(directory, path)), { recursive: true });
        await writeFile(join(directory, path), content);
      }
    };
    for (const name of ["home", "shared", "hub/agents"])
      await mkdir(join(directory, name), { recursive: true });
    await write(files);
    let time = 0;
    const agent = createAgentPackage({
      settings: {
        hubAgent: "writer",
        hubPath: join(directory, "hub"),
        sharedFsRoot: join(directory, "shared"),
        agentModeModel: "sonnet",
        agentModeMaxTurns: 80,
        agentModePermissionMode: "bypassPermissions",
        agentModeTimeout: 3600,
        ...settings,
      },
      home: join(directory, "home"),
      now: () => time,
    });
    /** Lets the time pass in which files are taken to be unchanged. */
    const wait = () => void (time += 1000);
    return { agent, directory, write, wait };
  };

/** Path of a file of the agent `writer`. */
export const writer = (path: string): string => `hub/agents/writer/${path}`;

export const processId = "5e0b1f6a-0f5c-4a5e-9a52-2f6f0c9d7b11";

export const process = {
  processId,
  cwd: "/",
  model: null,
  maxTurns: null,
  disabledMcpServers: [] as readonly string[],
};
