import { expect, test } from "vitest";
import { judge, parseHosts } from "./allowed-hosts.ts";

const asked = (list: string[], target: string, byOperator = false): string => {
  const [, name = "", port = ""] = /^(.*):(\d+)$/.exec(target) ?? [];
  return judge(parseHosts(list, byOperator), { name: name.replace(/^\[|\]$/g, ""), port: Number(port) });
};

test.each([
  [["registry.example.com"], "registry.example.com:443", "allowed"],
  [["Registry.Example.com"], "REGISTRY.example.com:80", "allowed"],
  [["registry.example.com"], "registry.example.com:22", "refused"],
  [["registry.example.com:8443"], "registry.example.com:8443", "allowed"],
  [["registry.example.com:8443"], "registry.example.com:443", "refused"],
  [["example.com"], "evil-example.com:443", "refused"],
  [["example.com"], "a.example.com:443", "refused"],
  [["*.example.com"], "a.b.example.com:443", "allowed"],
  [["*.example.com"], "example.com:443", "refused"],
  [["*.example.com"], "evilexample.com:443", "refused"],
  [["npm"], "registry.npmjs.org:443", "allowed"],
  [["[2606:4700::1111]:443"], "[2606:4700::1111]:443", "allowed"],
  [[], "registry.npmjs.org:443", "refused"],
  [["*"], "registry.npmjs.org:443", "public"],
  [["*"], "registry.npmjs.org:22", "refused"],
  [["*", "db.example.com:5432"], "db.example.com:5432", "allowed"],
  [["*", "registry.example.com"], "registry.example.com:443", "allowed"],
])("%j, %s: %s", (list, target, expected) => {
  expect(asked(list, target)).toBe(expected);
});

test("only the operator, and only with a port, names what may be on this host", () => {
  expect(asked(["127.0.0.1:5432"], "127.0.0.1:5432", true)).toBe("local");
  expect(asked(["127.0.0.1:5432"], "127.0.0.1:5433", true)).toBe("refused");
  expect(asked(["db.internal"], "db.internal:443", true)).toBe("allowed");
  expect(asked(["127.0.0.1:5432"], "127.0.0.1:5432")).toBe("allowed");
});

test.each([
  "",
  "http://example.com",
  "example.com/path",
  "a b",
  "example.com:0",
  "example.com:99999",
  "*.com",
  "*.10.0.0.1",
  "-x",
  "*foo",
  "a\nb",
  "user@host",
])("%j is no host", (text) => {
  expect(() => parseHosts([text])).toThrow("is no host: give a name");
});
