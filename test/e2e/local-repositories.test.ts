import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { asks } from "../asks.ts";
import { makeRemote } from "../remote.ts";
import { startService } from "../service.ts";

/* Where there are keys, callers may be on other machines: what only this one has is not theirs. */

const apiKey = "key-of-mallory-0123456789";
const keyed = { SERVICE_API_KEYS: apiKey };

const refused = {
  code: "invalid_repo_url",
  message: expect.stringContaining("SERVICE_ALLOW_LOCAL_REPOS") as string,
};

test("with keys no door takes a repository of this machine, and nothing of it is asked", async () => {
  const asked: string[] = [];
  const server = createServer(({ url = "" }, response) => {
    asked.push(url);
    response.writeHead(418, { "content-type": "text/plain" }).end("internal words");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const remote = await makeRemote();
  const hooks = await makeRemote({ "profiles/ours.yml": "extends: code\n" });
  const service = await startService({
    env: { ...keyed, SERVICE_ALLOW_LOCAL_REPOS: undefined, SERVICE_HOOKS_BUNDLE_URL: hooks.path },
  });
  const { client, url } = service;
  for (const repo_url of [
    remote.path,
    `file://${remote.path}`,
    `${origin}/a`,
    `${origin.replace("127.0.0.1", "localhost")}/a`,
  ]) {
    await expect(client.run_task({ task: "x", repo_url })).rejects.toMatchObject(refused);
    await expect(client.prepare_worktree({ repo_url })).rejects.toMatchObject(refused);
    const repositories = [{ repo_url }];
    const further = client.run_task({ task: "x", repo_url: "https://git.invalid/acme/app", repositories });
    await expect(further).rejects.toMatchObject(refused);
    const answer = await fetch(`${url}/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "x-api-key": apiKey,
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "run_task", arguments: { task: "x", repo_url } },
      }),
    });
    expect(await answer.text()).toContain("SERVICE_ALLOW_LOCAL_REPOS=true");
  }
  expect(asked).toEqual([]);
  // What the operator names is no repository of callers.
  expect((await client.sync_companions({ target: "bundle" })).bundle).toBe("ok");
  expect(await asks(service).run({ task: "scenario: noop {}", profile: "ours" })).toMatchObject({
    status: "succeeded",
  });
});

test("the operator can allow them beside keys, and a follow-up is refused once they are not", async () => {
  const remote = await makeRemote();
  const service = await startService({ env: { ...keyed, SERVICE_ALLOW_LOCAL_REPOS: "true" } });
  const job = await asks(service).run({ task: "scenario: noop {}", repo_url: remote.path });
  expect(job.status).toBe("succeeded");
  await service.stop();
  const again = await startService({
    home: service.home,
    env: { ...keyed, SERVICE_ALLOW_LOCAL_REPOS: undefined },
  });
  const more = again.client.run_task({ task: "scenario: noop {}", session_id: String(job.session_id) });
  await expect(more).rejects.toMatchObject(refused);
});
