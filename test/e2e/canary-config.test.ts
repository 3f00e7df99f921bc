import { expect, test } from "vitest";
import { svc } from "../cli/run-svc.ts";
import { temporaryDirectory } from "../temporary.ts";
import { betrayed } from "./canaries.ts";

const secret = "canary-0123456789abcdef";
const canaries = { secret };
const pem = `-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----\n`;

const variables = {
  SERVICE_API_KEYS: `${secret},second-key`,
  SERVICE_API_KEY: secret,
  AGENT_CLI_OAUTH_TOKEN: secret,
  MODEL_API_AUTH_TOKEN: secret,
  ANTHROPIC_API_KEY: secret,
  MODEL_API_BASE_URL: `https://user:${secret}@models.example.org`,
  OTEL_EXPORTER_OTLP_ENDPOINT: `http://${secret}@collector:4317`,
  GIT_HOST_TOKEN: secret,
  GIT_HOST_APP_ID: "1",
  GIT_HOST_APP_INSTALLATION_ID: "2",
  GIT_HOST_APP_PRIVATE_KEY: pem,
  TRACING_SECRET_KEY: secret,
};

test.concurrent.each(["config", "config --json"])(
  "svc %s shows where credentials come from and none of them",
  async (command) => {
    const { code, stdout, stderr } = await svc(command.split(" "), {
      env: { HOME: await temporaryDirectory(), ...variables },
    });
    expect(code).toBe(0);
    expect(stdout).toContain("environment, GIT_HOST_TOKEN");
    expect(betrayed(stdout + stderr, canaries)).toEqual([]);
  },
);

test.concurrent("the message about variables that are wrong shows no credential", async () => {
  const { code, stderr } = await svc(["serve"], {
    env: {
      ...variables,
      HOME: await temporaryDirectory(),
      SERVICE_API_KEYS: `${secret} ,, with space ${secret}`,
      MODEL_API_BASE_URL: `user:${secret}@models.example.org`,
      OTEL_EXPORTER_OTLP_ENDPOINT: `ftp://user:${secret}@collector`,
      GIT_HOST_APP_PRIVATE_KEY: secret,
      GIT_HOST_APP_PRIVATE_KEY_BASE64: Buffer.from(secret).toString("base64"),
    },
  });
  expect(code).not.toBe(0);
  for (const name of [
    "SERVICE_API_KEYS",
    "MODEL_API_BASE_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "GIT_HOST_APP_PRIVATE_KEY",
  ])
    expect(stderr).toContain(name);
  expect(betrayed(stderr, canaries)).toEqual([]);
});
