import { execFile } from "node:child_process";

export type ProgramResult = { code: number | string; stdout: string; stderr: string };

/** Runs a program in an environment made from nothing; never rejects, at most `seconds` long. */
export const runProgram = (
  command: string,
  args: string[],
  { cwd, env, seconds = 50 }: { cwd: string; env: NodeJS.ProcessEnv; seconds?: number },
): Promise<ProgramResult> =>
  new Promise((resolve) => {
    const options = {
      cwd,
      env: { PATH: process.env["PATH"], HOME: cwd, LANG: "C.UTF-8", ...env },
      timeout: seconds * 1000,
      maxBuffer: 64 * 1024 * 1024,
    };
    const child = execFile(command, args, options, (error, stdout, stderr) =>
      resolve({ code: error ? (error.code ?? error.signal ?? "unknown") : 0, stdout, stderr }),
    );
    child.stdin?.end();
  });
