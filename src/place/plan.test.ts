import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { judge, parseHosts, presetHosts } from "../lib/allowed-hosts.ts";
import { missingVersions, reachOf, reachWithSecrets, scriptOf, setupOf, versionScript } from "./plan.ts";

const nothing = {
  run: [],
  services: [],
  each: [],
  cache: null,
  timeout: 600,
  goesOnFailed: false,
  env: {},
  withheld: {},
  hosts: [],
  asked: [],
  versions: {},
};

test("each key of the profile takes the place of the file's", () => {
  expect(setupOf(null, null)).toBeNull();
  expect(setupOf({}, null)).toEqual(nothing);
  const file = { run: ["a"], each: ["b"], timeout: 5, env: { A: "file" }, hosts: ["npm"] };
  expect(setupOf(file, null)).toEqual({
    ...nothing,
    run: ["a"],
    each: ["b"],
    timeout: 5,
    env: { A: "file" },
    asked: ["npm"],
  });
  const profile = {
    each: ["c"],
    env: { B: "profile" },
    hosts: ["pypi"],
    on_failure: "continue",
    timeout: null,
  } as const;
  expect(setupOf(file, { ...profile, each: ["c"], hosts: ["pypi"] })).toEqual({
    ...nothing,
    run: ["a"],
    each: ["c"],
    timeout: 5,
    goesOnFailed: true,
    env: { B: "profile" },
    hosts: ["pypi"],
  });
});

const agent = (hosts: string[] = []) => ({
  hosts: parseHosts(hosts),
  read: [],
  write: [],
  temporaryBytes: 1,
  memoryBytes: null,
  processes: null,
});

test.each([
  // hosts of the profile, of the repository, of the agent, permitted → reached, refused
  [["a.example"], [], [], [], ["a.example"], []],
  [[], ["npm"], [], ["npm"], ["registry.npmjs.org", "registry.yarnpkg.com"], []],
  [[], ["pypi.org", "b.example"], [], ["pypi"], ["pypi.org"], ["b.example"]],
  [[], ["b.example"], ["b.example"], [], ["b.example", "b.example"], []],
  [[], ["x.b.example"], ["*.b.example"], [], ["*.b.example", "x.b.example"], []],
  [[], ["*.b.example"], ["x.b.example"], [], ["x.b.example"], ["*.b.example"]],
  [[], ["b.example:8443"], ["b.example"], [], ["b.example"], ["b.example:8443"]],
  [[], ["b.example"], [], ["b.example:443"], [], ["b.example"]],
  [[], ["b.example"], [], ["*"], ["b.example"], []],
  [[], ["b.example:8443"], [], ["*"], [], ["b.example:8443"]],
  [[], ["*"], ["b.example"], [], ["b.example"], ["*"]],
])("of %j and %j, with %j of the agent and %j permitted, a setup reaches %j", (...row) => {
  const [hosts, asked, own, permitted, reached, refused] = row;
  const found = reachOf({ hosts, asked }, agent(own), permitted);
  expect(found.allowed.hosts.map(({ name }) => name)).toEqual(reached);
  expect(found.refused).toEqual(refused);
});

test.each([
  // hosts of the profile, of the repository, of the agent, permitted → the last host that is reached
  [["*"], [], [], [], { name: "*", isPublic: true }],
  [[], ["*"], [], ["*"], { name: "*", isPublic: true }],
  [[], ["*"], ["*"], [], { name: "*", isPublic: true }],
  // Whoever may name every public host names no other one by its name.
  [[], ["db.internal"], [], ["*"], { name: "db.internal", isPublic: true }],
  [[], ["db.internal"], ["*", "db.internal"], [], { name: "db.internal", isPublic: false }],
  [["db.internal"], [], ["*"], [], { name: "db.internal", isPublic: false }],
])("of %j and %j, with %j of the agent and %j permitted, public hosts are public only", (...row) => {
  const [hosts, asked, own, permitted, last] = row;
  const found = reachOf({ hosts, asked }, agent(own), permitted);
  expect(found.refused).toEqual([]);
  const { name, isPublic = false } = found.allowed.hosts.at(-1) ?? {};
  expect({ name, isPublic }).toEqual(last);
});

const permitted = ["npm", "registry.example:4873"];

test.each([
  // hosts of the profile, of the repository, of the agent, of the secrets → reached besides those permitted, refused
  [["a.example"], ["b.example"], ["c.example"], [], [], ["a.example", "b.example"]],
  [["a.example"], ["a.example"], [], ["a.example"], ["a.example"], []],
  [["a.example:8443"], ["npm"], [], ["a.example"], ["a.example"], ["a.example:8443"]],
  [["*"], ["*"], ["a.example"], [], [], ["*"]],
  [["pypi"], [], [], [], [], ["pypi.org", "files.pythonhosted.org"]],
])("of %j and %j, with %j of the agent and %j of secrets, commands with values reach %j", (...row) => {
  const [hosts, asked, own, secretHosts, reached, refused] = row;
  const found = reachWithSecrets({ hosts, asked, permitted }, agent([...own, "*"]), secretHosts);
  const names = found.allowed.hosts.map(({ name }) => name);
  expect(names).toEqual(["registry.npmjs.org", "registry.yarnpkg.com", "registry.example", ...reached]);
  expect(found.refused).toEqual(refused);
});

test("a setup with values only reads from what presets name, and no preset names where anybody may store files", () => {
  const isRead = (name: string) => judge(presetHosts(), { name, port: 443 }) !== "refused";
  const preset = ["registry.npmjs.org", "pypi.org", "github.com", "proxy.golang.org", "deb.debian.org"];
  expect(preset.filter((name) => !isRead(name))).toEqual([]);
  expect(["storage.googleapis.com", "a.example"].filter(isRead)).toEqual([]);
});

test("a secret's host is this machine's or a private one only where the operator names it", () => {
  const listed = { ...agent(), hosts: parseHosts(["127.0.0.1:5432"], true) };
  const secretHosts = ["127.0.0.1:5432", "127.0.0.1:6379"];
  const found = reachWithSecrets({ hosts: [], asked: [] }, listed, secretHosts);
  const how = [5432, 6379].map((port) => judge(found.allowed.hosts, { name: "127.0.0.1", port }));
  expect(how).toEqual(["local", "public"]);
});

test("an address of this host is one only if the operator names it", () => {
  const local = (permitted: string[], hosts: string[], asked: string[]) =>
    reachOf({ hosts, asked }, agent(), permitted).allowed.hosts.map((host) => host.local);
  expect(local(["127.0.0.1:4873"], [], ["127.0.0.1:4873"])).toEqual([true]);
  expect(local(["127.0.0.1:4873"], ["127.0.0.1:4873"], [])).toEqual([true]);
  expect(local([], ["127.0.0.1:4873"], [])).toEqual([false]);
});

test("programs that are not there, or of another version, are named", async () => {
  const said =
    "node: v24.1.0\npython3: Python 3.12.4\ngo: go version go1.22.1 linux/amd64\nold: v240.0\nmute: ";
  const wanted = (versions: Record<string, string>) => missingVersions(versions, said);
  expect(wanted({ node: "24", python3: "3.12", go: "1.22.1" })).toEqual([]);
  expect(wanted({ node: "22", python3: "3.1", old: "24", mute: "1", gone: "2" })).toEqual([
    "node 22 (24.1.0 is there)",
    "python3 3.1 (3.12.4 is there)",
    "old 24 (240.0 is there)",
    "mute 1",
    "gone 2",
  ]);
  const versions = { sh: "9", "no-such-program": "1", node: String(process.versions.node) };
  const { stdout } = await shell(versionScript(versions));
  expect(missingVersions(versions, stdout)).toContain("no-such-program 1");
  expect(missingVersions(versions, stdout).join()).not.toContain("node");
});

const shell = async (script: string) =>
  await promisify(execFile)("sh", ["-c", script]).then(
    ({ stdout }) => ({ stdout, code: 0 }),
    (error: { stdout: string; code: number }) => ({ stdout: error.stdout, code: error.code }),
  );

test("commands are told and run one after another, each in a shell of its own, until one fails", async () => {
  const script = scriptOf(["cd /; A='b c'; echo \"$A\"", 'echo "[$A]"', "exit 3", "echo never"]);
  expect(await shell(script)).toEqual({
    code: 3,
    stdout: '$ cd /; A=\'b c\'; echo "$A"\nb c\n$ echo "[$A]"\n[]\n$ exit 3\n',
  });
});
