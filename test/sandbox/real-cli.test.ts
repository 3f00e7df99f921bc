import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeWorktree } from "../../src/repos/repos.fixture.ts";
import { allowedOf } from "../../src/sandbox/policy.ts";
import { createSandbox } from "../../src/sandbox/sandbox.ts";
import { expectTidy, runFake, type FakeRunOptions } from "../fake-agent/run.ts";
import { startFakeModel, type FakeModel } from "../fake-model/fake-model.ts";
import { temporaryDirectory } from "../temporary.ts";
import { startRegistry } from "./registry.ts";

/** The real CLI in the sandbox, in a real worktree. */
let model: FakeModel;
beforeAll(async () => {
  model = await startFakeModel({ token: "canary-7d1" });
});
afterAll(() => model.close());

const { sandbox } = await createSandbox("bwrap");
const agentCliBinary = fileURLToPath(new URL("../../node_modules/.bin/claude", import.meta.url));

/** What a profile brings: the CLI's settings and its MCP configuration. */
type Profile = { settings: object; mcp: object };

/** Has the agent run one command in a worktree, and resolves to what the command said. */
const run = async (
  command: string,
  { settings, launch, profile, ...options }: Partial<FakeRunOptions> & { profile?: Profile } = {},
) => {
  const directory = await temporaryDirectory();
  const configDir = join(directory, "config");
  await mkdir(configDir);
  const settingsFile = join(configDir, "service-settings.json");
  const mcpConfigFile = join(configDir, "service-mcp.json");
  await writeFile(settingsFile, JSON.stringify(profile?.settings ?? {}));
  await writeFile(mcpConfigFile, JSON.stringify(profile?.mcp ?? { mcpServers: {} }));
  const { worktree } = await makeWorktree();
  await writeFile(join(worktree.path, "search.sh"), search);
  const borrows = [join(worktree.cacheDir, "objects"), join(worktree.ownDir, "objects")];
  const done = await runFake(`scenario: bash ${JSON.stringify({ command })}`, {
    ...options,
    directory,
    sandbox,
    settings: { agentCliBinary, modelBaseUrl: model.url, modelAuthToken: "canary-7d1", ...settings },
    launch: {
      configDir,
      settingsFile,
      mcpConfigFile,
      bypassPermissions: true,
      args: ["--model", "sonnet", "--dangerously-skip-permissions"],
      ...launch,
    },
    start: { cwd: worktree.path, borrows },
  });
  expectTidy(done);
  expect(done.outcome).toMatchObject({ ok: true });
  return { ...done, said: done.outcome.text, directory, worktree };
};

/** Tells where a word is found, which comes in two pieces so that nothing has it by being asked. */
const search = `
word="$1$2"
case "$(env)" in *"$word"*) echo "$2 in the environment";; esac
case "$(cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n')" in *"$word"*) echo "$2 in /proc";; esac
grep -rlsaF --devices=skip --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr "$word" / | sed "s/^/$2 in file /"
echo searched for "$2"
`;

test.each([
  ["a gateway's token", { modelAuthToken: "canary-7d1" }],
  ["an API key", { modelAuthToken: null, modelApiKey: "canary-7d1" }],
])("%s is nowhere inside and in no transcript, and the model gets it", async (_kind, settings) => {
  const { said, events, directory, worktree } = await run(
    "echo control-9e2 > control; sh search.sh control -9e2; sh search.sh canary -7d1",
    { settings: { ...settings, agentEnv: ["CONTROL"] }, env: { CONTROL: "control-9e2" } },
  );
  // What is there is found.
  expect(said).toContain("-9e2 in the environment\n-9e2 in /proc\n");
  expect(said).toContain(`-9e2 in file ${worktree.path}/control\n`);
  expect(said).toContain("searched for -7d1");
  expect(said).not.toContain("-7d1 in ");
  expect(JSON.stringify(events)).not.toContain("canary-7d1");
  expect(spawnSync("grep", ["-rl", "canary-7d1", directory, worktree.path]).stdout.toString()).toBe("");
  const { headers } = model.requests.at(-1) ?? {};
  expect([headers?.["authorization"], headers?.["x-api-key"]]).toContainEqual(
    expect.stringMatching(/^(Bearer )?canary-7d1$/),
  );
});

test("the agent commits, stashes and rebases; the objects that its clone borrows are read-only", async () => {
  const { said, worktree } = await run(`
    set -e
    echo one > a; git add a; git commit --quiet --message one
    echo two >> README.md; git stash --quiet; test -z "$(git diff)"; git stash pop --quiet
    git commit --quiet --all --message two
    git switch --quiet --create side HEAD~2
    echo three > b; git add b; git commit --quiet --message three
    git rebase --quiet service/one
    git gc --quiet; git fsck --strict
    while read objects; do test -d "$objects"; touch "$objects/planted" || true; done < .git/objects/info/alternates
    echo all done`);
  expect(said).toMatch(/Read-only file system[\s\S]*all done$/);
  const log = execFileSync("git", ["-C", worktree.path, "log", "--format=%s %an"], { encoding: "utf8" });
  expect(log).toBe("three svc\ntwo svc\none svc\na change someone\n");
});

test("npm installs a package from a registry on loopback that the operator allows, and from no other", async () => {
  const [registry, other] = await Promise.all([startRegistry(), startRegistry()]);
  const allowed = allowedOf({ hosts: [`127.0.0.1:${registry.port}`], read: [], write: [] }, {});
  const install = ({ port }: { port: number }) =>
    `npm install --no-audit --no-fund --fetch-retries 0 --registry http://127.0.0.1:${port} demo-greeting`;
  const { said } = await run(
    `${install(other)} >/dev/null 2>&1 || echo refused; npm cache clean --force >/dev/null 2>&1; ${install(registry)} 2>&1; node -p 'require("demo-greeting")'`,
    { launch: { allowed } },
  );
  expect(said).toMatch(/^refused[\s\S]*added 1 package[\s\S]*hello$/);
  expect(registry.asked).toEqual(["/demo-greeting", "/demo-greeting-1.0.0.tgz"]);
  expect(other.asked).toEqual([]);
});

test("hooks and MCP servers of a profile run inside as well", async () => {
  const outside = await temporaryDirectory();
  await writeFile(join(outside, "secret"), "planted-secret");
  const look = (name: string): string => `cat ${outside}/secret > ${name} 2>&1; echo ran >> ${name}`;
  const hooks = { SessionStart: [{ hooks: [{ type: "command", command: look("hook") }] }] };
  const mcpServers = { looking: { command: "sh", args: ["-c", look("server")] } };
  const { worktree } = await run("true", { profile: { settings: { hooks }, mcp: { mcpServers } } });
  for (const name of ["hook", "server"])
    expect(await readFile(join(worktree.path, name), "utf8")).toMatch(/No such file or directory\nran\n/);
});
