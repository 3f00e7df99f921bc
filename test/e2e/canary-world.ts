import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startFakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import type { Canaries } from "./canaries.ts";
import { hostVariables } from "./hosted.ts";
import { recordPrograms } from "./recorded-programs.ts";
import { watchCommandLines } from "./command-lines.ts";

/** Which of the two ways of model credentials, and which of the two of git host credentials. */
export type Way = { model: "oauth" | "key"; gitHost: "app" | "token" };

const canary = (name: string): string => `canary-${name}-${randomBytes(9).toString("hex")}`;

const plain = [
  "SERVICE_API_KEY",
  "MODEL_API_AUTH_TOKEN",
  "ANTHROPIC_API_KEY",
  "ANTHROPIC_AUTH_TOKEN",
  "TRACING_PUBLIC_KEY",
  "TRACING_SECRET_KEY",
  "TRACING_BASIC_AUTH",
  "AWS_SECRET_ACCESS_KEY",
  "AWS_SESSION_TOKEN",
  "PGPASSWORD",
];

/** A service with a canary in every credential it has or may find in its environment, and a git host that knows its token. */
export const startCanaryWorld = async ({ model, gitHost }: Way) => {
  const host = await startFakeGitHost();
  // All before the first token is minted, which reaches those that are there.
  for (const name of ["good", "failing", "push", "pull", "clone"])
    await host.createRepository("acme", name, { private: true });
  const outside = await temporaryDirectory();
  const names = [
    ...plain,
    ...(model === "oauth" ? ["AGENT_CLI_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"] : []),
  ];
  const variables = Object.fromEntries(names.map((name) => [name, canary(name)]));
  const keys = [canary("first-key"), canary('second"key\\')];
  const token = host.createToken({ value: canary("GIT_HOST_TOKEN") });
  const app = host.createApp({ owner: "acme" });
  const keyFile = join(outside, "app.pem");
  await writeFile(keyFile, app.privateKey, { mode: 0o600 });
  const inUrls = {
    MODEL_API_BASE_URL: canary("base-url"),
    OTEL_EXPORTER_OTLP_ENDPOINT: canary("otel"),
    HTTPS_PROXY: canary("proxy"),
    DATABASE_URL: canary("database"),
  };
  const canaries: Canaries = {
    ...variables,
    ...inUrls,
    SERVICE_API_KEYS: keys.join("\n"),
    GIT_HOST_TOKEN: token,
    GIT_HOST_APP_PRIVATE_KEY: app.privateKey,
    GIT_HOST_APP_PRIVATE_KEY_BASE64: Buffer.from(app.privateKey).toString("base64"),
  };
  const programs = await recordPrograms(outside, ["git", "gh"]);
  const env = {
    ...variables,
    ...hostVariables(host, token),
    MODEL_API_BASE_URL: `https://${inUrls.MODEL_API_BASE_URL}@models.example.org/v1`,
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://user:${inUrls.OTEL_EXPORTER_OTLP_ENDPOINT}@127.0.0.1:9`,
    TRACING_HOST: "http://127.0.0.1:9",
    HTTPS_PROXY: `http://user:${inUrls.HTTPS_PROXY}@127.0.0.1:9`,
    NO_PROXY: "localhost,127.0.0.1",
    DATABASE_URL: `postgres://user:${inUrls.DATABASE_URL}@127.0.0.1/db`,
    SERVICE_API_KEYS: keys.join(","),
    SERVICE_OTEL_ENABLED: "true",
    SERVICE_LOG_LEVEL: "trace",
    SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "canary-agent.mjs"),
    PATH: programs.path,
    // So that it finds something to tell.
    SERVICE_AGENT_SANDBOX: "off",
    GIT_HOST_APP_ID: app.appId,
    GIT_HOST_APP_INSTALLATION_ID: app.installationId,
    ...(gitHost === "app"
      ? { GIT_HOST_APP_PRIVATE_KEY_PATH: keyFile }
      : { GIT_HOST_APP_PRIVATE_KEY_BASE64: Buffer.from(app.privateKey).toString("base64") }),
  };
  // With an app whose tokens are refused the static one is used.
  if (gitHost === "token") host.refuse({ what: "token", how: 403 });
  const service = await startService({ env });
  const commandLines = watchCommandLines(service.pid);
  return {
    host,
    service,
    canaries,
    keys,
    keyFile,
    token,
    recorded: programs.recorded,
    commandLines,
    report: (name: string) => join(outside, `${name}.json`),
  };
};

export type CanaryWorld = Awaited<ReturnType<typeof startCanaryWorld>>;
