import { execFile } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { compileCache } from "../compile-cache.ts";
import { svcProgram } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

let directory: string;
let environment: Record<string, string>;
beforeAll(async () => {
  directory = await temporaryDirectory();
  afterFile(() => tmux("kill-server"));
  const bin = join(directory, "bin");
  await mkdir(join(directory, "fruit"), { recursive: true });
  await writeFile(join(directory, "fig.png"), "");
  await mkdir(bin);
  for (const [name, program] of [
    ["svc", svcProgram[1]],
    ["bridge", process.env["TEST_BRIDGE"] ?? ""],
  ] as const) {
    await writeFile(join(bin, name), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`);
    await chmod(join(bin, name), 0o755);
  }
  environment = {
    PATH: `${bin}:${process.env["PATH"]}`,
    HOME: directory,
    LANG: "C.UTF-8",
    TERM: "xterm",
    NODE_COMPILE_CACHE: compileCache,
  };
});

const run = promisify(execFile);

const tmux = async (...args: string[]): Promise<string> =>
  (await run("tmux", ["-S", join(directory, "tmux"), "-f", "/dev/null", ...args], { env: environment }))
    .stdout;

const shells = {
  bash: "bash --norc --noprofile",
  zsh: "zsh -f",
  fish: "fish --no-config",
};
const setUp = {
  bash: "PS1='READY> '; source <(svc completion bash); source <(bridge completion bash)",
  zsh: "PS1='READY> '; autoload -U compinit; compinit -u -D; source <(svc completion zsh); source <(bridge completion zsh)",
  fish: "function fish_prompt; echo 'READY> '; end; svc completion fish | source; bridge completion fish | source",
};

/** Types this into the shell and presses Tab, twice for what bash only lists then. */
const typed: [text: string, tabs: number, seen: RegExp][] = [
  ["svc dif", 1, /> svc diff $/m],
  ["svc worktrees prep", 1, /> svc worktrees prepare $/m],
  ["bridge sess", 1, /> bridge sessions $/m],
  ["svc jobs --status ru", 1, /> svc jobs --status running $/m],
  ["svc jobs --fai", 1, /> svc jobs --failed $/m],
  ["svc usage --by rep", 1, /> svc usage --by repository $/m],
  ["svc visibility fin", 1, /> svc visibility final=o/m],
  ["svc run --file fi", 1, /> svc run --file fig\.png $/m],
  ["svc init-shared-fs --shared-root fr", 1, /> svc init-shared-fs --shared-root fruit\/$/m],
  ["svc run jobs --wor", 1, /> svc run jobs --worktree-id $/m],
];

describe.each(Object.keys(shells) as (keyof typeof shells)[])("in %s", (shell) => {
  test.concurrent("Tab completes commands, options, choices and files", async () => {
    await tmux("new-session", "-d", "-s", shell, "-c", directory, "-x", "100", "-y", "40", shells[shell]);
    const type = (...keys: string[]): Promise<string> => tmux("send-keys", "-t", shell, ...keys);
    const screen = (): Promise<string> => tmux("capture-pane", "-p", "-N", "-t", shell);
    await until(async () => (await screen()).trim() !== "");
    await type("-l", `${setUp[shell]}\n`);
    await until(async () => /^READY> *$/m.test(await screen()));
    for (const [text, tabs, seen] of typed) {
      await until(async () => {
        await type("C-u", "C-l");
        await type("-l", text);
        await type(...Array<string>(tabs).fill("Tab"));
        return until(async () => seen.test(await screen()), { seconds: 4, what: await screen() });
      });
    }
  });
});
