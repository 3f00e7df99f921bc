import { runCommand } from "./command.ts";

type DiskUsage = {
  /** Names that do not count, at any depth. */
  exclude: readonly string[];
  signal: AbortSignal;
};

/**
 * Bytes that trees take on disk: allocated blocks, a file with several names once, links not followed; what is unreadable or
 * missing does not count. Uses `du`: a large tree would block this process.
 */
export const diskUsage = async (roots: string | readonly string[], { exclude, signal }: DiskUsage) => {
  const { stdout } = await runCommand({
    command: "/usr/bin/du",
    args: [
      "--summarize",
      "--block-size=1",
      ...exclude.map((name) => `--exclude=${name}`),
      "--",
      ...[roots].flat(),
    ],
    cwd: "/",
    env: { LC_ALL: "C" },
    timeoutSeconds: 3600,
    signal,
  });
  return stdout.split("\n").reduce((sum, line) => sum + (Number.parseInt(line, 10) || 0), 0);
};
