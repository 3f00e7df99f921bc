import { beforeAll, expect, test } from "vitest";
import { startService, type Service } from "../../service.ts";
import { newUser } from "./claude.ts";
import { at, documentedLines } from "./documented-lines.ts";

const key = "key-of-the-test";
let service: Service;

beforeAll(async () => {
  service = await startService({ env: { SERVICE_API_KEYS: key } });
});

const lines = await documentedLines();

test("there is a line for /mcp, two for /sse and one for stdio", () => {
  const kinds = lines.map((line) => /--transport (\w+)/.exec(line)?.[1] ?? "stdio");
  expect(kinds.toSorted()).toEqual(["http", "sse", "sse", "stdio"]);
});

test.each(lines)("after `%s` Claude Code finds the service healthy", async (line) => {
  const user = await newUser({ SVC_KEY: key });
  expect(await user.type(at(service.url, line))).toMatchObject({ code: 0 });
  const { stdout } = await user.claude("mcp", "list");
  expect(stdout).toMatch(/^svc: .* - ✔ Connected$/m);
});

test.each(lines.filter((line) => line.includes("SVC_KEY")))(
  "with a wrong key `%s` is refused wherever Claude Code asks",
  async (line) => {
    const user = await newUser({ SVC_KEY: "another-key" });
    const seen = service.output.stderr.length;
    expect(await user.type(at(service.url, line))).toMatchObject({ code: 0 });
    const { stdout } = await user.claude("mcp", "list");
    // Newer versions add the answer that they got when they tried to register as an OAuth client.
    expect(stdout).toMatch(/^svc: .* - ✘ Failed to connect($| — .*"Invalid or missing API key")/m);
    const refusal = await fetch(`${service.url}/register`, { method: "POST" });
    expect(await refusal.text()).toBe('{"error":"Invalid or missing API key"}');
    const statuses = [...service.output.stderr.slice(seen).matchAll(/"status":(\d+)/g)].map(
      ([, status]) => status,
    );
    expect(new Set(statuses)).toEqual(new Set(["401"]));
  },
);
