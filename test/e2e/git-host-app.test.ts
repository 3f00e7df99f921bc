import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { App } from "../fake-git-host/apps.ts";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { runJob } from "./ended-job.ts";
import { hostVariables, startHost } from "./hosted.ts";

let host: FakeGitHost;
let app: App;

beforeAll(async () => {
  host = await startHost();
  await host.createRepository("acme", "app", { private: true });
  app = host.createApp({ owner: "acme" });
});

/** A service that has the app's key in one of its forms, and a job on the app's repository done by it. */
const runWith = async (key: Record<string, string>, token: string | null) => {
  const service = await startService({
    env: {
      ...hostVariables(host, token),
      GIT_HOST_APP_ID: app.appId,
      GIT_HOST_APP_INSTALLATION_ID: app.installationId,
      ...key,
    },
  });
  return await runJob(service, "Do it", { repo_url: `${host.origin}/acme/app.git` });
};

const pathOf = async (key: string): Promise<string> => {
  const path = join(await temporaryDirectory(), "key.pem");
  await writeFile(path, key, { mode: 0o600 });
  return path;
};

test.concurrent.each<[string, (key: string) => Promise<Record<string, string>>]>([
  ["a file", async (key) => ({ GIT_HOST_APP_PRIVATE_KEY_PATH: await pathOf(key) })],
  [
    "PEM text in one line",
    async (key) => ({ GIT_HOST_APP_PRIVATE_KEY: key.trim().replaceAll("\n", String.raw`\n`) }),
  ],
  ["base64", async (key) => ({ GIT_HOST_APP_PRIVATE_KEY_BASE64: Buffer.from(key).toString("base64") })],
])(
  "with the app's key as %s its token, not the static one, clones, pushes and opens the pull request",
  async (_, form) => {
    const unused = host.createToken({ login: "unused" });
    const job = await runWith(await form(app.privateKey), unused);
    expect(job).toMatchObject({ status: "succeeded", error: null });
    expect(host.pullRequests.find(({ url }) => url === job.pr_url)?.author).toBe(`app-${app.appId}[bot]`);
    expect(host.requests.filter(({ authorization }) => authorization?.includes(unused))).toEqual([]);
  },
);

test("a token that cannot be minted is replaced by the static one; without it the job fails and names the app", async () => {
  const stranger = { GIT_HOST_APP_PRIVATE_KEY: host.createApp({ owner: "acme" }).privateKey };
  const [withToken, without] = await Promise.all([
    runWith(stranger, host.createToken({ login: "spare" })),
    runWith(stranger, null),
  ]);
  expect(withToken.status).toBe("succeeded");
  expect(host.pullRequests.find(({ url }) => url === withToken.pr_url)?.author).toBe("spare");
  expect(without).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
  expect(without.error).toContain(`no token could be got for the app ${app.appId}`);
});
