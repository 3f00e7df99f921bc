import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { svc } from "../cli/run-svc.ts";
import { sampleJob, sampleLog } from "../cli/sample-job.ts";
import { until } from "../until.ts";
import { sampleInstance, stubInstance } from "./stub-instance.ts";
import { startTmux, type Terminal, type Tmux } from "./terminal.ts";

/* `svc agents` on a real terminal, against instances that are played. */

const escape = String.fromCodePoint(0x1b);
const bell = String.fromCodePoint(7);
const hostile = `${escape}]0;owned${bell}${escape}[2J`;

let tmux: Tmux;
beforeAll(async () => {
  // Twelve instances, of which one answers.
  const twelve = await stubInstance({
    answeredBy: "build-1",
    waiting: 4,
    instances: () => [
      ...Array.from({ length: 11 }, (_, index) => sampleInstance({ name: `build-${index + 1}` })),
      sampleInstance({ name: `night${hostile}ly` }),
    ],
    jobs: () =>
      Array.from({ length: 40 }, (_, index) =>
        sampleJob({
          id: `${String(index).padStart(8, "0")}-0000-4000-8000-000000000001`,
          status: "running",
          pod_name: "build-1",
          task: `Task number ${index}${hostile}`,
        }),
      ),
    events: (id) => sampleLog({ type: "text", block: 1, text: `Working on ${id.slice(0, 8)}${hostile}` }),
  });
  tmux = await startTmux({ SERVICE_PORT: String(twelve.port) });
});

const opened = async (terminal: Terminal): Promise<Terminal> => {
  await terminal.shows("12 instances");
  return terminal;
};

test.concurrent("a terminal without a size has that of COLUMNS and LINES, else 80 × 24", async () => {
  const script = 'stty rows 0 cols 0; "$@"; sleep 600';
  const usual = await opened(await tmux.open({ rows: 60, columns: 160, script }));
  const isWithin = (seen: string, columns: number, rows: number): boolean => {
    const lines = seen.trimEnd().split("\n");
    return lines.length < rows && lines.every((line) => line.length <= columns);
  };
  expect(isWithin(await usual.shows("build-1", "q quit"), 80, 24)).toBe(true);
  const env = { COLUMNS: "100", LINES: "16" };
  const named = await opened(await tmux.open({ rows: 60, columns: 160, script, env }));
  const seen = await named.shows("build-1", "q quit");
  expect(isWithin(seen, 100, 16)).toBe(true);
  expect(isWithin(seen, 80, 16)).toBe(false);
});

test.concurrent("keys choose, filter and go back; a long list follows the selection in any size; nothing of an instance or a job reaches the terminal", async () => {
  const terminal = await opened(await tmux.open({ rows: 40, columns: 120 }));
  await terminal.shows("build-1", "ready", "1/3", "unreachable", "publishes no address");
  for (const [columns, rows] of [
    [40, 12],
    [120, 40],
  ] as const) {
    await terminal.resize(columns, rows);
    await terminal.press(...Array.from({ length: 12 }, () => "Down"));
    await terminal.shows("> 12", "q quit");
    await terminal.press(...Array.from({ length: 12 }, () => "Up"));
    await terminal.shows(">  1", "q quit");
  }

  await terminal.press("1", "2");
  // Sorted by name: build-1, build-10, build-11, build-2 …
  await terminal.shows("ly  orchestrator");
  await terminal.press("Escape");
  await opened(terminal);
  await terminal.press("2");
  await terminal.shows("build-10  orchestrator");
  await terminal.press("Escape");
  await opened(terminal);

  // /word filters, / alone shows all again.
  await terminal.press("/", "1", "1", "Enter");
  await until(async () => !(await terminal.screen()).includes("build-9"));
  await terminal.shows(">  1  build-11", "/11");
  await terminal.press("1");
  await terminal.shows("build-11  orchestrator");
  await terminal.press("Escape");
  await opened(terminal);
  await terminal.press("/", "Enter");
  await terminal.shows("build-9");

  // An instance has its jobs, the first with what they do.
  await terminal.press("Down", "Down", "Up", "Up", "Enter");
  await terminal.shows("build-1  orchestrator", "Submit job", "Sync repos", "Health");
  await terminal.shows("1/3 jobs, 0 turns, 4 queued", "00000000", "Task number 0", "Working on 00000000");
  await terminal.press("/");
  await terminal.type("number 39");
  await terminal.press("Enter");
  await terminal.shows("00000039");
  expect(await terminal.ask("pane_title")).not.toContain("owned");
});

test.concurrent("without colours where NO_COLOR is set; r refreshes", async () => {
  const terminal = await opened(await tmux.open({ columns: 60, env: { NO_COLOR: "1", CI: "true" } }));
  await terminal.press("r");
  await opened(terminal);
  expect(await terminal.screen(true)).not.toContain(escape);
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
  const script = `stty -g > "$HOME/$0-before"; echo earlier output; "$@"; echo $? > "$HOME/$0-code"; stty -g > "$HOME/$0-after"; sleep 600`;
  const endings: [how: string, code: number, end: (terminal: Terminal) => Promise<void> | void][] = [
    ["q", 0, (terminal) => terminal.press("q")],
    ["Ctrl-C", 130, (terminal) => terminal.press("C-c")],
    ["SIGTERM", 143, async (terminal) => void process.kill(await pidIn(terminal), "SIGTERM")],
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
    await end(terminal);
    const written = (what: string) => readFile(join(tmux.directory, `${name}-${what}`), "utf8");
    that(await until(() => written("code"))).toBe(`${code}\n`);
    await terminal.shows("earlier output");
    that(await until(() => written("after"))).toBe(await written("before"));
    that(await terminal.ask("cursor_flag")).toBe("1");
  });
});

test.concurrent("an editor has the terminal for itself, and gives it back", async () => {
  const hub = join(tmux.directory, "hub");
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
  await terminal.press("1", "3");
  await terminal.shows("Open Chat", "View Config");
  await terminal.press("3");
  await terminal.shows("View Config", '"description": "Writes things"', "Esc back");
  await terminal.press("2");
  await terminal.shows("editing", "hub/agents/writer");
  await terminal.type("q2 all of this is for the editor");
  await terminal.press("Enter");
  await terminal.shows("1-N choose", "Esc back");
  expect(await readFile(join(tmux.directory, "typed"), "utf8")).toBe("q2 all of this is for the editor\n");

  // Programs that fail say so, and give it back as well.
  await writeFile(editor, "#!/bin/sh\nexit 3\n");
  for (const [key, failure] of [
    ["2", "sh ended with exit code 3"],
    ["1", "/nonexistent could not be started"],
  ] as const) {
    await terminal.press(key);
    await terminal.shows(failure, "Esc back");
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
