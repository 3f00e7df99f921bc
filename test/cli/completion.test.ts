import { execFile } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { compileCache } from "../compile-cache.ts";
import { svcProgram } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { svc } from "./run-svc.ts";
import { sampleJob } from "./sample-job.ts";
import { sampleWorktree } from "./sample-worktree.ts";
import { json, stubService, type Stub } from "./stub-service.ts";

const profile = { name: "review", description: "Reads and comments" };
const jobs = [
  sampleJob({ id: "6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d", task: "Fix: the\u001b[2J date\ntest" }),
  sampleJob({ id: "c5c1d0de-0000-4000-8000-000000000001", status: "running", task: "日本語" }),
];

let stub: Stub;
let directory: string;
let environment: Record<string, string>;
beforeAll(async () => {
  stub = await stubService({
    "GET /jobs": json(200, { success: true, count: 2, jobs, next_cursor: null }),
    "GET /profiles": json(200, {
      success: true,
      count: 2,
      profiles: [profile, { ...profile, name: "$(reboot)" }],
    }),
    "GET /worktrees": json(200, { success: true, count: 1, worktrees: [sampleWorktree()] }),
  });
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
    SERVICE_PORT: String(stub.port),
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
const typed: [text: string, tabs: number, seen: (shell: string) => RegExp][] = [
  ["svc dif", 1, () => /> svc diff $/m],
  ["svc worktrees prep", 1, () => /> svc worktrees prepare $/m],
  ["bridge sess", 1, () => /> bridge sessions $/m],
  ["svc jobs --status=ru", 1, () => /> svc jobs --status=running $/m],
  ["svc jobs --fai", 1, () => /> svc jobs --failed $/m],
  ["svc run -p rev", 1, () => /> svc run -p review $/m],
  ["svc run x --worktree-id 0", 1, () => /> svc run x --worktree-id 0b8e7c4d $/m],
  ["svc run --file fi", 1, () => /> svc run --file fig\.png $/m],
  ["svc init-shared-fs --shared-root f", 1, () => /> svc init-shared-fs --shared-root fruit\/$/m],
  ["svc job 6f", 1, () => /> svc job 6f1c1a52 $/m],
  [
    "svc job ",
    2,
    (shell) =>
      shell === "bash"
        ? /latest +6f1c1a52 +c5c1d0de/
        : /6f1c1a52 .*queued: Fix: the date test[^]*c5c1d0de .*running: 日本語/,
  ],
];

describe.each(Object.keys(shells) as (keyof typeof shells)[])("in %s", (shell) => {
  test.concurrent("Tab completes commands, options, choices, files, and what the service knows", async () => {
    await tmux("new-session", "-d", "-s", shell, "-c", directory, "-x", "100", "-y", "40", shells[shell]);
    const type = (...keys: string[]): Promise<string> => tmux("send-keys", "-t", shell, ...keys);
    const screen = (): Promise<string> => tmux("capture-pane", "-p", "-N", "-t", shell);
    await until(async () => (await screen()).trim() !== "");
    await type("-l", `${setUp[shell]}\n`);
    await until(async () => /^READY> *$/m.test(await screen()));
    for (const [text, tabs, seen] of typed) {
      // On a busy machine the service may answer too late for one Tab.
      await until(async () => {
        await type("C-u", "C-l");
        await type("-l", text);
        await type(...Array<string>(tabs).fill("Tab"));
        return until(async () => seen(shell).test(await screen()), { seconds: 4, what: await screen() });
      });
    }
  });
});

describe("where the service cannot be asked", () => {
  test.concurrent.each([
    ["nothing listens", { SERVICE_PORT: "1" }],
    ["the settings are wrong", { SERVICE_PORT: "x" }],
  ])("because %s, nothing is offered and nothing said", async (_, env) => {
    const { code, stdout, stderr } = await svc(["__complete", "fish", "--", "job", ""], { env });
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "", stderr: "" });
  });

  test("because it does not answer, Tab is given up soon", async () => {
    const { port, requests } = await stubService({ "GET /jobs": () => undefined });
    const env = { SERVICE_PORT: String(port) };
    const { code, stdout, stderr } = await svc(["__complete", "zsh", "--", "job", ""], { env });
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(requests).toHaveLength(1);
  });
});

test("a name that a shell would run is not offered, and a task cannot move the cursor", async () => {
  const offered = async (...words: string[]): Promise<string> =>
    (await svc(["__complete", "fish", "--", ...words, ""], { env: environment })).stdout;
  expect(await offered("run", "--profile")).toBe("review\tReads and comments\n");
  expect(await offered("job")).toContain("6f1c1a52\tqueued: Fix: the date test\n");
});

test("what follows an option or -- is no command", async () => {
  const offered = async (...words: string[]): Promise<string[]> =>
    (await svc(["__complete", "bash", "--", ...words], { env: environment })).stdout.trim().split("\n");
  expect(await offered("jobs", "--search", "run", "--wat")).toEqual(["--watch"]);
  expect(await offered("run", "--", "--wa")).toEqual([""]);
  expect(await offered("cancel", "6f1c", "6")).toEqual([""]);
  expect(await offered("wait", "6f1c", "c5")).toEqual(["c5c1d0de"]);
  expect(stub.requests.at(-1)?.url).toContain("status=active");
});
