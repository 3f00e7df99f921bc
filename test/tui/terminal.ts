import { execFile, spawnSync } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { shellWord } from "../../src/view/sanitise.ts";
import { afterFile } from "../cleanup.ts";
import { compileCache } from "../compile-cache.ts";
import { svcProgram } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

const run = promisify(execFile);

export type Terminal = {
  /** Keys as tmux calls them; other words are typed. */
  press: (...keys: string[]) => Promise<void>;
  type: (text: string) => Promise<void>;
  /** What stands on the screen; with `escapes` also its colours. */
  screen: (escapes?: boolean) => Promise<string>;
  /** Waits until the screen has all of these, and returns it. */
  shows: (...texts: string[]) => Promise<string>;
  resize: (columns: number, rows: number) => Promise<void>;
  /** A value of tmux about the pane, as `alternate_on`. */
  ask: (variable: string) => Promise<string>;
};

type Options = {
  columns?: number;
  rows?: number;
  env?: Record<string, string>;
  /** Shell commands around the program, which is `"$@"`. */
  script?: string;
};

export type Tmux = {
  directory: string;
  open: (options?: Options) => Promise<Terminal>;
};

/** Terminals for a test file, in which `svc agents` runs. */
export const startTmux = async (base: Record<string, string> = {}): Promise<Tmux> => {
  const directory = await temporaryDirectory();
  const bin = join(directory, "bin");
  await mkdir(bin);
  await writeFile(join(bin, "kubectl"), "#!/bin/sh\necho 'error: current-context is not set' >&2\nexit 1\n");
  await chmod(join(bin, "kubectl"), 0o755);
  const environment = {
    PATH: `${bin}:${process.env["PATH"] ?? ""}`,
    HOME: directory,
    LANG: "C.UTF-8",
    NODE_COMPILE_CACHE: compileCache,
    ...base,
  };
  const socket = ["-S", join(directory, "tmux"), "-f", "/dev/null"];
  // The stand-ins for services answer meanwhile.
  const tmux = async (...args: string[]): Promise<string> =>
    (await run("tmux", [...socket, ...args], { env: environment })).stdout;
  afterFile(() => void spawnSync("tmux", [...socket, "kill-server"]));
  let count = 0;

  return {
    directory,
    open: async ({ columns = 80, rows = 24, env = {}, script = '"$@"; sleep 600' } = {}) => {
      const name = `s${(count += 1)}`;
      const settings = Object.entries(env).flatMap(([key, value]) => ["-e", `${key}=${value}`]);
      const program = [...svcProgram, "agents"].map(shellWord).join(" ");
      const command = `set -- ${program}; ${script}`;
      const size = ["-x", String(columns), "-y", String(rows)];
      await tmux("new-session", "-d", "-s", name, ...size, ...settings, "sh", "-c", command);
      const screen = async (escapes = false): Promise<string> =>
        (await tmux("capture-pane", "-p", ...(escapes ? ["-e"] : []), "-t", name)).trimEnd();
      const shows = (...texts: string[]): Promise<string> =>
        until(
          async () => {
            const seen = await screen();
            const missing = texts.filter((text) => !seen.includes(text));
            if (missing.length > 0) throw new Error(`not on the screen: ${missing.join(", ")}\n${seen}`);
            return seen;
          },
          { what: texts.join(", ") },
        );
      return {
        screen,
        shows,
        press: async (...keys) => void (await tmux("send-keys", "-t", name, ...keys)),
        type: async (text) => void (await tmux("send-keys", "-t", name, "-l", text)),
        resize: async (width, height) =>
          void (await tmux("resize-window", "-t", name, "-x", String(width), "-y", String(height))),
        ask: async (variable) => (await tmux("display-message", "-p", "-t", name, `#{${variable}}`)).trim(),
      };
    },
  };
};
