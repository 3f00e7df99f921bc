import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { startService } from "../service.ts";

test("a job whose event log is over its limit ends, and the service answers and stops", async () => {
  const service = await startService({ env: { SERVICE_EVENT_LOG_MAX_BYTES: "65536" } });
  const { id } = await asks(service).submit({ task: 'scenario: flood {"megabytes": 4}' });
  expect(await asks(service).ended(id)).toMatchObject({ status: "succeeded" });
  const types: string[] = [];
  for await (const event of service.client.events(id, { signal: AbortSignal.timeout(30_000) }))
    types.push(event.type);
  expect(types).toContain("warning");
  expect(types).toContain("result");
  expect(types.at(-1)).toBe("stage");
  expect(await service.stop()).toBe(0);
});

test("results without end do not fill the event log", async () => {
  const service = await startService({ env: { SERVICE_EVENT_LOG_MAX_BYTES: "65536" } });
  const task = 'scenario: results {"every": 1, "times": 400, "kilobytes": 2}';
  const { id } = await asks(service).submit({ task });
  expect(await asks(service).ended(id)).toMatchObject({ status: "succeeded" });
  const types: string[] = [];
  for await (const event of service.client.events(id, { signal: AbortSignal.timeout(30_000) }))
    types.push(event.type);
  expect(types.filter((type) => type === "result").length).toBeLessThan(200);
  expect(types.slice(-2)).toEqual(["exited", "stage"]);
});
