import { spawn, spawnSync } from "node:child_process";

const { stdout } = process;

const enter = "\u001b[?1049h\u001b[2J\u001b[H";
const leave = "\u001b[?25h\u001b[?1049l";

/** The terminal's alternate screen, until disposed of or the process ends. */
export const enterFullScreen = (): Disposable => {
  const guard = startGuard();
  stdout.write(enter);
  const restore = (): void => {
    process.removeListener("exit", restore);
    guard();
    stdout.write(leave);
  };
  process.on("exit", restore);
  return { [Symbol.dispose]: restore };
};

/**
 * A killed process restores nothing: a shell waits for the end of its standard input, which is the end of this process,
 * and restores the terminal.
 * @returns what ends it
 */
const startGuard = (): (() => void) => {
  const modes = spawnSync("stty", ["-g"], { stdio: ["inherit", "pipe", "ignore"], encoding: "utf8" });
  const script = `read -r _; printf '\\033[?25h\\033[?1049l'; stty "$0" <&1`;
  // In a session of its own, it survives what is sent to this process group.
  const child = spawn("sh", ["-c", script, String(modes.stdout).trim()], {
    stdio: ["pipe", "inherit", "ignore"],
    detached: true,
  });
  // Without a shell there is no guard.
  child.on("error", () => undefined);
  child.unref();
  return () => child.kill("SIGKILL");
};

/** Standard output for Ink, which may not erase what the terminal has scrolled out of sight. */
export const inkOutput = (): NodeJS.WriteStream =>
  new Proxy(stdout, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (name === "write")
        return (text: string, ...rest: []) => target.write(text.replaceAll("\u001b[3J", ""), ...rest);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
