import { McpServer } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { asks } from "../../asks.ts";
import { startService } from "../../service.ts";
import { connectOver, ways } from "../clients.ts";
import { serveMcp } from "../http-layer.ts";
import { startNginx } from "./start-nginx.ts";

/** A server whose only tool reports progress once, and answers after `released`. */
const serverThatWaits = (released: Promise<unknown>) => () => {
  const server = new McpServer({ name: "waits", version: "1.0.0" });
  server.registerTool("wait", {}, async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken ?? "";
    await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: 1 } });
    await released;
    return { content: [{ type: "text", text: "released" }] };
  });
  return server;
};

test.each(ways)(
  "progress arrives through a buffering nginx while the call is under way, over %s",
  async (way) => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { url } = await serveMcp({ newServer: serverThatWaits(released) });
    const client = await connectOver(way, await startNginx(url));
    // Only the progress that has arrived lets the call end: were it held back, both would wait for ever.
    const result = await client.callTool({ name: "wait" }, { onprogress: () => release(), timeout: 60_000 });
    expect(result.content).toEqual([{ type: "text", text: "released" }]);
  },
);

test.each(ways)("a silence longer than nginx bears is bridged by comments, over %s", async (way) => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { url } = await serveMcp({ newServer: serverThatWaits(released), pingEveryMs: 200 });
  const client = await connectOver(way, await startNginx(url, { readTimeoutSeconds: 1 }));
  const silenceMs = 2500;
  const onprogress = (): void => void setTimeout(release, silenceMs);
  const started = performance.now();
  const result = await client.callTool({ name: "wait" }, { onprogress, timeout: 60_000 });
  expect(performance.now() - started).toBeGreaterThan(silenceMs);
  expect(result.content).toEqual([{ type: "text", text: "released" }]);
});

test("the service works behind nginx with each transport: a client that waits for a job gets it", async () => {
  const service = await startService();
  const proxied = await startNginx(service.url);
  for (const way of ways) {
    const client = await connectOver(way, proxied);
    const { id } = await asks(service).submit({ task: "scenario: hang" });
    const heard: (string | undefined)[] = [];
    // The job ends because its progress was heard: a progress that comes with the result would come too late.
    const onprogress = ({ message }: { message?: string | undefined }): void => {
      if (heard.push(message) === 1) void service.client.cancel_job({ job_id: id });
    };
    const waiting = { name: "wait_for_job", arguments: { job_id: id, timeout: 30 } };
    const { structuredContent } = await client.callTool(waiting, { onprogress, timeout: 60_000 });
    expect({ way, structuredContent }).toMatchObject({
      structuredContent: { success: true, job: { id, status: "cancelled" } },
    });
    expect(heard[0]).toMatch(/^(queued|running)/);
  }
});
