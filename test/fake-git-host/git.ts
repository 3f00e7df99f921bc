import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

/** Environment of the host's own git: nothing of the machine's configuration. */
export const gitEnvironment = (): NodeJS.ProcessEnv => ({
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
});

export const git = async (
  args: string[],
  { cwd, input = "" }: { cwd: string; input?: string },
): Promise<{ code: number; stdout: string }> => {
  const child = spawn("git", args, { cwd, env: gitEnvironment(), stdio: ["pipe", "pipe", "ignore"] });
  const ended = new Promise<number>((resolve, reject) =>
    child.once("error", reject).once("close", (code) => resolve(code ?? 255)),
  );
  // A git that ends before it has read everything is judged by its exit code.
  child.stdin.on("error", () => {}).end(input);
  const [stdout, code] = await Promise.all([text(child.stdout), ended]);
  return { code, stdout };
};
