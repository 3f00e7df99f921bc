import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { startService, type Service } from "../service.ts";

let service: Service;

beforeAll(async () => {
  service = await startService({ env: { SERVICE_EVENT_LOG_MAX_BYTES: "65536" } });
});

const typesOfJob = async (task: string): Promise<string[]> => {
  const { id } = await asks(service).submit({ task });
  expect(await asks(service).ended(id)).toMatchObject({ status: "succeeded" });
  const types: string[] = [];
  for await (const event of service.client.events(id, { signal: AbortSignal.timeout(100_000) }))
    types.push(event.type);
  return types;
};

test("results without end do not fill the event log", async () => {
  const types = await typesOfJob('scenario: results {"every": 1, "times": 400, "kilobytes": 2}');
  expect(types.filter((type) => type === "result").length).toBeLessThan(200);
  expect(types.slice(-2)).toEqual(["exited", "stage"]);
});

test("a job whose event log is over its limit ends, and the service answers and stops", async () => {
  const types = await typesOfJob('scenario: flood {"megabytes": 4}');
  expect(types).toContain("warning");
  expect(types).toContain("result");
  expect(types.at(-1)).toBe("stage");
  expect(await service.stop()).toBe(0);
});
