import { expect, test } from "vitest";
import { declaredIn, urlOf } from "./gitmodules.ts";

const around = {
  superproject: "https://git.example/acme/app",
  names: [],
  gitHost: "host.example",
  owners: ["trusted"],
  allowLocal: true,
};
const lib = { name: "lib", path: "lib", url: "../lib.git", update: "" };

test("what git says of the file is read as it is: a name may have anything in it", () => {
  const listed =
    "submodule.a.b.path\nlib\0submodule.a.b.url\n../x\0submodule.c.update\n!rm\0submodule.d.path\0other.a.path\nx\0";
  expect(declaredIn(listed)).toEqual([
    { name: "a.b", path: "lib", url: "../x", update: "" },
    { name: "c", path: "", url: "", update: "!rm" },
  ]);
});

test.each([
  // of the superproject, in the file → fetched
  ["https://git.example/acme/app", "../lib.git", "https://git.example/acme/lib.git"],
  ["https://git.example/acme/app.git", "../../other/lib", "https://git.example/other/lib"],
  ["https://git.example/acme/app", "./lib", "https://git.example/acme/app/lib"],
  ["https://git.example:8443/acme/app", "../../lib", "https://git.example:8443/lib"],
  ["git@git.example:acme/app.git", "../lib.git", "git@git.example:acme/lib.git"],
  ["git@git.example:app.git", "../lib.git", "git@git.example:lib.git"],
  ["git@git.example:acme/app", "git@host.example:trusted/lib", "git@host.example:trusted/lib"],
  ["https://git.example/acme/app", "ssh://git@GIT.example/acme/lib", "ssh://git@git.example/acme/lib"],
  ["https://git.example/acme/app", "https://else.example/lib/", "https://else.example/lib"],
  ["/srv/app.git", "../lib", "/srv/lib"],
  ["file:///srv/app.git", "../lib", "file:///srv/lib"],
  ["/srv/app.git", "/other/lib", "/other/lib"],
])("a submodule of %s at %s is fetched from %s", (superproject, url, from) => {
  expect(urlOf({ ...lib, url }, { ...around, superproject })).toBe(from);
});

test.each([
  ["name", { name: "../../hooks" }],
  ["name", { name: "a/../b" }],
  ["name", { name: "-x" }],
  ["name", { name: "" }],
  ["name", { name: "a//b" }],
  ["lies in another's", { name: "other/lib" }],
  ["path", { path: "../lib" }],
  ["path", { path: ".git/hooks" }],
  ["path", { path: "a/.GIT" }],
  ["command", { update: "!rm -rf /" }],
  ["no URL", { url: "" }],
  ["dash", { url: "--upload-pack=/tmp/x" }],
  ["helper program", { url: "ext::sh -c x".replaceAll(" ", "") }],
  ["white space", { url: "ext::sh -c x" }],
  ["credentials", { url: "https://me:secret@git.example/lib" }],
  ["git://", { url: "git://git.example/lib" }],
  ["on this machine", { url: "/etc/lib" }],
  ["on this machine", { url: "file:///etc/lib" }],
  ["on this machine", { url: "FILE:///etc/lib" }],
  ["on this machine", { url: "http://127.0.0.1/lib" }],
  ["out of its superproject's host", { url: "../../../lib" }],
  ["..", { url: "../a/../../lib" }],
  ["another host", { url: "git@else.example:acme/lib" }],
  ["another host", { url: "ssh://git@else.example/lib" }],
  ["another owner", { url: "git@git.example:other/lib" }],
  ["another owner", { url: "git@host.example:acme/lib" }],
  ["not a URL", { url: "..lib" }],
])("a submodule is refused for its %s: %j", (why, over) => {
  const given = { ...around, names: ["lib", "other"] };
  expect(() => urlOf({ ...lib, ...over }, given)).toThrow(why);
});

test("a path is refused where the service's disk is not allowed", () => {
  expect(() => urlOf(lib, { ...around, superproject: "/srv/app", allowLocal: false })).toThrow(
    "not allowed here",
  );
});
