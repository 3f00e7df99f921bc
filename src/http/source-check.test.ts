import { describe, expect, test } from "vitest";
import { createSourceCheck } from "./access.ts";
import { createTestApp } from "./app.fixture.ts";

const outcome = (settings: { host: string; apiKeys?: string[] }, headers: Record<string, string>): string => {
  try {
    createSourceCheck({ apiKeys: [], ...settings })(new Headers(headers));
    return "passes";
  } catch (error) {
    return (error as { code: string }).code;
  }
};

describe("bound to loopback", () => {
  test.each("localhost localhost:8200 LOCALHOST:1 127.0.0.1 127.0.0.1:8200 [::1] [::1]:8200".split(" "))(
    "Host %s passes",
    (host) => {
      expect(outcome({ host: "127.0.0.1" }, { host })).toBe("passes");
      expect(outcome({ host: "::1" }, { host })).toBe("passes");
    },
  );

  test.each([
    "",
    ..."evil.example localhost.evil.example 127.0.0.1.evil.example:8200 evil.example:127.0.0.1".split(" "),
    ..."10.0.0.1 localhost@evil ::1 localhost: 127.0.0.2".split(" "),
  ])("Host %j is refused", (host) => {
    expect(outcome({ host: "localhost" }, { host })).toBe("forbidden_host");
  });

  test("the configured host passes too", () => {
    expect(outcome({ host: "127.0.0.2" }, { host: "127.0.0.2:8200" })).toBe("passes");
    expect(outcome({ host: "::1" }, { host: "[::1]:8200" })).toBe("passes");
  });

  test.each(["http://localhost:3000", "https://127.0.0.1", "http://[::1]:1"])(
    "Origin %s passes",
    (origin) => {
      expect(outcome({ host: "127.0.0.1" }, { host: "localhost", origin })).toBe("passes");
    },
  );

  test.each(
    "https://evil.example null http://localhost.evil.example http://evil.example/localhost file:// chrome-extension://x http://localhost@evil.example".split(
      " ",
    ),
  )("Origin %s is refused, with a key or without", (origin) => {
    expect(outcome({ host: "127.0.0.1" }, { host: "localhost", origin })).toBe("forbidden_origin");
    expect(outcome({ host: "127.0.0.1", apiKeys: ["k"] }, { host: "localhost", origin })).toBe(
      "forbidden_origin",
    );
  });
});

describe("bound to another address", () => {
  test("any Host passes; without keys a page must be the service's own", () => {
    const asked = (headers = {}) => outcome({ host: "0.0.0.0" }, { host: "svc.example:8200", ...headers });
    expect(asked()).toBe("passes");
    expect(asked({ origin: "https://svc.example:8200" })).toBe("passes");
    expect(asked({ origin: "https://evil.example" })).toBe("forbidden_origin");
    expect(asked({ origin: "null" })).toBe("forbidden_origin");
  });

  test("with keys a page of another origin is no danger: it has no key", () => {
    expect(outcome({ host: "0.0.0.0", apiKeys: ["k"] }, { host: "a", origin: "https://b" })).toBe("passes");
  });
});

test("a foreign page gets a 403 with a sentence, whatever it asks for, health included", async () => {
  const { app } = createTestApp({ apiKeys: ["k"] });
  const answer = await app.request("/health", { headers: { origin: "https://evil.example" } });
  expect(answer.status).toBe(403);
  expect(await answer.json()).toEqual({
    success: false,
    error: 'Pages of "https://evil.example" may not use this service; ask from its own origin',
    code: "forbidden_origin",
  });
});
