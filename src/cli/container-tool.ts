import { spawn } from "node:child_process";
import { once } from "node:events";
import { stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { findExecutable } from "../lib/process/executable.ts";
import { CliError, exitCode, usageError } from "./failure.ts";
import { catchInterruption } from "./interruption.ts";

/** Path of docker, or of podman where there is no docker. @throws CliError where there is neither */
export const findContainerTool = async (): Promise<string> => {
  for (const name of ["docker", "podman"]) {
    const found = await findExecutable(name, process.env["PATH"] ?? "");
    if (found.ok) return found.path;
  }
  const how = "install one (apt install podman, or https://docs.docker.com/engine/install)";
  throw new CliError(`Neither docker nor podman is on the PATH: ${how}`);
};

/** `notes`: standard output goes to standard error; `pipe`: it is collected. */
type Call = { stdout?: "inherit" | "notes" | "pipe"; env?: NodeJS.ProcessEnv };

/** Runs the tool on the user's terminal; resolves to its exit code. @throws CliError when a signal interrupts it */
export const runTool = async (
  tool: string,
  args: readonly string[],
  { stdout = "inherit", env = process.env }: Call = {},
): Promise<{ code: number; output: string }> => {
  using interruption = catchInterruption();
  const { signal } = interruption;
  const child = spawn(tool, args, { env, stdio: ["inherit", stdout === "notes" ? 2 : stdout, "inherit"] });
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
  signal.addEventListener("abort", () => {
    const name = interruption.signalName() ?? "SIGTERM";
    // A terminal sends Ctrl-C to both.
    if (name !== "SIGINT" || !process.stdin.isTTY) child.kill(name);
  });
  const [code] = (await once(child, "close")) as [number | null];
  if (signal.aborted) throw new CliError(`${basename(tool)} was interrupted`, { exit: interruption.exit() });
  return { code: code ?? exitCode.failure, output };
};

/** As `runTool`; resolves to the collected output. @throws CliError when the tool fails; it has said why itself */
export const requireTool = async (tool: string, args: readonly string[], call?: Call): Promise<string> => {
  const { code, output } = await runTool(tool, args, call);
  if (code !== 0) throw new CliError(`${basename(tool)} ${args[0]} failed with exit code ${code}`);
  return output;
};

type Build = { reference: string; file?: string | undefined; cache?: boolean };

/** Builds the image from the checkout around the working directory. `file`: instead of the checkout's own build file. */
export const buildImage = async (tool: string, { reference, file, cache = true }: Build): Promise<void> => {
  const own = await findUpwards([containerfile]);
  if (own === null)
    throw usageError(
      `The image is built from a checkout of svc, and ${process.cwd()} is in none (no ${containerfile}): change to one`,
    );
  const chosen = file === undefined ? own : resolve(file);
  if (!(await isFile(chosen))) throw usageError(`--file: there is no file ${chosen}`);
  const options = ["--file", chosen, "--tag", reference, ...(cache ? [] : ["--no-cache"])];
  // Without it podman leaves out the health check.
  const env = { ...process.env, BUILDAH_FORMAT: "docker" };
  await requireTool(tool, ["build", ...options, resolve(own, "../../..")], { stdout: "notes", env });
};

/** What `svc agent` builds and runs. */
export const image = "svc:latest";
export const container = "svc";

const containerfile = "deploy/container/Containerfile";

/** The first of these files in the working directory or above it, in at most so many directories; null: none is there. */
export const findUpwards = async (names: readonly string[], levels = Infinity): Promise<string | null> => {
  let directory = process.cwd();
  for (let level = 1; ; level++) {
    for (const name of names) if (await isFile(join(directory, name))) return join(directory, name);
    if (level >= levels || directory === dirname(directory)) return null;
    directory = dirname(directory);
  }
};

export const isFile = (path: string): Promise<boolean> =>
  stat(path).then(
    (status) => status.isFile(),
    () => false,
  );

/** `.env` in the working directory or above it, else in the home directory; null: there is none. */
export const findEnvFile = async (): Promise<string | null> => {
  const ofHome = join(homedir(), ".env");
  return (await findUpwards([".env"])) ?? ((await isFile(ofHome)) ? ofHome : null);
};

/** Of the container, as in `Up 2 hours`; null: there is none. */
export const statusOf = async (tool: string): Promise<string | null> => {
  const args = ["ps", "--all", "--filter", `name=^${container}$`, "--format", "{{.Status}}"];
  return (await requireTool(tool, args, { stdout: "pipe" })).trim() || null;
};
