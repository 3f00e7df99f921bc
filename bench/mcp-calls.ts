import autocannon from "autocannon";
import { median, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const rounds = 5;
const seconds = 3;

/** A call of the tool `get_job` over /mcp, in both eras of the protocol, against the same operation over REST. */
export const mcpCalls = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withService(directory, {}, async (service) => {
      const { job } = await service.client.run_task({ task: "scenario: noop" });
      const { url } = service;
      const asks = {
        rest: { url: `${url}/jobs/${job.id}` },
        today: { url: `${url}/mcp`, ...toolCall(job.id, modern) },
        "last year": { url: `${url}/mcp`, ...toolCall(job.id, legacy) },
      };
      const many: Record<string, number[]> = { rest: [], today: [], "last year": [] };
      const alone: Record<string, number[]> = { rest: [], today: [], "last year": [] };
      for (let round = 0; round < rounds; round += 1) {
        for (const [name, ask] of Object.entries(asks)) {
          many[name]?.push((await measure(ask, 16)).perSecond);
          alone[name]?.push((await measure(ask, 1)).meanMs);
        }
      }
      return (["today", "last year"] as const).flatMap((era) => {
        const throughput = median(many[era] ?? []) / median(many["rest"] ?? []);
        const latency = median(alone[era] ?? []) / median(alone["rest"] ?? []);
        return [
          {
            what: `get_job over /mcp, clients of ${era}, 16 connections`,
            ours: `${median(many[era] ?? []).toFixed(0)}/s`,
            baseline: `${median(many["rest"] ?? []).toFixed(0)}/s (GET /jobs/{id})`,
            value: throughput,
            unit: "x" as const,
            target: "≥ 0.25 ×",
            met: throughput >= 0.25,
          },
          {
            what: `the same, 1 connection, time per call`,
            ours: `${median(alone[era] ?? []).toFixed(3)} ms`,
            baseline: `${median(alone["rest"] ?? []).toFixed(3)} ms`,
            value: latency,
            unit: "x" as const,
            target: "≤ 4 ×",
            met: latency <= 4,
          },
        ];
      });
    }),
  );

type Ask = Omit<autocannon.Options, "connections" | "duration">;

/** Requests per second, and the mean time of one as the rate says it: the clock of the load generator has whole ms. */
const measure = async (ask: Ask, connections: number): Promise<{ perSecond: number; meanMs: number }> => {
  const result = await autocannon({ ...ask, connections, duration: seconds });
  if (result.non2xx + result.errors > 0)
    throw new Error(`${result.non2xx} refusals, ${result.errors} errors`);
  const perSecond = result["2xx"] / result.duration;
  return { perSecond, meanMs: (1000 * connections) / perSecond };
};

type Era = { headers: Record<string, string>; meta: Record<string, unknown> };

const modern: Era = {
  headers: { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "get_job" },
  meta: {
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    },
  },
};

const legacy: Era = { headers: { "mcp-protocol-version": "2025-11-25" }, meta: {} };

const toolCall = (job_id: string, { headers, meta }: Era) => ({
  method: "POST" as const,
  headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
  body: JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name: "get_job", arguments: { job_id }, ...meta },
  }),
});
