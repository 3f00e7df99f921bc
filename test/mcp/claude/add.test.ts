import { beforeAll, expect, test } from "vitest";
import { startService, type Service } from "../../service.ts";
import { newUser } from "./claude.ts";
import { at, documentedLines } from "./documented-lines.ts";

const key = "key-of-the-test";
let service: Service;
/** Claude Code starts once for each line; of a slow machine that takes its time. */
const timeout = 300_000;

beforeAll(async () => {
  service = await startService({ env: { SERVICE_API_KEYS: key } });
});

const lines = await documentedLines();

test("there is a line for /mcp, two for /sse and one for stdio", () => {
  const kinds = lines.map((line) => /--transport (\w+)/.exec(line)?.[1] ?? "stdio");
  expect(kinds.toSorted()).toEqual(["http", "sse", "sse", "stdio"]);
});

/** A user with this key who has typed these lines, each for a server of its own, and what Claude Code says of them. */
const listed = async (typed: string[], SVC_KEY: string): Promise<string> => {
  const user = await newUser({ SVC_KEY });
  for (const [number, line] of typed.entries()) {
    const named = at(service.url, line).replace(" svc ", ` svc-${number} `);
    expect(await user.type(named)).toMatchObject({ code: 0 });
  }
  return (await user.claude("mcp", "list")).stdout;
};

test("after each line Claude Code finds the service healthy", { timeout }, async () => {
  const stdout = await listed(lines, key);
  for (const number of lines.keys())
    expect(stdout).toMatch(new RegExp(`^svc-${number}: .* - ✔ Connected$`, "m"));
});

test(
  "with a wrong key it is refused wherever Claude Code asks, however it was added",
  { timeout },
  async () => {
    const keyed = lines.filter((line) => line.includes("SVC_KEY"));
    const seen = service.output.stderr.length;
    const stdout = await listed(keyed, "another-key");
    // Newer versions add the service's answer.
    for (const number of keyed.keys())
      expect(stdout).toMatch(new RegExp(`^svc-${number}: .* - ✘ Failed to connect($| — .*HTTP 401)`, "m"));
    const refusal = await fetch(`${service.url}/register`, { method: "POST" });
    expect(await refusal.text()).toBe('{"error":"Invalid or missing API key"}');
    const statuses = [...service.output.stderr.slice(seen).matchAll(/"status":(\d+)/g)].map(
      ([, status]) => status,
    );
    expect(new Set(statuses)).toEqual(new Set(["401"]));
  },
);
