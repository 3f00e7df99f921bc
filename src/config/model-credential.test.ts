import { expect, test } from "vitest";
import { loadSettings } from "./settings.ts";
import { credentialDigest, hasOtherKey, usualAtLimit } from "./model-credential.ts";

const of = (env: Record<string, string>) => loadSettings({ env, home: "/nonexistent" }).settings;

test("a credential is the digest of the token in use; without one it is the instance's own", () => {
  const digest = credentialDigest(of({ MODEL_API_AUTH_TOKEN: "a", ANTHROPIC_API_KEY: "b" }));
  expect(digest).toMatch(/^[0-9a-f]{12}$/);
  expect(credentialDigest(of({ AGENT_CLI_OAUTH_TOKEN: "a" }))).toBe(digest);
  expect(credentialDigest(of({ ANTHROPIC_API_KEY: "b" }))).not.toBe(digest);
  const [one, two] = ["one", "two"].map((name) => credentialDigest(of({ SERVICE_POD_NAME: name })));
  expect(one).not.toBe(two);
});

test.each([
  [{ AGENT_CLI_OAUTH_TOKEN: "a" }, "wait", false],
  [{ AGENT_CLI_OAUTH_TOKEN: "a", ANTHROPIC_API_KEY: "b" }, "wait", true],
  [{ MODEL_API_AUTH_TOKEN: "a", ANTHROPIC_API_KEY: "b" }, "fail", true],
  [{ ANTHROPIC_API_KEY: "b" }, "fail", false],
  [{}, "fail", false],
])("with %j a job at its limit is usually to %s; another key: %s", (env, usual, hasKey) => {
  const settings = of(env);
  expect([usualAtLimit(settings), hasOtherKey(settings)]).toEqual([usual, hasKey]);
});
