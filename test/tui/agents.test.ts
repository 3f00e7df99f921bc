import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { svc } from "../cli/run-svc.ts";
import { sampleJob, sampleLog } from "../cli/sample-job.ts";
import { until } from "../until.ts";
import { sampleInstance, stubInstance, type StubInstance } from "./stub-instance.ts";
import { startTmux, type Terminal, type Tmux } from "./terminal.ts";

const many = 10_000;
const jobs = Array.from({ length: many }, (_, index) =>
  sampleJob({
    id: `${String(index).padStart(8, "0")}-0000-4000-8000-000000000001`,
    status: index < 40 ? "running" : "succeeded",
    pod_name: "build-1",
    task: `Task number ${index}`,
  }),
);

/** Twelve instances, of which one answers. */
let twelve: StubInstance;
let tmux: Tmux;
beforeAll(async () => {
  twelve = await stubInstance({
    answeredBy: "build-1",
    instances: () => Array.from({ length: 12 }, (_, index) => sampleInstance({ name: `build-${index + 1}` })),
    jobs: () => jobs,
    events: (id) => sampleLog({ type: "text", block: 1, text: `Working on ${id.slice(0, 8)}` }),
  });
  tmux = await startTmux({ SERVICE_PORT: String(twelve.port) });
});

const opened = async (terminal: Terminal): Promise<Terminal> => {
  await terminal.shows("12 instances");
  return terminal;
};

describe("keys", () => {
  test.concurrent("numbers of one and two digits, arrows and Enter choose; Escape goes back", async () => {
    const terminal = await opened(await tmux.open({ rows: 40 }));
    await terminal.press("1", "2");
    // Sorted by name: build-1, build-10, build-11, build-12, build-2 …
    await terminal.shows("build-9  orchestrator");
    await terminal.press("Escape");
    await opened(terminal);
    await terminal.press("2");
    await terminal.shows("build-10  orchestrator");
    await terminal.press("q");
    await opened(terminal);
    await terminal.press("Home", "Down", "Down", "Up", "Up", "Enter");
    await terminal.shows("build-1  orchestrator", "Submit job");
    await terminal.press("Escape");
    await opened(terminal);
    await terminal.press("0");
    await terminal.shows("Choose 1 to 12");
  });

  test.concurrent("/word filters, / alone shows all again", async () => {
    const terminal = await opened(await tmux.open({ rows: 40 }));
    await terminal.press("/", "1", "1", "Enter");
    await until(async () => !(await terminal.screen()).includes("build-9"));
    await terminal.shows("> 1  build-11", "/11");
    await terminal.press("1");
    await terminal.shows("build-11  orchestrator");
    await terminal.press("Escape");
    await terminal.shows("/11");
    await terminal.press("/", "Enter");
    await terminal.shows("build-9");
  });

  test.concurrent("the screen follows the size of the terminal", async () => {
    const terminal = await opened(await tmux.open({ rows: 40 }));
    for (const [columns, rows] of [
      [40, 10],
      [120, 30],
      [20, 5],
      [100, 24],
    ] as const) {
      await terminal.resize(columns, rows);
      await until(async () => {
        const lines = (await terminal.screen()).split("\n");
        const hints = lines.at(-1) ?? "";
        return (
          lines[0]?.startsWith("svc agents") && hints.startsWith("1-N open") && lines.length === rows - 1
        );
      });
    }
  });
});

test.concurrent("10,000 jobs: the list is there at once, keys answer at once, and few connections are open", async () => {
  const terminal = await opened(await tmux.open({ rows: 40 }));
  await terminal.press("1");
  await terminal.shows("00000000", "Working on 00000000");
  const begin = performance.now();
  await terminal.press("a");
  await terminal.shows("its running jobs", "00000002");
  const first = performance.now() - begin;
  const times: number[] = [];
  for (let index = 0; index < 5; index += 1) {
    const before = await terminal.screen();
    const pressed = performance.now();
    await terminal.press("NPage");
    await until(async () => (await terminal.screen()) !== before);
    times.push(performance.now() - pressed);
  }
  await terminal.press("End");
  await until(async () => {
    await terminal.press("End");
    return /Task number [1-9]\d\d/.test(await terminal.screen());
  });
  // Far above what it takes: the machine may be busy.
  expect(Math.max(first, ...times)).toBeLessThan(5000);
  expect(twelve.streams.most).toBeLessThanOrEqual(12);
  await terminal.press("/");
  await terminal.type("number 9999");
  await terminal.press("Enter");
  await terminal.shows("00009999");
});

test.concurrent("a lost instance is shown as such and comes back by itself, in the list and on its own screen", async () => {
  const stub = await stubInstance({
    answeredBy: "lone-1",
    instances: () => [sampleInstance({ name: "lone-1" })],
  });
  const terminal = await tmux.open({ env: { SERVICE_PORT: String(stub.port) } });
  await terminal.shows("1 instance", "ready");
  await stub.stop();
  await terminal.shows("unreachable", "No service answers");
  await stub.start();
  await terminal.shows("ready");
  await terminal.press("1");
  await terminal.shows("0 queued");
  await stub.stop();
  await terminal.shows("unreachable", "No service answers");
  await stub.start();
  await terminal.shows("0 queued");
});

describe("the terminal is as it was", () => {
  const script = `stty -g > "$HOME/$0-before"; echo earlier output; "$@"; echo $? > "$HOME/$0-code"; while :; do stty -g > "$HOME/$0-after"; sleep 0.2; done`;
  const endings: [how: string, code: number, end: (terminal: Terminal) => Promise<void> | void][] = [
    ["q", 0, (terminal) => terminal.press("q")],
    ["Ctrl-C", 130, (terminal) => terminal.press("C-c")],
    ["SIGTERM", 143, async (terminal) => void process.kill(await pidIn(terminal), "SIGTERM")],
    ["kill -9", 137, async (terminal) => void process.kill(await pidIn(terminal), "SIGKILL")],
  ];
  /** The program is the only child of the shell in the terminal. */
  const pidIn = async (terminal: Terminal): Promise<number> => {
    const shell = await terminal.ask("pane_pid");
    return Number((await readFile(`/proc/${shell}/task/${shell}/children`, "utf8")).trim().split(" ")[0]);
  };

  test.concurrent.for(endings)("after %s", async ([how, code, end], { expect: that }) => {
    const name = how.replaceAll(/\W/g, "");
    const terminal = await tmux.open({ script: script.replaceAll("$0", name) });
    await opened(terminal);
    that(await terminal.ask("alternate_on")).toBe("1");
    await end(terminal);
    const written = (what: string) => readFile(join(tmux.directory, `${name}-${what}`), "utf8");
    that(await until(() => written("code"))).toBe(`${code}\n`);
    await until(
      async () => (await terminal.ask("alternate_on")) === "0" && (await terminal.ask("cursor_flag")) === "1",
    );
    await terminal.shows("earlier output");
    // Of a killed process, a moment later.
    await until(async () => (await written("after")) === (await written("before")));
    that(await terminal.screen()).not.toContain("INSTANCE");
  });
});

test.concurrent("an editor has the terminal for itself, and gives it back", async () => {
  const hub = join(tmux.directory, "hub");
  const { mkdir } = await import("node:fs/promises");
  await mkdir(join(hub, "agents", "writer", "package"), { recursive: true });
  await writeFile(join(hub, "agents", "writer", "agent.yml"), "description: Writes things\n");
  const editor = join(tmux.directory, "editor");
  await writeFile(editor, `#!/bin/sh\necho "editing $1"; read -r line; echo "$line" > "$HOME/typed"\n`, {
    mode: 0o755,
  });
  const terminal = await tmux.open({
    env: { HUB_DIR: hub, VISUAL: editor, SERVICE_AGENT_CLI_BINARY: "/nonexistent" },
    rows: 40,
  });
  await terminal.shows("1 local package", "writer");
  await terminal.press("End", "Enter");
  await terminal.shows("Open Chat", "View Config");
  await terminal.press("3");
  await terminal.shows("Config of writer", "Writes things");
  await terminal.press("Escape");
  await terminal.shows("Open Chat");
  await terminal.press("2");
  await terminal.shows("editing", "hub/agents/writer");
  expect(await terminal.ask("alternate_on")).toBe("0");
  await terminal.type("q2 all of this is for the editor");
  await terminal.press("Enter");
  await terminal.shows("Open Chat", "Esc back");
  expect(await readFile(join(tmux.directory, "typed"), "utf8")).toBe("q2 all of this is for the editor\n");

  // Programs that fail say so, and give it back as well, each time.
  await writeFile(editor, "#!/bin/sh\nexit 3\n");
  for (const [key, failure] of [
    ["2", "sh ended with exit code 3. Enter goes back"],
    ["1", "/nonexistent could not be started"],
    ["2", "sh ended with exit code 3. Enter goes back"],
  ] as const) {
    await terminal.press(key);
    await terminal.shows(failure);
    await terminal.press("Enter");
    await terminal.shows("Open Chat", "Esc back");
  }
});

test.concurrent("without a terminal, or on one that cannot place the cursor, it names --headless and exits with 2", async () => {
  expect(await svc(["agents"])).toMatchObject({ code: 2, stderr: expect.stringContaining("--headless") });
  const terminal = await tmux.open({
    columns: 120,
    script: 'export TERM=dumb; "$@"; echo "ended $?"; sleep 600',
  });
  await terminal.shows("--headless list", "ended 2");
});
