import { expect, it } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { describeSettings } from "./describe.ts";
import { secretValues } from "./secrets.ts";
import { loadSettings } from "./settings.ts";
import { variables } from "./variables.ts";

const home = await temporaryDirectory();
const body = "MIIEowIBAAKCAQEA7Zq9canary";
const pem = `-----BEGIN RSA PRIVATE KEY-----\n${body}\n-----END RSA PRIVATE KEY-----`;
const loaded = loadSettings({
  home,
  env: {
    SERVICE_API_KEYS: "canary-key-1,canary-key-2",
    SERVICE_API_KEY: "canary-key-3",
    GIT_HOST_TOKEN: "canary-token",
    GH_HOST: "git.acme.dev",
    GIT_HOST_APP_ID: "12",
    GIT_HOST_APP_INSTALLATION_ID: "34",
    GIT_HOST_APP_PRIVATE_KEY_BASE64: Buffer.from(pem).toString("base64"),
    AGENT_CLI_OAUTH_TOKEN: "canary-oauth",
    MODEL_API_BASE_URL: "https://me:canary%20password@proxy.acme.dev/v1",
  },
});

it("the description has a row for every setting: name, value, source, meaning", () => {
  const rows = describeSettings(loaded);
  expect(rows.map(({ name }) => name)).toEqual(Object.values(variables).map(({ name }) => name));
  const row = (name: string) => rows.find((candidate) => candidate.name === name);
  expect(row("SERVICE_PORT")).toMatchObject({ value: "8200", source: "default", yaml: "port" });
  expect(row("GIT_HOST")).toMatchObject({ value: "git.acme.dev", source: "environment, GH_HOST" });
  expect(row("SERVICE_API_KEYS")).toMatchObject({
    value: "*** (2 keys)",
    source: "environment, SERVICE_API_KEYS",
  });
  expect(row("GIT_HOST_TOKEN")?.value).toBe("***");
  expect(row("MODEL_API_AUTH_TOKEN")?.value).toBe("");
  expect(row("MODEL_API_BASE_URL")?.value).toBe("https://***@proxy.acme.dev/v1");
  expect(rows.every(({ meaning }) => meaning.length > 10)).toBe(true);
});

it.each(["cancel", "detach", "grace:5"])(
  "what a caller's leaving does is shown as it is written: %s",
  (text) => {
    const rows = describeSettings(loadSettings({ home, env: { AGENT_MODE_ON_DISCONNECT: text } }));
    expect(rows.find(({ name }) => name === "AGENT_MODE_ON_DISCONNECT")?.value).toBe(text);
  },
);

it("the description holds nothing of a secret", () => {
  const printed = JSON.stringify(describeSettings(loaded));
  expect(printed).not.toContain("canary");
  expect(printed).not.toContain(Buffer.from(pem).toString("base64").slice(0, 12));
});

it("every secret string is known to the redactor: list entries, PEM text by line, passwords in URLs", () => {
  const secrets = secretValues(loaded.settings, {});
  expect(secrets).toEqual(
    expect.arrayContaining(["canary-key-1", "canary-key-2", "canary-key-3", "canary-token", "canary-oauth"]),
  );
  expect(secrets).toEqual(expect.arrayContaining([pem, body, Buffer.from(pem).toString("base64")]));
  expect(secrets).toEqual(expect.arrayContaining(["canary%20password", "canary password"]));
  expect(secrets).not.toContain("");
  expect(secretValues(loadSettings({ home, env: {} }).settings, {})).toEqual([]);
});
