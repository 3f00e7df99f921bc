import { expect, test } from "vitest";
import { svc } from "./run-svc.ts";

const rest = ["--repo", "github.com/acme/app", "--phase", "agent", "--host", "api.example.com"];

test.each([
  ["NAME VALUE", ["TOKEN", "tok-0123456789"]],
  ["NAME=VALUE", ["TOKEN=tok-0123456789"]],
  ["NAME = VALUE", ["TOKEN", "=", "tok-0123456789"]],
  ["NAME -----BEGIN KEY-----", ["TOKEN", "-----BEGIN KEY-----\ntok-0123456789\n"]],
  ["NAME --value=VALUE", ["TOKEN", "--value=tok-0123456789"]],
])(
  "a secret's value as an argument is refused without being repeated, and standard input is named: %s",
  async (_how, words) => {
    for (const json of [[], ["--json"]]) {
      const { code, stdout, stderr } = await svc(["secrets", "set", ...words, ...rest, ...json]);
      expect(code).toBe(2);
      expect(stderr).toMatch(/value of a secret is no argument.*standard input/);
      expect(stdout + stderr).not.toContain("tok-0123456789");
    }
  },
);
