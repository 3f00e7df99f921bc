import { expect, test } from "vitest";
import { parseSetupFile, setupFor, Setups } from "./setup.ts";
import { setup } from "./profiles.fixture.ts";

test("a repository's file has the keys of a setup, and null for what is not set", () => {
  const source =
    'run: [npm ci]\neach: [make]\ntimeout: 5\non_failure: continue\nenv: {TZ: UTC}\nhosts: [npm]\nversions: {node: 24, python3: "3.12"}';
  expect(parseSetupFile(source)).toEqual({
    run: ["npm ci"],
    each: ["make"],
    timeout: 5,
    on_failure: "continue",
    env: { TZ: "UTC" },
    hosts: ["npm"],
    versions: { node: "24", python3: "3.12" },
  });
  expect(parseSetupFile("run:\n")).toEqual({ run: null });
});

test.each([
  ["- run: []", "must hold `key: value` lines"],
  ["run: npm ci", "run must be a list"],
  ["run: ['']", "run[0] must not be empty"],
  ["timeout: 0", "timeout must be more than 0"],
  ["cache: warm", "cache Invalid input: expected object"],
  ["cache: {key: [], paths: []}", "cache.paths must name a path"],
  ...["/etc", "../other", "a/../b", "a/.git/b", ".svc/out", "*.log", "~", "~/../x"].map((path) => [
    `cache: {key: [], paths: ['${path}']}`,
    "cache.paths[0] must",
  ]),
  ["cache: {key: [], paths: [~/.claude/x]}", "is what the service has there"],
  ["cache: {key: [], paths: [a, a/b]}", "cache.paths must not be in one another"],
  ["secrets: []", "unknown key secrets"],
  ["rnu: [make]", "unknown key rnu; did you mean run?"],
  ["services: [{name: db, comand: x, ready: y}]", "did you mean command?"],
  ["repo: [a]", "unknown key repo"],
  ["hosts: ['http://a']", "is no host"],
  ["versions: {python3: 3.10}", "versions.python3 must be a whole number, or text as"],
  ["versions: {'a b': 1}", "is no name of a program"],
  ["env: {PORT: 80}", 'env.PORT must be text, as "1"'],
  ["env: {A-B: x}", "env.A-B must be letters, digits and `_`"],
  ...[
    "HOME",
    "PATH",
    "CLAUDE_CONFIG_DIR",
    "ANTHROPIC_API_KEY",
    "SERVICE_JOB_ID",
    "https_proxy",
    "NO_PROXY",
  ].map((name) => [`env: {${name}: x}`, `env.${name} is set by the service`]),
])("a file with a fault says it in one sentence: %s", (source = "", said = "") => {
  expect(() => parseSetupFile(source)).toThrow(/^\.svc\/setup\.yml: /);
  expect(() => parseSetupFile(source)).toThrow(said);
});

test("of a profile's setups the first that is for the repository holds", () => {
  const setups = Setups.parse([
    { repo: ["github.com/acme/*"], run: ["one"] },
    { repo: ["**"], run: ["two"] },
    { run: ["three"] },
  ]);
  expect(setupFor(setups, "https://github.com/acme/app")).toMatchObject({ run: ["one"] });
  expect(setupFor(setups, "git@gitlab.com:acme/app.git")).toMatchObject({ run: ["two"] });
  expect(setupFor(setups, "")).toMatchObject({ run: ["three"] });
  expect(setupFor(setups.slice(0, 1), "https://github.com/other/app")).toBeNull();
  expect(setupFor(Setups.parse({ run: ["all"] }), "")).toMatchObject({ run: ["all"] });
});

test("a profile whose setup has faults is listed with them", async () => {
  const { profiles } = await setup({
    "home/.service/profiles/wrong.yml": "extends: code\nsetup: {run: x, env: {PATH: y}, cache: warm}\n",
  });
  const wrong = (await profiles.list()).find(({ name }) => name === "wrong");
  expect(wrong?.error).toMatch(/setup\[0\]\.run must be a list/);
  expect(wrong?.error).toMatch(/setup\[0\]\.env\.PATH is set by the service/);
  expect(wrong?.error).toMatch(/setup\[0\]\.cache/);
});
