import { spawn } from "node:child_process";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
const graceMilliseconds = 2000;
const keptCharacters = 20_000;

/**
 * Runs a program and everything it starts in a process group of its own, quietly. A signal that would end us ends the
 * group first, then us.
 *
 * @param {string} program
 * @param {string[]} args
 * @param {(chunk: string) => void} onOutput
 * @returns {Promise<{code: number, output: string}>} the last of what it printed
 */
export const runInGroup = (program, args, onOutput = () => undefined) =>
  new Promise((resolve) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
    let output = "";
    const keep = (chunk) => {
      onOutput(chunk);
      output = (output + chunk).slice(-keptCharacters);
    };
    child.stdout.setEncoding("utf8").on("data", keep);
    child.stderr.setEncoding("utf8").on("data", keep);

    let endedBy = null;
    const end = (signal) => {
      endedBy = signal;
      killGroup(child.pid, "SIGTERM");
      setTimeout(() => killGroup(child.pid, "SIGKILL"), graceMilliseconds).unref();
    };
    for (const signal of signals) process.on(signal, end);
    const settle = (code) => {
      for (const signal of signals) process.removeListener(signal, end);
      if (endedBy !== null) process.kill(process.pid, endedBy);
      resolve({ code: code ?? 1, output });
    };
    child.once("error", (error) => {
      keep(`${error.message}\n`);
      settle(1);
    });
    child.once("close", settle);
  });

const killGroup = (pid, signal) => {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    // All of it is gone already.
    if (error.code !== "ESRCH") throw error;
  }
};
