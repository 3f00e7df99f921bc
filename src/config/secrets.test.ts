import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { maskUrl, secretValues } from "./secrets.ts";
import { loadSettings } from "./settings.ts";

const found = async (env: Record<string, string>): Promise<string[]> => {
  const { settings } = loadSettings({ env, home: await temporaryDirectory() });
  return secretValues(settings, env);
};

const line = "MIIEpAIBAAKCAQEA0123456789";
const pem = `-----BEGIN PRIVATE KEY-----\n${line}\n-----END PRIVATE KEY-----\n`;
const app = { GIT_HOST_APP_ID: "1", GIT_HOST_APP_INSTALLATION_ID: "2" };

test("the content of the app's key file is secret; a file that is not there yet changes nothing", async () => {
  const path = join(await temporaryDirectory(), "key.pem");
  const env = { ...app, GIT_HOST_APP_PRIVATE_KEY_PATH: path };
  expect(await found(env)).toEqual([]);
  await writeFile(path, pem);
  expect(await found(env)).toContain(line);
});

test("what the environment holds under the name of a secret is secret, the service's own variable or not", async () => {
  const secrets = await found({
    AWS_SECRET_ACCESS_KEY: "aws-0123456789",
    TRACING_BASIC_AUTH: "tracing-0123456789",
  });
  expect(secrets).toEqual(["tracing-0123456789", "aws-0123456789"]);
  expect(
    await found({
      KV_KEY_PREFIX: "service-of-mine",
      POSTGRES_PASSWORD: "postgres",
      SSH_KEY: "/home/me/.ssh/id",
    }),
  ).toEqual([]);
});

test("so is what agents are given under the name of a secret, however short, and nothing else of it", async () => {
  const given = {
    NPM_TOKEN: "npm-0123",
    SIGNING_KEY_FILE: "/keys/me",
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: "128000",
    AWS_REGION: "eu-central-1",
  };
  expect(await found(given)).toEqual([]);
  expect(await found({ ...given, SERVICE_AGENT_ENV: Object.keys(given).join(",") })).toEqual([
    "npm-0123",
    "/keys/me",
  ]);
});

test("credentials in URLs are secret: the password, or a token in the place of the user", async () => {
  const secrets = await found({
    MODEL_API_BASE_URL: "https://token-0123@models.example.org",
    HTTPS_PROXY: "http://user:100%@proxy:3128",
    DATABASE_URL: "postgres://user:p%40ss@db/x",
  });
  expect(secrets).toEqual(["token-0123", "100%", "p%40ss", "p@ss"]);
});

test.each([
  ["https://user:secret@host/path", "https://***@host/path"],
  ["user:secret@host/path", "***@host/path"],
  ["https://host/a@b", "https://host/a@b"],
  ["svc@localhost", "svc@localhost"],
  ["git@host:owner/name", "git@host:owner/name"],
])("%s is shown as %s", (value, shown) => {
  expect(maskUrl(value)).toBe(shown);
});

test("the passwords of the key-value store are secret, in the URL and in the file of options", async () => {
  const url = "redis://user:p%40ss-word@one:1";
  const file = join(await temporaryDirectory(), "kv.json");
  await writeFile(
    file,
    JSON.stringify({ sentinels: [{ host: "a", port: 1 }], name: "m", sentinelPassword: "sent-1" }),
  );
  const secrets = await found({ KV_URL: url, KV_OPTIONS_FILE: file });
  for (const secret of [url, "p@ss-word", "p%40ss-word", "sent-1"]) expect(secrets).toContain(secret);
  expect(await found({ KV_URL: "redis://one" })).toEqual(["redis://one"]);
});
