import { expect, test } from "vitest";
import { choose, type Entry, isBinding, leaving, nameOf, refusalOf } from "./entry.ts";

const entry = (over: Partial<Entry>): Entry => ({
  text: "t",
  key: "k",
  repoUrl: "https://host/acme/app",
  paths: ["node_modules"],
  isWhole: true,
  bytes: 10,
  usedAt: 1,
  hasSpare: false,
  ...over,
});

test.each([
  ["nothing is there", [], null, "cold"],
  ["only that of another text", [entry({ text: "other" })], null, "cold"],
  ["that of the same key", [entry({ usedAt: 1 }), entry({ key: "k2", usedAt: 9 })], "k", "warm"],
  ["that of the same key, with a part left out", [entry({ isWhole: false })], "k", "nearest"],
  [
    "those of other keys: the last that was used",
    [entry({ key: "a", usedAt: 2 }), entry({ key: "b", usedAt: 3 })],
    "b",
    "nearest",
  ],
  ["that of the default branch", [entry({ text: "usual" })], "k", "warm"],
  [
    "the whole one of two with the same key",
    [entry({ isWhole: false, usedAt: 3 }), entry({ text: "usual" })],
    "k",
    "warm",
  ],
  ["nothing of another branch", [entry({ text: "of another branch" })], null, "cold"],
])("of kept environments a job gets what fits: %s", (_, entries, key, cache) => {
  const found = choose(entries, { text: "t", usual: "usual", key: "k" });
  expect({ key: found.entry?.key ?? null, cache: found.cache }).toEqual({ key, cache });
});

test("an environment is found by repository, commands, env, paths, programs, reach and lock files", () => {
  const setup = { run: ["npm ci"], env: {}, cache: { key: ["a"], paths: ["p"] } };
  const facts = {
    repoUrl: "https://host/acme/app",
    programs: "node: v24",
    locks: ["1"],
    reach: ["npm"],
    branch: "topic",
  };
  const name = nameOf(setup, facts);
  expect(nameOf({ ...setup }, { ...facts })).toEqual(name);
  const others = [
    nameOf(setup, { ...facts, repoUrl: "https://host/fork/app" }),
    nameOf({ ...setup, run: ["npm i"] }, facts),
    nameOf({ ...setup, env: { A: "1" } }, facts),
    nameOf({ ...setup, cache: { key: ["a"], paths: ["q"] } }, facts),
    nameOf(setup, { ...facts, programs: "node: v22" }),
    nameOf(setup, { ...facts, reach: ["npm", "/private"] }),
    nameOf(setup, { ...facts, branch: "other" }),
  ];
  expect(others.map(({ text }) => text)).not.toContain(name.text);
  expect(nameOf(setup, { ...facts, branch: "" }).text).toBe(name.usual);
  expect(nameOf(setup, { ...facts, locks: ["2"] })).toEqual({
    text: name.text,
    usual: name.usual,
    key: expect.not.stringMatching(name.key),
  });
});

test("who was used least recently goes first, and nobody for nothing", () => {
  const all = [
    entry({ key: "new", usedAt: 3 }),
    entry({ key: "old", usedAt: 1, hasSpare: true }),
    entry({ usedAt: 2 }),
  ];
  const gone = (bytes: number) => leaving(all, { bytes, most: 50 }).map(({ key }) => key);
  expect(gone(10)).toEqual([]);
  expect(gone(11)).toEqual(["old"]);
  expect(gone(31)).toEqual(["old", "k"]);
});

test.each([
  ["../packages/a", null],
  ["../../packages/a", "leads out"],
  ["/usr/bin/python3", null],
  ["/usr/../etc/passwd", "leads out"],
  ["/etc/passwd", "leads out"],
  ["/usrlocal/x", "leads out"],
  ["../.git/config", "leads out"],
  ["a/../../../x", "leads out"],
  ["./../packages/..", "leads out"],
  ["..hidden/x", null],
])("a link in node_modules to %s: %s", (target, why) => {
  const refused = refusalOf([{ kind: "l", path: "node_modules/link", target }]);
  expect(refused === null).toBe(why === null);
});

test.each([
  ["pyvenv.cfg", true],
  ["bin/pip", true],
  ["lib/python3.11/site-packages/__editable__.app.pth", true],
  ["lib/python3.11/site-packages/__pycache__/six.pyc", false],
])("a Python environment with its path in %s works at its own place only: %s", (file, is) => {
  expect(isBinding(file)).toBe(is);
});
